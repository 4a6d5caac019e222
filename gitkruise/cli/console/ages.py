"""Ages in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

_UNITS: Final = ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h"))
_SKEW: Final = timedelta(seconds=10)  # of clocks that follow a time server


def age(then: datetime | None, now: datetime) -> str:
    """`41 s`, `12 m`, `3 d`; "-" if unknown."""
    if then is None:
        return "-"
    seconds = max(0, int((now - then).total_seconds()))
    for limit, unit, name in _UNITS:
        if seconds < limit:
            return f"{seconds // unit} {name}"
    return f"{seconds // 86_400} d"


def ago(then: datetime | None, now: datetime) -> str:
    """`12 m ago`; `in 12 m` where another clock, or a commit's author, is ahead of this one."""
    if then is not None and then > now + _SKEW:
        return f"in {age(now, then)}"
    return "-" if then is None else f"{age(then, now)} ago"
