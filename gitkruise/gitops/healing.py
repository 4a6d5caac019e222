"""Patience with what keeps drifting: the first correction is at once, later ones wait longer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from gitkruise.wire.names import ObjectKey

_FIRST: Final = timedelta(seconds=2)  # three times as long after each further one
_LONGEST: Final = timedelta(minutes=5)
_FORGOTTEN: Final = timedelta(minutes=10)  # after so long in peace an object starts anew


class Healing:
    """When each object was corrected, so that two who disagree do not fill the wire."""

    def __init__(self) -> None:
        self._done: dict[ObjectKey, tuple[int, datetime]] = {}  # corrections in a row, the last

    def corrected(self, keys: Iterable[ObjectKey], now: datetime) -> None:
        """These are being put back now."""
        for key in keys:
            count, last = self._done.get(key, (0, now))
            self._done[key] = (1 if now - last >= _FORGOTTEN else count + 1, now)

    def resting(self, now: datetime) -> frozenset[ObjectKey]:
        """What is not to be put back yet."""
        return frozenset(key for key in self._done if self._again(key) > now)

    def wake_at(self, drifted: Iterable[ObjectKey], now: datetime) -> datetime | None:
        """When the first of `drifted` that rests now may be put back again."""
        due = [at for key in drifted if key in self._done and (at := self._again(key)) > now]
        return min(due, default=None)

    def _again(self, key: ObjectKey) -> datetime:
        count, last = self._done[key]
        pause: timedelta = min(_FIRST * 3 ** min(count - 1, 10), _LONGEST)
        return last + pause
