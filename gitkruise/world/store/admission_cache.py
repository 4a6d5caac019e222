"""Cache of admitted pods: reused for siblings that admission would treat the same.

Controllers create thousands of pods of one template. The result of admission depends on a pod's
spec, on the priority classes and, if there are SidecarSets, on them and on the pod's labels,
annotations and namespace. Pods of a namespace with PodUnavailableBudgets or WorkloadSpreads are
not reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from gitkruise.model.workloads.labels import BUDGET, INSTANCE_ID, LAUNCH_BARRIER, SIDECARSET, SPREAD
from gitkruise.model.workloads.launch_priority import ANNOTATION
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.wire.patch.json_patch import same
from gitkruise.wire.primitives.names import GroupKind, Obj, controller_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time

_STAMPED: Final = (HASH, HASH_WITHOUT_IMAGE)
# Kinds that admission of a pod reads; namespaces only if SidecarSets may select some.
_GROUND: Final = (
    SIDECARSET,
    GroupKind("scheduling.k8s.io", "PriorityClass"),
    GroupKind("", "Namespace"),
)
_MOLDS_MAX: Final = 1_000


def differ(old: Sequence[Obj], new: Sequence[Obj]) -> bool:
    """Return whether any of these objects was written, created or deleted."""
    return len(old) != len(new) or any(a is not b for a, b in zip(old, new, strict=True))


class AdmissionInputs(Protocol):
    """Versions and objects that admission depends on: a cluster's ObjectStore."""

    version: int

    def changed(self, group_kind: GroupKind, since: int) -> bool:
        """Return whether an object of that kind may have been written after version `since`."""
        ...

    def objects(self, group_kind: GroupKind, namespace: str = "") -> Sequence[Obj]:
        """All objects of that kind."""
        ...


class AdmittedPod(NamedTuple):
    """A pod as sent and as admitted, and the version of the cluster."""

    sent: Obj
    made: Obj
    version: int
    now: datetime
    injected: bool  # there are SidecarSets

    def fits(self, sent: Obj, state: AdmissionInputs) -> bool:
        """Return whether a pod that is sent now would be admitted the same way."""
        if not self._is_current(state) or not _same_body(self.sent, sent):
            return False
        if _launch_priority(self.sent) != _launch_priority(sent):
            return False
        return not self.injected or _selected_metadata(self.sent) == _selected_metadata(sent)

    def _is_current(self, state: AdmissionInputs) -> bool:
        """Return whether no input of admission changed."""
        for kind in _GROUND if self.injected else _GROUND[:2]:
            if state.changed(kind, self.version):
                return False
        return True

    def has_same_fields(self, meta: Obj) -> bool:
        """Return whether a sibling with these metadata has exactly the same fields."""
        mine = {k: v for k, v in self.made["metadata"].items() if k != "managedFields"}
        return mine.keys() == meta.keys() and all(_same_fields(mine[k], meta[k]) for k in mine)

    def metadata(self, meta: Obj, now: datetime) -> Obj:
        """Return `meta` of the new pod with the annotations of injection."""
        if not self.injected:
            return meta
        notes = dict(self.made["metadata"].get("annotations") or {})
        before, after = format_time(self.now), format_time(now)
        for key in _STAMPED if before != after else ():
            if key in notes:
                notes[key] = notes[key].replace(before, after)
        return {**meta, "annotations": notes} if notes else meta


class AdmissionCache:
    """The last admitted pod of each controller, and of each namespace for pods without one."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, AdmittedPod] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, sent: Obj, state: AdmissionInputs) -> AdmittedPod | None:
        """Return the admitted pod that fits a new one."""
        found = self._kept.get(_cache_key(sent))
        if found is not None and _differ_by_pod(sent, state):
            return None
        return found if found is not None and found.fits(sent, state) else None

    def keep(self, sent: Obj, made: Obj, state: AdmissionInputs, now: datetime) -> None:
        """Keep an admitted pod; evicts the oldest entry above the limit."""
        whose = _cache_key(sent)
        self._kept.pop(whose, None)
        if _differ_by_pod(sent, state):
            return
        if not is_reusable(sent, made, sets := state.objects(SIDECARSET)):
            return
        if len(self._kept) >= _MOLDS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[whose] = AdmittedPod(sent, made, state.version, now, bool(sets))


def _differ_by_pod(sent: Obj, state: AdmissionInputs) -> bool:
    """Return whether an annotation names the budget or the subset of each pod."""
    namespace = sent["metadata"]["namespace"]
    return any(state.objects(kind, namespace) for kind in (BUDGET, SPREAD))


def _cache_key(sent: Obj) -> str:
    owner = controller_of(sent)
    return str(owner["uid"]) if owner else "/" + str(sent["metadata"]["namespace"])


def is_reusable(sent: Obj, made: Obj, sets: Iterable[Obj]) -> bool:
    """Return whether siblings of a pod are admitted like it, given these SidecarSets.

    False if a launch barrier contains the pod's name, if a set pins a revision or reads the
    instance id, and if the pod already carried annotations of injection.
    """
    notes = get(sent, "metadata", "annotations", default={})
    own = _names_its_pod(made) or any(key in notes for key in _STAMPED)
    return not own and not any(_depends_on_pod(raw) for raw in sets)


def _names_its_pod(made: Obj) -> bool:
    return any(
        variable.get("name") == LAUNCH_BARRIER
        for container in made["spec"]["containers"]
        for variable in container.get("env") or ()
    )


def _depends_on_pod(raw: Obj) -> bool:
    spec: Obj = raw.get("spec") or {}
    pinned = get(spec, "injectionStrategy", "revision") is not None
    return pinned or any(INSTANCE_ID in text for text in _texts(spec))


def _texts(value: Any) -> Iterator[str]:
    """Every key and every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)


def body_of(obj: Obj) -> Obj:
    """All of an object but its metadata."""
    return {name: value for name, value in obj.items() if name != "metadata"}


def _same_body(one: Obj, other: Obj) -> bool:
    """Return whether two objects are equal except for their metadata."""
    if one.keys() != other.keys():
        return False
    for name, part in one.items():
        if name != "metadata" and part is not other[name] and not same(part, other[name]):
            return False
    return True


def _selected_metadata(sent: Obj) -> tuple[Obj, Obj]:
    """Return labels and annotations without the instance id of the pod."""
    meta = sent["metadata"]
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != INSTANCE_ID}
    return labels, meta.get("annotations") or {}


def _launch_priority(sent: Obj) -> Any:
    return (sent["metadata"].get("annotations") or {}).get(ANNOTATION)


def _same_fields(one: Any, other: Any) -> bool:
    """Return whether two parts of metadata have the same fields; entries of lists are fields."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys()
    return not isinstance(one, list) or bool(one == other)
