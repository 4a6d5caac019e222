"""Sync windows: times in which a unit takes commits (allow) or does not (deny)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Window
from gitkruise.wire.primitives.times import format_time, parse_duration
from gitkruise.wire.values.cron import Cron, parse_cron

LENGTH_MAX: Final = timedelta(days=366)
_AHEAD: Final = 366 * 9  # days that are looked through: 29 February may be eight years away
_STEPS_MAX: Final = 20_000  # phases of windows on the way to the next open moment
_DAY: Final = timedelta(days=1)
_OF_MACHINE: Final = frozenset({"localtime", "posixrules"})  # files next to those of real zones
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_Spans: TypeAlias = Sequence[tuple[timedelta, timedelta]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPhase:
    """State of a window, and until when at least it stays so."""

    open: bool
    until: datetime


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one window. `spans` are beginnings and ends of a day without a clock change,
    from its midnight; those that meet are one, because a schedule may have 1,440 times a day."""

    cron: Cron
    zone: ZoneInfo
    length: timedelta
    spans: _Spans

    @classmethod
    def of(cls, window: Window) -> Times:
        """Parse a window. Raises ValueError."""
        length = parse_duration(window.duration)
        if not timedelta() < length <= LENGTH_MAX:
            raise ValueError(f"a window of {window.duration} is none, or none that ends in a year")
        if window.time_zone in _OF_MACHINE:
            raise ValueError(f"time zone {window.time_zone!r} differs between machines")
        try:
            zone = ZoneInfo(window.time_zone)
        except (OSError, KeyError, ValueError) as error:
            raise ValueError(f"there is no time zone {window.time_zone!r}") from error
        cron = parse_cron(window.schedule)
        begun = [timedelta(hours=hour, minutes=minute) for hour, minute in cron.times]
        found = cls(cron, zone, length, _merged(begun, length))
        if found._next(datetime(2000, 1, 1, tzinfo=UTC)) is None:
            raise ValueError(f"{window.schedule!r} never comes")
        return found

    def phase(self, now: datetime) -> WindowPhase:
        """Return whether it is open at `now`, and until when."""
        end = self._end(now)
        until = end if end is not None else self._next(now) or _NEVER
        return WindowPhase(open=end is not None, until=until)

    def _end(self, now: datetime) -> datetime | None:
        day = now.astimezone(self.zone).date()
        for back in range(self.length.days + 3):
            if self.cron.on(earlier := day - back * _DAY):
                midnight, spans = self._on(earlier)
                begun = bisect_right(spans, now - midnight, key=lambda span: span[0])
                if begun:
                    end = midnight + spans[begun - 1][1]
                    return end if end > now else None
        return None

    def _next(self, now: datetime) -> datetime | None:
        """Return the next beginning after `now`; None if there is none within years."""
        day = now.astimezone(self.zone).date()
        for ahead in range(_AHEAD):
            if self.cron.on(later := day + ahead * _DAY):
                midnight, spans = self._on(later)
                begun = bisect_right(spans, now - midnight, key=lambda span: span[0])
                if begun < len(spans):
                    return midnight + spans[begun][0]
        return None

    def _on(self, day: date) -> tuple[datetime, _Spans]:
        """Return the midnight of a day and its spans.

        A beginning that a clock change skips is later by the length of the change. One that it
        repeats counts once, or a window for 2:30 would come twice; a schedule of every hour has
        its times in the repeated hour, too.
        """
        midnight, end = (datetime.combine(d, time(), self.zone) for d in (day, day + _DAY))
        start = midnight.astimezone(UTC)
        if midnight.utcoffset() == end.utcoffset():
            return start, self.spans
        times = [datetime.combine(day, time(*at), self.zone) for at in self.cron.times]
        if self.cron.every_hour:
            times += [later for once in times if _repeats(once, later := once.replace(fold=1))]
        return start, _merged(sorted(t.astimezone(UTC) - start for t in times), self.length)


def _repeats(once: datetime, later: datetime) -> bool:
    """Return whether a time comes twice: in a skipped hour the later reading has more offset."""
    first, second = once.utcoffset(), later.utcoffset()
    return first is not None and second is not None and first > second


def _merged(begun: Iterable[timedelta], length: timedelta) -> _Spans:
    spans: list[tuple[timedelta, timedelta]] = []
    for start in begun:
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], start + length
        else:
            spans.append((start, start + length))
    return tuple(spans)


class _Follower:
    """The phase of a window, found again only when it is over: looking for one takes days' work."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._since, self._phase = _NEVER, WindowPhase(open=False, until=_NEVER)

    def at(self, moment: datetime) -> WindowPhase:
        if not self._since <= moment < self._phase.until:
            self._since, self._phase = moment, self._times.phase(moment)
        return self._phase


class Windows:
    """The windows of one unit. `by_hand`: a user started this one pass."""

    def __init__(self, windows: Iterable[Window], clock: Clock, *, by_hand: bool = False) -> None:
        rows = [w for w in windows if not (by_hand and w.kind == "deny" and w.manual)]
        self._denied = [_Follower(Times.of(w)) for w in rows if w.kind == "deny"]
        self._allowed = [_Follower(Times.of(w)) for w in rows if w.kind == "allow"]
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
        when = "none opens" if opening == _NEVER else f"it opens at {format_time(opening)}"
        return f"a window ({when})"

    def _opening(self, now: datetime) -> datetime:
        """Return the first moment from `now` on that no deny window covers and an allow window
        does, if any."""
        moment = now
        for _ in range(_STEPS_MAX // (len(self._denied) + len(self._allowed))):
            denied = [found.until for one in self._denied if (found := one.at(moment)).open]
            allowed = [one.at(moment) for one in self._allowed]
            if not denied and (not allowed or any(phase.open for phase in allowed)):
                return moment
            moment = max(denied) if denied else min(phase.until for phase in allowed)
            if moment == _NEVER:
                break
        return _NEVER
