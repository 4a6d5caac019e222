"""The controllers outside a forecast that pods wait for, as one component of its cluster.

A load balancer's controller sets the condition of a readiness gate, a queue takes a scheduling
gate away. A forecast does not know when: it plays both as soon as a pod has the gate. A condition
that is set already stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiRequest
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.controllers.client import write_status

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

_POD: Final = GroupKind("", "Pod")
_USER: Final = "gates"
# Conditions that OpenKruise's controllers set, which the forecast plays.
_PLAYED: Final = frozenset({wire.INPLACE_READY, wire.KRUISE_READY})


class GateOpener:
    """Opens the gates of all pods that no controller of the forecast opens."""

    def __init__(self) -> None:
        self._seen: int | None = None

    def run(self, world: World, now: datetime) -> None:
        """Open the gates of the pods that changed. Nothing is due later without a change."""
        for pod in list(self._changed(world)):
            if pod["spec"].get("schedulingGates"):
                _schedule(world, pod, now)
            elif missing := _unset(pod):
                _set(world, pod, missing, now)

    def _changed(self, world: World) -> Iterable[Obj]:
        records = world.changes_since(self._seen)
        self._seen = world.version
        if records is None:
            return world.objects(_POD)
        keys = dict.fromkeys(r.key for r in records if r.key[:2] == _POD)
        return (pod for key in keys if (pod := world.get(key)) is not None)


def _unset(pod: Obj) -> list[str]:
    """The readiness gates of a pod on a node whose conditions nothing has set."""
    gates = pod["spec"].get("readinessGates")
    if not gates or not pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return []
    others = [gate["conditionType"] for gate in gates if gate["conditionType"] not in _PLAYED]
    known = (pod.get("status") or {}).get("conditions") or () if others else ()
    return [type_ for type_ in others if all(c["type"] != type_ for c in known)]


def _set(world: World, pod: Obj, types: Iterable[str], now: datetime) -> None:
    status: Obj = pod.get("status") or {}
    conditions = [*(status.get("conditions") or ()), *_true(types, now)]
    write_status(world, pod, {**status, "conditions": conditions}, now, user=_USER)


def _true(types: Iterable[str], now: datetime) -> Iterator[Obj]:
    for type_ in types:
        yield {"type": type_, "status": "True", "lastTransitionTime": format_time(now)}


def _schedule(world: World, pod: Obj, now: datetime) -> None:
    meta = pod["metadata"]
    request = ApiRequest(
        verb="patch",
        resource=PODS,
        namespace=meta["namespace"],
        name=meta["name"],
        body={"spec": {"schedulingGates": None}},
        content_type=MERGE_PATCH,
    )
    world.handle(request, now, user=_USER)
