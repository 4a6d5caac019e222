"""Cron expressions of five fields: on which days, at which times of the day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class _CronField:
    name: str
    first: int
    last: int
    words: Mapping[str, int]


_FIELDS: Final = (
    _CronField("minute", 0, 59, {}),
    _CronField("hour", 0, 23, {}),
    _CronField("day of the month", 1, 31, {}),
    _CronField("month", 1, 12, {word: n for n, word in enumerate(MONTHS, 1)}),
    _CronField("day of the week", 0, 7, {word: n for n, word in enumerate(DAYS)}),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """`times` are (hour, minute) in order. With both fields of days restricted, one is enough."""

    times: tuple[tuple[int, int], ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # Monday is 0, as Python has it
    either: bool

    @property
    def every_hour(self) -> bool:
        """Return whether the schedule has times in each hour of a day."""
        return len({hour for hour, _ in self.times}) == 24

    def on(self, day: date) -> bool:
        """Return whether the schedule has times on this day."""
        if day.month not in self.months:
            return False
        month, week = day.day in self.days, day.weekday() in self.weekdays
        return month or week if self.either else month and week


def parse_cron(text: str) -> Cron:
    """`0 18 * * 5` as cron(8) reads it: lists, ranges, steps, names. Raises ValueError."""
    words = text.split()
    if len(words) != len(_FIELDS):
        raise ValueError(f"{text!r} has {len(words)} fields, not minute hour day month weekday")
    minutes, hours, days, months, week = (
        _values(word, field) for word, field in zip(words, _FIELDS, strict=True)
    )
    return Cron(
        times=tuple((hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=frozenset((day - 1) % 7 for day in week),
        either=not (words[2].startswith("*") or words[4].startswith("*")),
    )


def _values(text: str, field: _CronField) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        first = field.first if low == "*" else _number(low, field)
        last = _number(high, field) if dash else field.last if low == "*" or slash else first
        by = int(step) if step.isascii() and step.isdigit() else 0 if slash else 1
        if last < first or by < 1 or (dash and low == "*"):
            raise ValueError(f"{part!r} is no {field.name}")
        found.update(range(first, last + 1, by))
    return frozenset(found)


def _number(text: str, field: _CronField) -> int:
    number = field.words.get(text.lower(), -1)
    if number < 0 and text.isascii() and text.isdigit() and len(text) < 4:
        number = int(text)
    if not field.first <= number <= field.last:
        raise ValueError(f"{text!r} is no {field.name}")
    return number
