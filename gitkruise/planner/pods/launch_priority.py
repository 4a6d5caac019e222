"""Container launch priority: release the containers of a pod, the highest priority first.

A container cannot start before its key is in the pod's barrier ConfigMap. One round adds at most
one key: that of the highest priority among containers that are not ready. When the last key is
in, an annotation says that the order is complete.

Source: OpenKruise's container launch priority controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Create, Delete, Patch
from gitkruise.model.workloads.labels import CONTAINERS_READY
from gitkruise.model.workloads.launch_priority import (
    COMPLETED,
    barrier_key,
    barrier_of,
    launch_priority,
)
from gitkruise.model.workloads.pod import FINISHED, POD, PodFacts
from gitkruise.planner.pods.pod_patch import metadata_patch
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH

CONFIG_MAP: Final = GroupKind("", "ConfigMap")
RELEASED: Final = "true"


@dataclass(frozen=True, slots=True)
class Launch:
    """A pod with barriers, and its ConfigMap as observed."""

    pod: PodFacts
    barrier: Obj | None


def is_ordered(pod: PodFacts) -> bool:
    """Return whether any container waits at a barrier."""
    return any(launch_priority(container) is not None for container in pod.containers)


def pending(pod: PodFacts) -> list[int]:
    """Priorities of the containers that are not ready, ascending, with repeats."""
    ready = {status.name for status in pod.statuses if status.ready}
    found = (launch_priority(c) for c in pod.containers if c.name not in ready)
    return sorted(priority for priority in found if priority is not None)


def plan_launch(launch: Launch) -> list[Action]:
    """Plan the next step: create the barrier, add a key, note that the order is complete, or
    nothing."""
    pod, barrier = launch.pod, launch.barrier
    if pod.deleting or pod.phase in FINISHED or not is_ordered(pod):
        return []
    over = pod.annotations.get(COMPLETED) == RELEASED or _ready(pod)
    if barrier is None:
        # Without it no container could start again, so it comes back with all keys in it.
        return [_create(pod, _priorities(pod) if over else ())]
    if over:
        return []
    if _former(pod, barrier):
        return [Delete.of(barrier, resource_version="")]
    waiting, keys = pending(pod), get(barrier, "data", default={})
    if not waiting or barrier_key(waiting[0]) in keys:
        return [_complete(pod)]
    actions: list[Action] = []
    if barrier_key(waiting[-1]) not in keys:
        actions.append(_release(barrier, waiting[-1]))
    if waiting[0] == waiting[-1]:
        actions.append(_complete(pod))
    return actions


def _ready(pod: PodFacts) -> bool:
    condition = pod.condition(CONTAINERS_READY)
    return condition is not None and condition.true


def _former(pod: PodFacts, barrier: Obj) -> bool:
    """The barrier of a pod that had this name before: full, and about to be collected."""
    owners = [o for o in get(barrier, "metadata", "ownerReferences", default=()) if _is_pod(o)]
    return bool(owners) and all(owner.get("uid") != pod.uid for owner in owners)


def _is_pod(owner: Obj) -> bool:
    return owner.get("kind") == POD.kind and owner.get("apiVersion") == "v1"


def _priorities(pod: PodFacts) -> Iterable[int]:
    found = (launch_priority(container) for container in pod.containers)
    return [priority for priority in found if priority is not None]


def _create(pod: PodFacts, released: Iterable[int]) -> Create:
    key = barrier_of(pod.namespace, pod.name)
    owner = {"apiVersion": "v1", "kind": POD.kind, "name": pod.name, "uid": pod.uid}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": key.kind,
        "metadata": {"namespace": key.namespace, "name": key.name, "ownerReferences": [owner]},
    }
    if data := {barrier_key(priority): RELEASED for priority in released}:
        body["data"] = data
    return Create(obj=body)


def _release(barrier: Obj, priority: int) -> Patch:
    body = {"data": {barrier_key(priority): RELEASED}}
    return Patch.of(barrier, body, content_type=STRATEGIC_PATCH)


def _complete(pod: PodFacts) -> Patch:
    return metadata_patch(pod, {"annotations": {COMPLETED: RELEASED}})
