"""Schedules of CronJobs: what robfig/cron v3 accepts, and when it runs next.

Looser than `cron`, which reads the sync windows of gitkruise: `@daily`, `@every 90m`, `?`, a zone
in front (`TZ=Europe/Paris 0 3 * * *`), empty items of a list. Source: cron.ParseStandard, its
messages included, and SpecSchedule.Next, but for zones that change clocks by half an hour, where
robfig/cron skips a day. Time zones are those of the platform's database, which is
data and never changes while a program runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from gitkruise.wire.primitives.times import parse_duration
from gitkruise.wire.values.cron import DAYS, MONTHS

_SECOND, _MINUTE, _HOUR, _DAY = (timedelta(seconds=s) for s in (1, 60, 3600, 86400))
_YEARS: Final = 5  # a time further away is none
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = 100  # more are not even converted


@dataclass(frozen=True, slots=True)
class _Bounds:
    first: int
    last: int
    names: Mapping[str, int]


_FIELDS: Final = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: at for at, name in enumerate(MONTHS, 1)}),
    _Bounds(0, 6, {name: at for at, name in enumerate(DAYS)}),
)
_DESCRIPTORS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class _Field:
    """The values of a field. A star without a step restricts no day."""

    values: frozenset[int]
    star: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule in one time zone; `every` is set for `@every`, `fields` otherwise."""

    zone: tzinfo
    fields: tuple[_Field, ...] = ()
    every: timedelta | None = None

    def next(self, after: datetime) -> datetime | None:
        """The first instant later than `after`; None if there is none within five years."""
        if self.every is not None:
            return after + self.every - timedelta(microseconds=after.microsecond)
        at = after.astimezone(UTC) + _SECOND
        at -= timedelta(microseconds=at.microsecond)
        at = _up_to_minute(at)
        last = at.astimezone(self.zone).year + _YEARS
        while (local := at.astimezone(self.zone)).year <= last:
            later = self._later(local, at)
            if later is None:
                return at
            at = later
        return None

    def _later(self, local: datetime, at: datetime) -> datetime | None:
        """The next instant to look at; None when `at` fits."""
        minutes, hours, _, months, _ = self.fields
        if local.month not in months.values:
            years, month = divmod(local.month, 12)
            return self._instant(datetime(local.year + years, month + 1, 1, tzinfo=UTC))
        if not self._on(local):
            return _whole_day(self._midnight_after(local), self.zone)
        if local.hour not in hours.values:
            return _top_of_hour(at, local) + _HOUR
        if local.minute not in minutes.values:
            return at + _MINUTE
        return None

    def _on(self, day: datetime) -> bool:
        in_month, in_week = self.fields[2], self.fields[4]
        month, week = day.day in in_month.values, day.isoweekday() % 7 in in_week.values
        return (month and week) if in_month.star or in_week.star else (month or week)

    def _midnight_after(self, local: datetime) -> datetime:
        day = datetime(local.year, local.month, local.day, tzinfo=UTC) + _DAY
        return self._instant(day)

    def _instant(self, wall: datetime) -> datetime:
        """The instant of a wall time, given as if it were UTC.

        One that a clock change skips has the offset before the change.
        """
        guess = wall - _offset(wall, self.zone)
        return wall - _offset(guess, self.zone)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def _up_to_minute(at: datetime) -> datetime:
    """Seconds are always 0."""
    return at if at.second == 0 else at + timedelta(seconds=60 - at.second)


def _top_of_hour(at: datetime, local: datetime) -> datetime:
    return at - timedelta(minutes=local.minute)


def _whole_day(at: datetime, zone: tzinfo) -> datetime:
    """Midnight, or the first hour after it where a clock change skips midnight."""
    hour = at.astimezone(zone).hour
    if hour == 0:
        return at
    return at + (24 - hour) * _HOUR if hour > 12 else at - hour * _HOUR


@lru_cache(maxsize=512)
def parse_schedule(text: str, time_zone: str = "") -> Schedule:
    """Parse a schedule; `time_zone` is where it runs unless it names a zone itself.

    Raises ValueError with the words of robfig/cron, or `unknown time zone`.
    """
    if not text:
        raise ValueError("empty spec string")
    zone: tzinfo = load_zone(time_zone) if time_zone else UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, _, text = text.partition(" ")
        name = name.partition("=")[2]
        try:
            zone = load_zone(name)
        except ValueError as error:
            raise ValueError(f"provided bad location {name}: {error}") from error
        text = text.strip()
    if text.startswith("@every "):
        return Schedule(zone, every=_every(text.removeprefix("@every ")))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    words = text.split()
    if len(words) != len(_FIELDS):
        listed = " ".join(words)
        raise ValueError(f"expected exactly 5 fields, found {len(words)}: [{listed}]")
    fields = (_field(word, bounds) for word, bounds in zip(words, _FIELDS, strict=True))
    return Schedule(zone, tuple(fields))


def load_zone(name: str) -> tzinfo:
    """The time zone of that name, as Go loads it. Raises ValueError."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _every(text: str) -> timedelta:
    """At least a second, and whole seconds; robfig/cron takes a negative span for a second."""
    try:
        span = parse_duration(text.removeprefix("-"))
    except ValueError as error:
        why = f'time: invalid duration "{text}"'
        raise ValueError(f"failed to parse duration @every {text}: {why}") from error
    if text.startswith("-"):
        return _SECOND
    return max(_SECOND, timedelta(seconds=span // _SECOND))


def _field(text: str, bounds: _Bounds) -> _Field:
    parts = [_range(part, bounds) for part in text.split(",") if part]
    values: frozenset[int] = frozenset().union(*(part.values for part in parts))
    return _Field(values, any(part.star for part in parts))


def _range(text: str, bounds: _Bounds) -> _Field:
    span, *steps = text.split("/")
    low, *high = span.split("-")
    star = low in ("*", "?")
    if star:
        first, last = bounds.first, bounds.last
    else:
        first = last = _value(low, bounds)
        if len(high) > 1:
            raise ValueError(f"too many hyphens: {text}")
        last = _value(high[0], bounds) if high else first
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and not high:
        last = bounds.last
    _check(text, bounds, first=first, last=last, step=step)
    return _Field(frozenset(range(first, last + 1, step)), star and step == 1)


def _check(text: str, bounds: _Bounds, *, first: int, last: int, step: int) -> None:
    rows: tuple[tuple[bool, Callable[[], str]], ...] = (
        (
            first < bounds.first,
            lambda: f"beginning of range ({first}) below minimum ({bounds.first})",
        ),
        (last > bounds.last, lambda: f"end of range ({last}) above maximum ({bounds.last})"),
        (first > last, lambda: f"beginning of range ({first}) beyond end of range ({last})"),
        (step == 0, lambda: "step of range should be a positive number"),
    )
    for wrong, why in rows:
        if wrong:
            raise ValueError(f"{why()}: {text}")


def _value(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _number(text) if named is None else named


def _number(text: str) -> int:
    readable = _NUMBER.fullmatch(text) is not None
    if not readable or len(text) > _DIGITS_MAX or int(text) > _INT64_MAX:
        why = "value out of range" if readable else "invalid syntax"
        why = f'strconv.Atoi: parsing "{text}": {why}'
        raise ValueError(f"failed to parse int from {text}: {why}")
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number
