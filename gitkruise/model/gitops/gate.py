"""The gate of a rollout in git: the partition of a CloneSet, SidecarSet or StatefulSet, the canary
of a Deployment. Both say in the manifest how many pods an update may reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.gitops.document import Document, FieldPath
from gitkruise.model.planning.canary import ANNOTATION, PLAIN, Canary, canary_of
from gitkruise.model.workloads.labels import CLONESET, DAEMONSET, DEPLOYMENT, STATEFULSET
from gitkruise.model.workloads.rollout_kinds import STATEFUL
from gitkruise.wire.primitives.names import GroupKind, key_of, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import Partition

Amount = int | str
_NOTES: Final = ("metadata", "annotations")


@dataclass(frozen=True, slots=True)
class RolloutGate:
    """A value of the gate of one kind, as written; None where the manifest has none."""

    kind: GroupKind
    value: Amount | None

    def kept(self, pods: int) -> int:
        """Those of `pods` that stay on their revision. Raises ValueError."""
        if self.kind != DEPLOYMENT:
            return Partition(self.value).kept(pods)
        canary = self._canary()
        reached = canary.pods(pods) if canary else None
        return 0 if reached is None else pods - reached

    def keeps_none(self, pods: int) -> bool:
        """Return whether no pod stays: of a partition, however many there are. Raises
        ValueError."""
        if self.kind == DEPLOYMENT:
            return self.kept(pods) == 0
        return Partition(self.value).keeps_none()

    def _canary(self) -> Canary | None:
        return None if self.value is None else canary_of({ANNOTATION: str(self.value)})

    @property
    def noun(self) -> str:
        return "canary" if self.kind == DEPLOYMENT else "partition"

    def __str__(self) -> str:
        if self.kind == DEPLOYMENT:
            return "no canary" if self.value is None else f"canary {self.value}"
        return f"partition {Partition(self.value).text}"


def counted(gate: RolloutGate, pods: int) -> RolloutGate:
    """The gate as its kind can write it: the partition of a StatefulSet is a number. Raises
    ValueError."""
    return RolloutGate(gate.kind, gate.kept(pods)) if gate.kind in STATEFUL else gate


def lacking(kind: GroupKind, verb: str) -> str:
    """Return why a kind has no field for a verb, or ""."""
    if kind == DAEMONSET and verb in {"promote", "hold"}:
        return "a DaemonSet has no partition"
    if kind in {STATEFULSET, DAEMONSET} and verb in {"pause", "resume"}:
        return f"a {kind.kind} has no field that pauses it"
    return ""


def open_gate(kind: GroupKind) -> RolloutGate:
    """The gate that keeps no pod."""
    return RolloutGate(kind, "100%" if kind == DEPLOYMENT else 0)


def keeping(kind: GroupKind, kept: int, pods: int) -> RolloutGate:
    """The gate that keeps a number of `pods`."""
    if kind != DEPLOYMENT:
        return RolloutGate(kind, kept)
    return RolloutGate(kind, str(max(pods - kept, 0))) if kept > 0 else open_gate(kind)


def gate_of(document: Document) -> RolloutGate:
    """The gate that a manifest has."""
    value = get(document.obj, *strategy_path(document, "partition"))
    return RolloutGate(key_of(document.obj).group_kind, value)


def replicas_of(document: Document) -> int:
    """Pods that a manifest asks for, 1 where it does not say."""
    count: Any = get(document.obj, "spec", "replicas", default=1)
    return count if isinstance(count, int) else 1


def strategy_path(document: Document, field: str) -> FieldPath:
    """Return the path of an update strategy field, by the kind and version of the document.

    CloneSet moved them below rollingUpdate in v1beta1, where StatefulSet has them as well;
    SidecarSet has them in one place. The partition of a Deployment is its canary, under the key
    that the manifest uses.
    """
    group, version = split_api_version(str(document.obj["apiVersion"]))
    kind = GroupKind(group, str(document.obj.get("kind")))
    if kind == DEPLOYMENT:
        return _deployment_path(document, field)
    moved = kind in STATEFUL or (kind == CLONESET and version != "v1alpha1")
    return ("spec", "updateStrategy", *(("rollingUpdate",) if moved else ()), field)


def _deployment_path(document: Document, field: str) -> FieldPath:
    if field != "partition":
        return ("spec", field)
    notes = get(document.obj, *_NOTES, default={})
    plain = PLAIN in notes and ANNOTATION not in notes
    return (*_NOTES, PLAIN if plain else ANNOTATION)
