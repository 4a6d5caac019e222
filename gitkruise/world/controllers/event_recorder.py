"""core/v1 Events in the model cluster: one counted object per subject, reason and message."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.planning.plan import Event
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.controllers.client import ObjectWriter

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

MESSAGE_MAX: Final = 1024


def record(
    world: World, subject: Obj, event: Event, now: datetime, *, component: str, host: str = ""
) -> None:
    """Write `event` about `subject`, or count it up when the same was written before.

    Nothing is written about a subject in a namespace that is going away. Raises ApiError.
    """
    meta = subject["metadata"]
    namespace = meta.get("namespace") or "default"
    space = world.get(ObjectKey("", "Namespace", "", namespace))
    if space is None or space["metadata"].get("deletionTimestamp"):
        return
    text = "\0".join((meta.get("uid") or "", event.type, event.reason, event.message, component))
    name = f"{meta['name']}.{sha256(text.encode()).hexdigest()[:16]}"
    seen = world.get(ObjectKey("", "Event", namespace, name))
    stamp, writer = format_time(now), ObjectWriter(component)
    if seen is not None:
        body: Any = {"count": (seen.get("count") or 0) + 1, "lastTimestamp": stamp}
        writer.patch(world, seen, body, now)
        return
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": subject["apiVersion"],
            "kind": subject["kind"],
            "name": meta["name"],
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
            "uid": meta.get("uid") or "",
            "resourceVersion": meta.get("resourceVersion") or "",
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:MESSAGE_MAX],
        "source": {"component": component, **({"host": host} if host else {})},
        "reportingComponent": component,
        "reportingInstance": host,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    writer.create(world, body, now)
