"""The work queue without I/O: each key once, earliest time wins, never two rounds at once."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from datetime import datetime
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys with the instant they are due; bounded by the number of distinct keys.

    A key added while its round runs is due again after `done`, at its earliest wish.
    """

    def __init__(self) -> None:
        self._due: dict[K, datetime] = {}
        self._heap: list[tuple[datetime, int, K]] = []
        self._order = count()
        self._running: set[K] = set()
        self._again: dict[K, datetime] = {}

    def __len__(self) -> int:
        """Keys that wait, whether due or not."""
        return len(self._due)

    @property
    def running(self) -> int:
        return len(self._running)

    def add(self, key: K, at: datetime) -> None:
        """Have a round for `key` at `at`, or when it is due anyway, whichever is earlier."""
        waiting = self._again if key in self._running else self._due
        known = waiting.get(key)
        if known is not None and known <= at:
            return
        waiting[key] = at
        if waiting is self._due:
            heapq.heappush(self._heap, (at, next(self._order), key))

    def pop(self, now: datetime) -> K | None:
        """The key that is due for longest, now running; None when nothing is due."""
        self._tidy()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """The round of `key` is over."""
        self._running.remove(key)
        again = self._again.pop(key, None)
        if again is not None:
            self.add(key, again)

    def drop(self, key: K) -> None:
        """Forget every wish for `key` (its object is gone)."""
        self._due.pop(key, None)
        self._again.pop(key, None)

    def next_at(self) -> datetime | None:
        """When the next key is due; None when none waits."""
        self._tidy()
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        """Take entries off the heap that a sooner wish or `drop` has outdated."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
