"""View: the read side every observer needs, whether a live store or the model cluster answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey


class ClusterView(Protocol):
    """Objects as last observed, our own writes included. Answers are in name order."""

    def get(self, key: ObjectKey) -> Obj | None:
        """The object, or None when it does not exist."""
        ...

    def objects(self, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        """All objects of a kind in a namespace ("" for all namespaces or cluster-scoped kinds)."""
        ...

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> Sequence[Obj]:
        """Objects with any owner reference, controller or not, that carries `uid`.

        A uid of "" means objects without owner references.
        """
        ...

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        """Facts of the pods with any owner reference that carries `uid`; "": as in `owned`."""
        ...

    def pod(self, key: ObjectKey) -> PodFacts | None:
        """Facts of one pod, or None when it does not exist."""
        ...

    def pods(self, namespace: str) -> Sequence[PodFacts]:
        """Facts of all pods of a namespace ("" for all namespaces), of every owner."""
        ...
