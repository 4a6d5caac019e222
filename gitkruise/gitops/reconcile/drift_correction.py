"""A unit's `drift` block: the fields it ignores, and the pacing of corrections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.config import Drift, duration
from gitkruise.model.gitops.document import FieldPath
from gitkruise.model.gitops.sync_round import Fight, IgnoreRule
from gitkruise.planner.sync.drift import pointer
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import RetryPause

_DOUBLINGS_MAX: Final = 10  # or whatever the factor is; the pause is at its longest by then

Field: TypeAlias = tuple[ObjectKey, FieldPath]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Delays of corrections: `delay` after a field changed, `base` after its first correction,
    `factor` times as long after each further one, at most `longest`.

    After `reset` without drift the count starts again. `fight` corrections without such a pause
    mean that another writer insists; the next try follows after `reset`.
    """

    delay: timedelta = timedelta()
    base: timedelta = timedelta(seconds=2)
    factor: int = 3
    longest: timedelta = timedelta(minutes=5)
    reset: timedelta = timedelta(minutes=10)
    fight: int = 5

    @classmethod
    def of(cls, drift: Drift) -> Pace:
        backoff = drift.backoff
        return cls(
            delay=duration(drift.delay),
            base=duration(backoff.base),
            factor=backoff.factor,
            longest=duration(backoff.max),
            reset=duration(backoff.reset_after),
            fight=drift.fight_threshold,
        )


@dataclass(frozen=True, slots=True)
class _Past:
    """Consecutive corrections of one field. `count` is 0 while it has only been observed since
    `first`; `calm` is the time since which the field is as git wants it."""

    pace: Pace
    count: int
    first: datetime
    last: datetime
    calm: datetime | None = None

    @property
    def fight(self) -> bool:
        return self.count >= self.pace.fight

    @property
    def again(self) -> datetime:
        pace = self.pace
        if self.count == 0:
            return self.first + pace.delay
        steps = min(self.count - 1, _DOUBLINGS_MAX)
        # In seconds: as a timedelta the product may be longer than any.
        pause_s = min(pace.base.total_seconds() * pace.factor**steps, pace.longest.total_seconds())
        return self.last + (pace.reset if self.fight else timedelta(seconds=pause_s))

    def rests(self, now: datetime) -> bool:
        """Return whether the field must not be corrected yet."""
        return RetryPause(self.last, self.again).rests(now)

    def over(self, now: datetime) -> bool:
        return self.calm is not None and now - self.calm >= self.pace.reset


class DriftBackoff:
    """Correction history of each field, so that two disagreeing writers do not flood the API
    server."""

    def __init__(self, pace: Pace = Pace()) -> None:
        self._pace = pace
        self._past: dict[Field, _Past] = {}

    def corrected(
        self, changes: Iterable[ObjectChange], accepted: Collection[ObjectKey], now: datetime
    ) -> None:
        """Record that those of `changes` whose objects were `accepted` were corrected now."""
        for field in _fields(one for one in changes if one.key in accepted):
            past = self._past.get(field)
            if past is None or past.over(now):
                past = _Past(self._pace, 0, now, now)
            self._past[field] = replace(past, count=past.count + 1, last=now, calm=None)

    def look(self, drift: Iterable[ObjectChange], now: datetime) -> None:
        """Record `drift` as all there is now: what is new waits for its delay, other fields are
        calm."""
        if not self._past and not self._pace.delay:
            return
        self._past = {field: past for field, past in self._past.items() if not past.over(now)}
        moved = set(_fields(drift))
        fresh = {f for f in moved if self._is_new(f)} if self._pace.delay else set()
        self._past |= {field: _Past(self._pace, 0, now, now) for field in fresh}
        for field, past in list(self._past.items()):
            if field in moved:
                self._past[field] = replace(past, calm=None)
            elif past.calm is None or past.calm > now:  # the clock was set back
                self._past[field] = replace(past, calm=now)

    def _is_new(self, field: Field) -> bool:
        """Return whether a differing field is new, or went back by itself meanwhile."""
        past = self._past.get(field)
        return past is None or (past.count == 0 and past.calm is not None)

    def resting(self, now: datetime) -> Mapping[ObjectKey, frozenset[FieldPath]]:
        """Return the fields that must not be corrected yet."""
        return _by_object(f for f, past in self._past.items() if past.rests(now))

    def fought(self, now: datetime) -> Mapping[ObjectKey, Mapping[FieldPath, Fight]]:
        """Return the fields corrected so often that another writer must insist on them."""
        out: dict[ObjectKey, dict[FieldPath, Fight]] = {}
        for (key, path), past in self._past.items():
            if past.fight and not past.over(now):
                out.setdefault(key, {})[path] = Fight(past.count, past.first, past.again)
        return out

    def wake_at(self, drift: Iterable[ObjectChange], now: datetime) -> datetime | None:
        """Return when the first field of `drift` that backs off now may be corrected again."""
        found = [past for f in _fields(drift) if (past := self._past.get(f)) is not None]
        return min((past.again for past in found if past.rests(now)), default=None)

    def forget(self, keys: Collection[ObjectKey]) -> None:
        """Forget `keys`: git wants something different of them now, which no one has contested."""
        self._past = {field: past for field, past in self._past.items() if field[0] not in keys}


def ignore_rules(drift: Drift) -> tuple[IgnoreRule, ...]:
    """Return `drift.ignore`; its pointers were checked when the configuration was loaded."""
    return tuple(
        IgnoreRule(
            kind=rule.kind,
            name=rule.name,
            paths=tuple(pointer(path) for path in rule.paths),
            manager=rule.manager,
        )
        for rule in drift.ignore
    )


def _fields(changes: Iterable[ObjectChange]) -> Iterator[Field]:
    return ((change.key, field.path) for change in changes for field in change.fields)


def _by_object(fields: Iterable[Field]) -> Mapping[ObjectKey, frozenset[FieldPath]]:
    out: dict[ObjectKey, set[FieldPath]] = {}
    for key, path in fields:
        out.setdefault(key, set()).add(path)
    return {key: frozenset(paths) for key, paths in out.items()}
