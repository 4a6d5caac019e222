"""The node agents of all simulated nodes, as one component of the cluster.

It runs before the kubelet of the same instant: what it stops, the kubelet plays. Everything it acts
on is read from objects, so that a new agent continues where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.model.node.node_image import NODE_IMAGE
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.node_agent.container_meta import concerns, keep_environment
from gitkruise.world.node_agent.pulls import PullAgents, is_node_image
from gitkruise.world.node_agent.recreate import RecreateAgents

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

_POD: Final = GroupKind("", "Pod")
_WATCHED: Final = (_POD, NODE_IMAGE, RECREATE)


class NodeAgents:
    """The agent of each node of `kubelet`."""

    def __init__(self, kubelet: Kubelet, report: Report | None = None) -> None:
        self._kubelet = kubelet
        self._recreate = RecreateAgents(kubelet)
        self._pulls = PullAgents(kubelet.profile)
        self._seen: int | None = None
        self._due: dict[ObjectKey, datetime] = {}  # what to look at again without a change
        self._backoff = ObjectBackoff(report)

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        self._backoff.retry(now)
        due = {key for key, at in self._due.items() if at <= now}
        for key in sorted(due.union(self._changed(world))):
            self._due.pop(key, None)
            self._backoff.attempt(key, now, self._look_after, world, key)
        return earliest(*self._due.values(), self._backoff.next())

    def _changed(self, world: World) -> Iterable[ObjectKey]:
        """Changed pods that concern an agent, those that changed requests name, and changed
        NodeImages."""
        records = world.changes_since(self._seen)
        self._seen = world.version
        if records is None:
            whole = (obj for kind in _WATCHED for obj in world.objects(kind))
            return set(self._touched(world, ((key_of(obj), obj) for obj in whole)))
        return set(self._touched(world, ((r.key, r.after or r.before or {}) for r in records)))

    def _touched(
        self, world: World, changes: Iterable[tuple[ObjectKey, Obj]]
    ) -> Iterator[ObjectKey]:
        requested = world.state.knows(RECREATE)
        for key, obj in changes:
            kind = key[:2]
            if kind == NODE_IMAGE or (kind == _POD and (requested or _may_concern(obj))):
                yield key
            elif kind == RECREATE:
                yield _pod_of(obj)

    def _look_after(self, world: World, key: ObjectKey, now: datetime) -> None:
        if is_node_image(key):
            if at := self._pulls.run(world, key, now):
                self._due[key] = at
            return
        pod = world.get(key)
        if pod is not None and concerns(pod):
            keep_environment(world, self._kubelet, pod, now)
        if world.state.knows(RECREATE) and (at := self._recreate.run(world, key, now)):
            self._due[key] = at


def _may_concern(pod: Obj) -> bool:
    """Return whether an agent has to look at a pod; also at one that cannot be read, so that its
    look fails and holds up no other."""
    try:
        return concerns(pod)
    except (AttributeError, KeyError, TypeError):
        return True


def _pod_of(request: Obj) -> ObjectKey:
    name = str((request.get("spec") or {}).get("podName") or "")
    return ObjectKey(*_POD, request["metadata"]["namespace"], name)
