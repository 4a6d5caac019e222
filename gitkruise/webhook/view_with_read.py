"""View of a cluster with objects that were read for one review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey


class WithRead:
    """A view with some objects, and whole kinds of a namespace, that were read live."""

    def __init__(
        self,
        view: ClusterView,
        found: Mapping[ObjectKey, Obj],
        listed: Mapping[tuple[GroupKind, str], Sequence[Obj]] | None = None,
    ) -> None:
        self._view, self._found, self._listed = view, found, listed or {}

    def get(self, key: ObjectKey) -> Obj | None:
        return self._found.get(key) or self._view.get(key)

    def pod(self, key: ObjectKey) -> PodFacts | None:
        found = self._found.get(key)
        return pod_facts(found) if found else self._view.pod(key)

    def objects(self, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        known = self._listed.get((group_kind, namespace))
        return self._view.objects(group_kind, namespace) if known is None else known

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        return self._view.owned(uid, group_kind, namespace)

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        return self._view.pods_of(uid, namespace)

    def pods(self, namespace: str) -> Sequence[PodFacts]:
        return self._view.pods(namespace)
