"""Molds: a pod as it was admitted, for siblings that would be admitted alike.

A forecast makes thousands of pods of one template. What admission makes of a pod depends on its
spec, and where there are SidecarSets on them, its labels, its annotations and its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.model.labels import INSTANCE_ID, LAUNCH_BARRIER, SIDECARSET
from gitkruise.model.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.model.view import View
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.patches import same
from gitkruise.wire.paths import get
from gitkruise.wire.times import format_time

_STAMPED: Final = (HASH, HASH_WITHOUT_IMAGE)


class Mold(NamedTuple):
    """A pod as sent and as admitted. `ground`: the SidecarSets there were, and the namespace."""

    sent: Obj
    made: Obj
    ground: tuple[Obj | None, ...]
    now: datetime

    def fits(self, sent: Obj, ground: tuple[Obj | None, ...]) -> bool:
        """Whether a pod that is sent now would be admitted as the mold was."""
        if not same(_body(self.sent), _body(sent)) or len(ground) != len(self.ground):
            return False
        if any(mine is not theirs for mine, theirs in zip(self.ground, ground, strict=True)):
            return False
        return not ground or _marks(self.sent) == _marks(sent)

    def metadata(self, meta: Obj, now: datetime) -> Obj:
        """`meta` of the new pod, with the annotations injection gave the mold."""
        if not self.ground:
            return meta
        notes = dict(self.made["metadata"].get("annotations") or {})
        before, after = format_time(self.now), format_time(now)
        for key in _STAMPED if before != after else ():
            if key in notes:
                notes[key] = notes[key].replace(before, after)
        return {**meta, "annotations": notes} if notes else meta


def ground_of(view: View, namespace: str) -> tuple[Obj | None, ...]:
    """What injection into a namespace rests on; () where there is no SidecarSet."""
    sets = view.objects(SIDECARSET, "")
    return (*sets, view.get(ObjectKey("", "Namespace", "", namespace))) if sets else ()


def mold_of(sent: Obj, made: Obj, ground: tuple[Obj | None, ...], now: datetime) -> Mold | None:
    """The mold a pod leaves; None where its siblings may be admitted otherwise.

    That is where a barrier carries its name, where lots or old revisions decide, where a set looks
    at what tells siblings apart, and where the pod brought marks of its own.
    """
    notes = get(sent, "metadata", "annotations", default={})
    own = _names_its_pod(made) or any(key in notes for key in _STAMPED)
    if own or any(_particular(raw) for raw in ground[:-1]):
        return None
    return Mold(sent, made, ground, now)


def _names_its_pod(made: Obj) -> bool:
    return any(
        variable.get("name") == LAUNCH_BARRIER
        for container in made["spec"]["containers"]
        for variable in container.get("env") or ()
    )


def _particular(raw: Obj | None) -> bool:
    spec: Obj = (raw or {}).get("spec") or {}
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


def _body(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _marks(sent: Obj) -> tuple[Obj, Obj]:
    """Labels and annotations, but for what names this one pod."""
    meta = sent["metadata"]
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != INSTANCE_ID}
    return labels, meta.get("annotations") or {}
