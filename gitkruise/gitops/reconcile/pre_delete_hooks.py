"""Pre-delete hooks: Jobs that run before the objects of a removed unit are deleted."""

from __future__ import annotations

from collections.abc import Mapping

from gitkruise.errors import Finding, Severity
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.sync_round import Live
from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.planner.sync.hooks import LAST, hook_of, over
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import merge_request


async def run_last_jobs(
    unit: str, live: Mapping[ObjectKey, Live], view: LiveView, transport: Transport
) -> Finding | None:
    """Resume the unit's pre-delete Jobs, all together; return what delays the deletion.

    The cluster holds them suspended since they came with git. None when all succeeded or there are
    none. Raises ApiError.
    """
    running = None
    for key, there in sorted(live.items()):
        if not _is_last(there.obj):
            continue
        ended = over(there.obj)
        if "Failed" in ended:
            return _failed(unit, key)
        if not ended:
            running = key
            if get(there.obj, "spec", "suspend"):
                await _wake(key, view, transport)
    return _runs(unit, running) if running else None


def _is_last(obj: Obj) -> bool:
    try:
        return hook_of(obj) == LAST and not obj["metadata"].get("deletionTimestamp")
    except ValueError:
        return False


async def _wake(key: ObjectKey, view: LiveView, transport: Transport) -> None:
    kind = view.catalog.stored(key.group_kind)
    if kind is None:
        return  # its definition is gone, and with it every object
    body = {"spec": {"suspend": False}}
    request = merge_request(kind.ref, key.name, body, MANAGER, namespace=key.namespace)
    view.store.note_write((await transport.send(request)).body)


def _runs(unit: str, key: ObjectKey) -> Finding:
    return Finding(
        code="GK2311",
        message=f"unit {unit} left the configuration, and {key} runs before its objects go",
        notes=(("why", "it is marked as a pre-delete hook"),),
        severity=Severity.WARNING,
        object=str(key),
    )


def _failed(unit: str, key: ObjectKey) -> Finding:
    where = f" -n {key.namespace}" if key.namespace else ""
    return Finding(
        code="GK2312",
        message=f"unit {unit} left the configuration, and its pre-delete hook {key} failed",
        notes=(
            ("unchanged", "no object of the unit was deleted; nothing keeps them as git wants"),
            ("next", f"see why: kubectl logs job/{key.name}{where}"),
            ("or", f"go on without it: kubectl delete job {key.name}{where}"),
            ("or", "put the unit back with deletionPolicy Orphan, and take it out again"),
        ),
        object=str(key),
    )
