"""RFC 3339 instants and Go-style durations as they stand in objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_S: Final = 2562047 * 3600  # whole hours of an int64 of nanoseconds, as in Go


@dataclass(frozen=True, slots=True)
class RetryPause:
    """A time without tries, from `since` until `until`.

    A wall clock that was set back to before `since` ends it: it does not say how much of the pause
    is over, and it may take hours until it shows `until`.
    """

    since: datetime
    until: datetime

    def rests(self, now: datetime) -> bool:
        """Return whether nothing is to be tried at `now`."""
        return self.since <= now < self.until


def parse_time(text: str | None) -> datetime | None:
    """An aware UTC instant, or None for null and "". Raises ValueError on anything else."""
    if not text:
        return None
    instant = datetime.fromisoformat(text.replace("Z", "+00:00") if text.endswith("Z") else text)
    if instant.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is outside of the years 1 to 9999") from error


def parse_times(raw: Any) -> dict[str, datetime]:
    """Instants by name; one that cannot be read is the oldest, so that its record is dropped."""
    found = {}
    for name, text in (raw or {}).items():
        try:
            found[str(name)] = parse_time(text) or _LONG_AGO
        except ValueError:
            found[str(name)] = _LONG_AGO
    return found


@lru_cache(maxsize=256)  # a round writes one instant into everything
def format_time(instant: datetime) -> str:
    """Second precision with `Z`, as metav1.Time prints."""
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return utc.isoformat(timespec="seconds")[:19] + "Z"  # strftime takes ten times as long


def format_micro_time(instant: datetime) -> str:
    """Microsecond precision with `Z`, as metav1.MicroTime prints."""
    utc = instant if instant.tzinfo is UTC else instant.astimezone(UTC)
    return utc.isoformat(timespec="microseconds")[:26] + "Z"


def parse_duration(text: str) -> timedelta:
    """A Go duration such as `1m30s`. Raises ValueError; a bare number names the likely intent."""
    if text.isdigit():
        raise ValueError(f"{text!r} has no unit; did you mean {text}s?")
    if not text or _DURATION.sub("", text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    seconds = sum(float(n) * _UNITS_S[u] for n, u in _DURATION.findall(text))
    if seconds > _LONGEST_S:
        raise ValueError(f"{text[:40]!r} is longer than 2562047h, the longest duration")
    return timedelta(seconds=seconds)


def format_duration(span: timedelta) -> str:
    """A short Go duration: `45s`, `1m30s`, `2h`."""
    total = int(span.total_seconds())
    hours, rest = divmod(total, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{n}{u}" for n, u in ((hours, "h"), (minutes, "m"), (seconds, "s")) if n]
    return "".join(parts) or "0s"
