"""News of a unit that are worth a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from gitkruise.model.gitops.config import Notify
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.wire.primitives.times import RetryPause, format_time

AGAIN_AFTER: Final = timedelta(minutes=5)  # the same news sooner than that are none
_BAD: Final = frozenset({State.STUCK, State.REJECTED, State.DRIFTED, State.UNKNOWN})
_PASSING: Final = frozenset({State.WAITING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One piece of news about a unit. `resolves`: it was bad before, and is as git asks again;
    `failing`: it is bad, or was and is on its way."""

    record: UnitRecord
    severity: Literal["info", "error"]
    resolves: bool
    at: datetime
    failing: bool = False

    @property
    def key(self) -> str:
        """State and commit. Equal keys are the same news."""
        return news_key(self.record)

    @property
    def id(self) -> str:
        """Names this message for ever, for those who might get it twice."""
        return f"{self.record.cluster}/{self.record.unit}/{self.key}/{format_time(self.at)}"


def news_key(record: UnitRecord) -> str:
    """State and commit of a record."""
    commit = record.about
    return f"{record.state}@{commit.id if commit else ''}"


def notice_of(
    last: Mapping[str, datetime],
    newest: str,
    record: UnitRecord,
    now: datetime,
    *,
    failing: bool = False,
) -> Notice | None:
    """The news in a record; None when there are none, or none before `repeats_after`.

    `last` has the time of recently sent news by key, `newest` the key of the last one ("" before
    the first), and `failing` says whether that left a failure open. Waiting a moment is no news,
    unless it is for a person's approval, and neither is a start.
    """
    again = repeats_after(last, newest, record)
    if not _is_news(newest, record) or (again is not None and again.rests(now)):
        return None
    bad = record.state in _BAD
    was_bad = failing or newest.partition("@")[0] in _BAD
    resolves = was_bad and record.state in SETTLED
    return Notice(
        record=record, severity="error" if bad else "info", resolves=resolves, at=now,
        failing=bad or (was_bad and not resolves),
    )  # fmt: skip


def repeats_after(
    last: Mapping[str, datetime], newest: str, record: UnitRecord
) -> RetryPause | None:
    """Return the pause before the news in a record may be sent once more; None for news that were
    not sent."""
    sent = last.get(news_key(record))
    if sent is None or not _is_news(newest, record):
        return None
    return RetryPause(sent, sent + AGAIN_AFTER)


def _is_news(newest: str, record: UnitRecord) -> bool:
    passing = record.state in _PASSING and not record.asks_for_approval
    return not passing and news_key(record) != newest and record.about is not None


def concerns(rule: Notify, notice: Notice) -> bool:
    """Return whether a receiver gets this notice. A recovery goes to receivers of the failure."""
    loud = notice.severity == "error" or notice.resolves
    if rule.severity == "error" and not loud:
        return False
    return not rule.units or any(_fits(notice.record.unit, one) for one in rule.units)


def _fits(unit: str, pattern: str) -> bool:
    """Return whether `pattern`, in which * matches anything, matches the unit's name.

    Linear, unlike `re`: the first place at which a part fits leaves the most for the others.
    """
    first, *parts = pattern.split("*")
    if not parts:
        return unit == pattern
    last = parts.pop()
    at, end = len(first), len(unit) - len(last)
    if at > end or not (unit.startswith(first) and unit.endswith(last)):
        return False
    for part in parts:
        found = unit.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
