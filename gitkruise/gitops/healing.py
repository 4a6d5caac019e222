"""Patience with what keeps drifting: the first correction is at once, later ones wait longer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from gitkruise.model.change import Change, Fight, Path
from gitkruise.wire.names import ObjectKey

_FIRST: Final = timedelta(seconds=2)  # three times as long after each further one
_LONGEST: Final = timedelta(minutes=5)
_FORGOTTEN: Final = timedelta(minutes=10)  # after so long in peace a field starts anew
_FIGHT: Final = 5  # corrections without such a peace: somebody means it; we try when it may be over

Field: TypeAlias = tuple[ObjectKey, Path]


@dataclass(frozen=True, slots=True)
class _Past:
    """Corrections of one field in a row. `calm` is since when it is as git wants it."""

    count: int
    first: datetime
    last: datetime
    calm: datetime | None = None

    @property
    def fight(self) -> bool:
        return self.count >= _FIGHT

    @property
    def again(self) -> datetime:
        pause: timedelta = min(_FIRST * 3 ** min(self.count - 1, 10), _LONGEST)
        return self.last + (_FORGOTTEN if self.fight else pause)

    def over(self, now: datetime) -> bool:
        return self.calm is not None and now - self.calm >= _FORGOTTEN


class Healing:
    """When each field was corrected, so that two who disagree do not fill the wire."""

    def __init__(self) -> None:
        self._past: dict[Field, _Past] = {}

    def corrected(self, changes: Iterable[Change], now: datetime) -> None:
        """These are being put back now."""
        for field in _fields(changes):
            past = self._past.get(field)
            if past is None or past.over(now):
                past = _Past(0, now, now)
            self._past[field] = replace(past, count=past.count + 1, last=now, calm=None)

    def look(self, drift: Iterable[Change], now: datetime) -> None:
        """`drift` is all there is now: the rest is in peace."""
        if not self._past:
            return
        moved = set(_fields(drift))
        for field, past in list(self._past.items()):
            if past.over(now):
                del self._past[field]
            elif field in moved:
                self._past[field] = replace(past, calm=None)
            elif past.calm is None:
                self._past[field] = replace(past, calm=now)

    def resting(self, now: datetime) -> Mapping[ObjectKey, frozenset[Path]]:
        """What is not to be put back yet."""
        return _by_object(f for f, past in self._past.items() if past.again > now)

    def fought(self, now: datetime) -> Mapping[ObjectKey, Mapping[Path, Fight]]:
        """What was put back so often that somebody must mean it."""
        out: dict[ObjectKey, dict[Path, Fight]] = {}
        for (key, path), past in self._past.items():
            if past.fight and not past.over(now):
                out.setdefault(key, {})[path] = Fight(past.count, past.first, past.again)
        return out

    def wake_at(self, drift: Iterable[Change], now: datetime) -> datetime | None:
        """When the first field of `drift` that rests now may be put back again."""
        found = [past for f in _fields(drift) if (past := self._past.get(f)) is not None]
        return min((past.again for past in found if past.again > now), default=None)

    def forget(self, keys: Collection[ObjectKey]) -> None:
        """Git wants something else of `keys` now: nobody has objected to that."""
        self._past = {field: past for field, past in self._past.items() if field[0] not in keys}


def _fields(changes: Iterable[Change]) -> Iterator[Field]:
    return ((change.key, field.path) for change in changes for field in change.fields)


def _by_object(fields: Iterable[Field]) -> Mapping[ObjectKey, frozenset[Path]]:
    out: dict[ObjectKey, set[Path]] = {}
    for key, path in fields:
        out.setdefault(key, set()).add(path)
    return {key: frozenset(paths) for key, paths in out.items()}
