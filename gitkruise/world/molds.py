"""Molds: a pod as it was admitted, for siblings that would be admitted alike.

Controllers make thousands of pods of one template. What admission makes of a pod depends on its
spec, on the priority classes, and where there are SidecarSets on them, its labels, its annotations
and its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.model.labels import INSTANCE_ID, LAUNCH_BARRIER, SIDECARSET
from gitkruise.model.launch_priority import ANNOTATION
from gitkruise.model.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.model.view import View
from gitkruise.wire.names import GroupKind, Obj, ObjectKey, controller_of
from gitkruise.wire.patches import same
from gitkruise.wire.paths import get
from gitkruise.wire.times import format_time

_STAMPED: Final = (HASH, HASH_WITHOUT_IMAGE)
_CLASSES: Final = GroupKind("scheduling.k8s.io", "PriorityClass")
_MOLDS_MAX: Final = 1_000


class Ground(NamedTuple):
    """What admission rests on but the pod: SidecarSets, their pod's namespace, priority classes.

    Without a set no namespace matters, and it is None.
    """

    sets: Sequence[Obj]
    namespace: Obj | None
    classes: Sequence[Obj]

    def still(self, now: Ground) -> bool:
        """Whether nothing was written since."""
        unlike = self.namespace is not now.namespace
        return not (unlike or differ(self.sets, now.sets) or differ(self.classes, now.classes))


def differ(old: Sequence[Obj], new: Sequence[Obj]) -> bool:
    """Whether any of these objects was written since, or one came or went."""
    return len(old) != len(new) or any(a is not b for a, b in zip(old, new, strict=True))


class Mold(NamedTuple):
    """A pod as sent and as admitted, and what that rested on."""

    sent: Obj
    made: Obj
    ground: Ground
    now: datetime

    def fits(self, sent: Obj, ground: Ground) -> bool:
        """Whether a pod that is sent now would be admitted as the mold was."""
        if not same(body_of(self.sent), body_of(sent)) or not self.ground.still(ground):
            return False
        if _wishes_order(self.sent) != _wishes_order(sent):
            return False
        return not ground.sets or _marks(self.sent) == _marks(sent)

    def owned_alike(self, meta: Obj) -> bool:
        """Whether a sibling with these metadata has the very fields that the mold has."""
        mine = {k: v for k, v in self.made["metadata"].items() if k != "managedFields"}
        return mine.keys() == meta.keys() and all(_alike(mine[k], meta[k]) for k in mine)

    def metadata(self, meta: Obj, now: datetime) -> Obj:
        """`meta` of the new pod, with the annotations injection gave the mold."""
        if not self.ground.sets:
            return meta
        notes = dict(self.made["metadata"].get("annotations") or {})
        before, after = format_time(self.now), format_time(now)
        for key in _STAMPED if before != after else ():
            if key in notes:
                notes[key] = notes[key].replace(before, after)
        return {**meta, "annotations": notes} if notes else meta


def ground_of(view: View, namespace: str) -> Ground:
    """What admission of a pod into a namespace rests on now."""
    sets = view.objects(SIDECARSET, "")
    space = view.get(ObjectKey("", "Namespace", "", namespace)) if sets else None
    return Ground(sets, space, view.objects(_CLASSES, ""))


class Molds:
    """The last mold of each controller's pods, and of pods that nobody controls by namespace."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, Mold] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, sent: Obj, view: View) -> Mold | None:
        """The mold a new pod fits."""
        found = self._kept.get(_whose(sent))
        if found is None or not found.fits(sent, ground_of(view, sent["metadata"]["namespace"])):
            return None
        return found

    def keep(self, sent: Obj, made: Obj, view: View, now: datetime) -> None:
        """Remember a pod that was admitted; the oldest mold goes where there are too many."""
        whose, ground = _whose(sent), ground_of(view, sent["metadata"]["namespace"])
        self._kept.pop(whose, None)
        mold = mold_of(sent, made, ground, now)
        if mold is None:
            return
        if len(self._kept) >= _MOLDS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[whose] = mold


def _whose(sent: Obj) -> str:
    owner = controller_of(sent)
    return str(owner["uid"]) if owner else "/" + str(sent["metadata"]["namespace"])


def mold_of(sent: Obj, made: Obj, ground: Ground, now: datetime) -> Mold | None:
    """The mold a pod leaves; None where its siblings may be admitted otherwise.

    That is where a barrier carries its name, where lots or old revisions decide, where a set looks
    at what tells siblings apart, and where the pod brought marks of its own.
    """
    notes = get(sent, "metadata", "annotations", default={})
    own = _names_its_pod(made) or any(key in notes for key in _STAMPED)
    if own or any(_particular(raw) for raw in ground.sets):
        return None
    return Mold(sent, made, ground, now)


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


def _marks(sent: Obj) -> tuple[Obj, Obj]:
    """Labels and annotations, but for what names this one pod."""
    meta = sent["metadata"]
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != INSTANCE_ID}
    return labels, meta.get("annotations") or {}


def _wishes_order(sent: Obj) -> Any:
    return get(sent, "metadata", "annotations", ANNOTATION)


def _alike(one: Any, other: Any) -> bool:
    """Whether two parts of metadata consist of the same fields; entries of lists are fields."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys()
    return not isinstance(one, list) or bool(one == other)
