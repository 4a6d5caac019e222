"""Molds: a pod as it was admitted, for siblings that would be admitted alike.

Controllers make thousands of pods of one template. What admission makes of a pod depends on its
spec, on the priority classes, and where there are SidecarSets on them, its labels, its annotations
and its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from gitkruise.model.labels import INSTANCE_ID, LAUNCH_BARRIER, SIDECARSET
from gitkruise.model.launch_priority import ANNOTATION
from gitkruise.model.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.wire.names import GroupKind, Obj, controller_of
from gitkruise.wire.patches import same
from gitkruise.wire.paths import get
from gitkruise.wire.times import format_time

_STAMPED: Final = (HASH, HASH_WITHOUT_IMAGE)
# What admission of a pod rests on; namespaces only where SidecarSets may select some.
_GROUND: Final = (
    SIDECARSET,
    GroupKind("scheduling.k8s.io", "PriorityClass"),
    GroupKind("", "Namespace"),
)
_MOLDS_MAX: Final = 1_000


def differ(old: Sequence[Obj], new: Sequence[Obj]) -> bool:
    """Whether any of these objects was written since, or one came or went."""
    return len(old) != len(new) or any(a is not b for a, b in zip(old, new, strict=True))


class Admitting(Protocol):
    """What tells whether admission still rests on the same: a cluster's State."""

    version: int

    def changed(self, group_kind: GroupKind, since: int) -> bool:
        """Whether an object of that kind may have been written after version `since`."""
        ...

    def objects(self, group_kind: GroupKind, namespace: str = "") -> Sequence[Obj]:
        """All objects of that kind."""
        ...


class Mold(NamedTuple):
    """A pod as sent and as admitted, at what version of the cluster, and whether it has sets."""

    sent: Obj
    made: Obj
    version: int
    now: datetime
    injected: bool  # there are SidecarSets

    def fits(self, sent: Obj, state: Admitting) -> bool:
        """Whether a pod that is sent now would be admitted as the mold was."""
        if not self._still(state) or not _same_body(self.sent, sent):
            return False
        if _wishes_order(self.sent) != _wishes_order(sent):
            return False
        return not self.injected or _marks(self.sent) == _marks(sent)

    def _still(self, state: Admitting) -> bool:
        """Whether nothing changed since that admission rests on; no set asks for a namespace."""
        for kind in _GROUND if self.injected else _GROUND[:2]:
            if state.changed(kind, self.version):
                return False
        return True

    def owned_alike(self, meta: Obj) -> bool:
        """Whether a sibling with these metadata has the very fields that the mold has."""
        mine = {k: v for k, v in self.made["metadata"].items() if k != "managedFields"}
        return mine.keys() == meta.keys() and all(_alike(mine[k], meta[k]) for k in mine)

    def metadata(self, meta: Obj, now: datetime) -> Obj:
        """`meta` of the new pod, with the annotations injection gave the mold."""
        if not self.injected:
            return meta
        notes = dict(self.made["metadata"].get("annotations") or {})
        before, after = format_time(self.now), format_time(now)
        for key in _STAMPED if before != after else ():
            if key in notes:
                notes[key] = notes[key].replace(before, after)
        return {**meta, "annotations": notes} if notes else meta


class Molds:
    """The last mold of each controller's pods, and of pods that nobody controls by namespace."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, Mold] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, sent: Obj, state: Admitting) -> Mold | None:
        """The mold a new pod fits."""
        found = self._kept.get(_whose(sent))
        return found if found is not None and found.fits(sent, state) else None

    def keep(self, sent: Obj, made: Obj, state: Admitting, now: datetime) -> None:
        """Remember a pod that was admitted; the oldest mold goes where there are too many."""
        whose = _whose(sent)
        self._kept.pop(whose, None)
        if not leaves_mold(sent, made, sets := state.objects(SIDECARSET)):
            return
        if len(self._kept) >= _MOLDS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[whose] = Mold(sent, made, state.version, now, bool(sets))


def _whose(sent: Obj) -> str:
    owner = controller_of(sent)
    return str(owner["uid"]) if owner else "/" + str(sent["metadata"]["namespace"])


def leaves_mold(sent: Obj, made: Obj, sets: Iterable[Obj]) -> bool:
    """Whether siblings of a pod are admitted as it was, where there are these SidecarSets.

    Not where a barrier carries its name, where lots or old revisions decide, where a set looks
    at what tells siblings apart, and where the pod brought marks of its own.
    """
    notes = get(sent, "metadata", "annotations", default={})
    own = _names_its_pod(made) or any(key in notes for key in _STAMPED)
    return not own and not any(_particular(raw) for raw in sets)


def _names_its_pod(made: Obj) -> bool:
    return any(
        variable.get("name") == LAUNCH_BARRIER
        for container in made["spec"]["containers"]
        for variable in container.get("env") or ()
    )


def _particular(raw: Obj) -> bool:
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
    """Whether two objects are alike in all but their metadata."""
    if one.keys() != other.keys():
        return False
    for name, part in one.items():
        if name != "metadata" and part is not other[name] and not same(part, other[name]):
            return False
    return True


def _marks(sent: Obj) -> tuple[Obj, Obj]:
    """Labels and annotations, but for what names this one pod."""
    meta = sent["metadata"]
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != INSTANCE_ID}
    return labels, meta.get("annotations") or {}


def _wishes_order(sent: Obj) -> Any:
    return (sent["metadata"].get("annotations") or {}).get(ANNOTATION)


def _alike(one: Any, other: Any) -> bool:
    """Whether two parts of metadata consist of the same fields; entries of lists are fields."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys()
    return not isinstance(one, list) or bool(one == other)
