"""Sync windows: times in which a unit takes commits (allow) or does not (deny)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Window
from gitkruise.wire.primitives.times import format_time, parse_duration
from gitkruise.wire.values.cron import Cron, parse_cron

LENGTH_MAX: Final = timedelta(days=366)
_AHEAD: Final = 366 * 9  # days that are looked through: 29 February may be eight years away
_HOPS_MAX: Final = 1000  # from window to window on the way to the next open moment
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one window."""

    cron: Cron
    zone: ZoneInfo
    length: timedelta

    @classmethod
    def of(cls, window: Window) -> Times:
        """Parse a window. Raises ValueError."""
        length = parse_duration(window.duration)
        if not timedelta() < length <= LENGTH_MAX:
            raise ValueError(f"a window of {window.duration} is none, or none that ends in a year")
        try:
            zone = ZoneInfo(window.time_zone)
        except (OSError, KeyError, ValueError) as error:
            raise ValueError(f"there is no time zone {window.time_zone!r}") from error
        found = cls(parse_cron(window.schedule), zone, length)
        if found.next(datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise ValueError(f"{window.schedule!r} never comes")
        return found

    def end(self, now: datetime) -> datetime | None:
        """Return the end of the window that is open at `now`; None if it is closed."""
        day = now.astimezone(self.zone).date()
        for back in range(self.length.days + 3):
            begun = [t for t in self._on(day - back * _DAY) if t <= now]
            if begun:
                return max(begun) + self.length if max(begun) + self.length > now else None
        return None

    def next(self, now: datetime) -> datetime | None:
        """Return its next beginning after `now`; None if there is none within years."""
        day = now.astimezone(self.zone).date()
        for ahead in range(_AHEAD):
            coming = [t for t in self._on(day + ahead * _DAY) if t > now]
            if coming:
                return min(coming)
        return None

    def _on(self, day: date) -> Iterator[datetime]:
        """Beginnings on a day. One that a clock change skips is later by the length of the
        change."""
        if self.cron.on(day):
            for hour, minute in self.cron.times:
                yield datetime.combine(day, time(hour, minute), self.zone).astimezone(UTC)


class Windows:
    """The windows of one unit. `by_hand`: a user started this one pass."""

    def __init__(self, windows: Iterable[Window], clock: Clock, *, by_hand: bool = False) -> None:
        rows = [w for w in windows if not (by_hand and w.kind == "deny" and w.manual)]
        self._denied = [Times.of(w) for w in rows if w.kind == "deny"]
        self._allowed = [Times.of(w) for w in rows if w.kind == "allow"]
        if by_hand and any(w.manual for w in rows if w.kind == "allow"):
            self._allowed = []
        self._clock = clock
        self._shut: tuple[datetime, datetime] | None = None  # from when to when, as last found

    def opens(self) -> datetime | None:
        """Return when commits are taken again: datetime.max for never; None if they are taken
        now."""
        if not (self._denied or self._allowed):
            return None
        now = self._clock.now()
        if self._shut is None or not self._shut[0] <= now < self._shut[1]:
            opening = self._opening(now)
            self._shut = (now, opening) if opening > now else None
        return self._shut[1] if self._shut else None

    def why(self) -> str:
        """Return `a window (it opens at 2026-11-23T08:00:00Z)` while commits wait; "" while not."""
        opening = self.opens()
        if opening is None:
            return ""
        never = opening == datetime.max.replace(tzinfo=UTC)
        return f"a window ({'none opens' if never else f'it opens at {format_time(opening)}'})"

    def _opening(self, now: datetime) -> datetime:
        """Return the first moment from `now` on that no deny window covers and an allow window
        does, if any."""
        moment: datetime | None = now
        for _ in range(_HOPS_MAX):
            if moment is None:
                break
            after = [end for times in self._denied if (end := times.end(moment))]
            if not after and (not self._allowed or any(t.end(moment) for t in self._allowed)):
                return moment
            coming = [start for times in self._allowed if (start := times.next(moment))]
            moment = max(after) if after else min(coming, default=None)
        return datetime.max.replace(tzinfo=UTC)
