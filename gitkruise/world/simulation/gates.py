"""The controllers outside a forecast that pods wait for, as one component of its cluster.

A load balancer's controller sets the condition of a readiness gate, a queue takes a scheduling
gate away, and the controller of a lifecycle hook takes the hook's labels and finalizers off a pod
and puts them back. A forecast does not know when: it plays each as soon as a pod waits for it. A
condition that is set already stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Hook, Lifecycle, lifecycle_of
from gitkruise.model.workloads.pod import LifecycleState
from gitkruise.wire.primitives.names import (
    GroupKind,
    Obj,
    ObjectKey,
    controller_of,
    split_api_version,
)
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.controllers.client import ObjectWriter, write_status

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

_POD: Final = GroupKind("", "Pod")
_WRITER: Final = ObjectWriter("gates")
# Conditions that OpenKruise's controllers set, which the forecast plays.
_PLAYED: Final = frozenset({wire.INPLACE_READY, wire.KRUISE_READY})
_ON, _OFF = True, False
# By the state in which a pod waits: the hook, and whether its handlers are to be on the pod.
_AWAITED: Final[Mapping[str, tuple[Callable[[Lifecycle], Hook | None], bool]]] = {
    LifecycleState.PREPARING_NORMAL: (lambda rules: rules.pre_normal, _ON),
    LifecycleState.PREPARING_UPDATE: (lambda rules: rules.in_place_update, _OFF),
    LifecycleState.UPDATED: (lambda rules: rules.in_place_update, _ON),
    LifecycleState.PREPARING_DELETE: (lambda rules: rules.pre_delete, _OFF),
}


class GateOpener:
    """Opens the gates of all pods that no controller of the forecast opens."""

    def __init__(self) -> None:
        self._seen: int | None = None

    def run(self, world: World, now: datetime) -> None:
        """Open the gates of the pods that changed. Nothing is due later without a change."""
        for pod in self._changed(world):
            if pod["spec"].get("schedulingGates"):
                _WRITER.patch(world, pod, {"spec": {"schedulingGates": None}}, now)
            elif missing := _unset(pod):
                _set(world, pod, missing, now)
            elif handlers := _handled(world, pod):
                _WRITER.patch(world, pod, {"metadata": handlers}, now)

    def _changed(self, world: World) -> Iterable[Obj]:
        records = world.changes_since(self._seen)
        self._seen = world.version
        if records is None:
            return world.objects(_POD)
        latest = {r.key: r.after for r in records if r.key[:2] == _POD}
        return [pod for pod in latest.values() if pod is not None]


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
    write_status(world, pod, {**status, "conditions": conditions}, now, user=_WRITER.user)


def _true(types: Iterable[str], now: datetime) -> Iterator[Obj]:
    for type_ in types:
        yield {"type": type_, "status": "True", "lastTransitionTime": format_time(now)}


def _handled(world: World, pod: Obj) -> Obj:
    """The metadata that lets a pod leave its lifecycle state; empty for one that may."""
    meta = pod["metadata"]
    awaited = _AWAITED.get(get(meta, "labels", wire.LIFECYCLE_STATE, default=""))
    ref = controller_of(pod) if awaited and not meta.get("deletionTimestamp") else None
    if awaited is None or ref is None:
        return {}
    group, _ = split_api_version(ref["apiVersion"])
    owner = world.get(ObjectKey(group, ref["kind"], meta["namespace"], ref["name"]))
    rules = lifecycle_of(get(owner or {}, "spec", "lifecycle"))
    hook = awaited[0](rules) if rules else None
    return _moved(hook, meta, put=awaited[1]) if hook else {}


def _moved(hook: Hook, meta: Obj, *, put: bool) -> Obj:
    """The metadata that puts the handlers of a hook on a pod, or takes them off."""
    labels, there = meta.get("labels") or {}, meta.get("finalizers") or []
    change: dict[str, Any] = {}
    wrong = {k: v for k, v in hook.labels.items() if (labels.get(k) == v) is not put}
    if wrong:
        change["labels"] = wrong if put else dict.fromkeys(wrong)
    wanted = [name for name in there if put or name not in hook.finalizers]
    wanted += [name for name in hook.finalizers if put and name not in there]
    if wanted != there:
        change["finalizers"] = wanted
    return change
