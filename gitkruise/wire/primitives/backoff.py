"""Exponential back-off: the one rule by which pauses between tries grow."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypeVar

T = TypeVar("T", float, timedelta)
_DOUBLINGS_MAX: Final = 40  # what is doubled more often is beyond every cap


def backoff(failures: int, *, first: T, cap: T) -> T:
    """Return the pause after so many consecutive failures: `first` after one, then twice as long
    after each, at most `cap`. Raises ValueError below one failure."""
    if failures < 1:
        raise ValueError(f"no pause follows {failures} failures")
    times = 1 << min(failures - 1, _DOUBLINGS_MAX)
    return min(first * times, cap)
