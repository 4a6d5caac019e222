"""The work queue without I/O: each key once, earliest time wins, no two rounds of a key overlap."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Pending:
    """Since when news of a key gather, and by when it is wanted in any case."""

    first: datetime
    firm: datetime | None


class WorkQueue(Generic[K]):
    """Keys with the instant they are due; bounded by the number of distinct keys.

    A key added while its round runs is due again after `done`, at the earliest time requested. News
    in quick succession gather: they postpone their own time, but no other.
    """

    def __init__(self) -> None:
        self._due: dict[K, datetime] = {}
        self._heap: list[tuple[datetime, int, K]] = []
        self._order = count()
        self._running: set[K] = set()
        self._again: dict[K, datetime] = {}
        self._news: dict[K, _Pending] = {}

    def __len__(self) -> int:
        """Keys that wait, whether due or not."""
        return len(self._due)

    @property
    def running(self) -> int:
        return len(self._running)

    def runs(self, key: K) -> bool:
        return key in self._running

    def add(self, key: K, at: datetime) -> None:
        """Have a round for `key` at `at`, or when it is due anyway, whichever is earlier."""
        waiting = self._again if key in self._running else self._due
        known = waiting.get(key)
        news = self._news.get(key)
        if news is not None:
            news.firm = at if news.firm is None else min(news.firm, at)
        if known is not None and known <= at:
            return
        waiting[key] = at
        if waiting is self._due:
            heapq.heappush(self._heap, (at, next(self._order), key))

    def gather(self, key: K, now: datetime, *, quiet: timedelta, longest: timedelta) -> None:
        """Have a round for `key` once no more news came for `quiet`, `longest` after the first."""
        waiting = self._again if key in self._running else self._due
        known = waiting.get(key)
        news = self._news.setdefault(key, _Pending(first=now, firm=known))
        at = min(now + quiet, news.first + longest)
        at = at if news.firm is None else min(at, news.firm)
        waiting[key] = at
        if waiting is self._due and (known is None or at < known):
            heapq.heappush(self._heap, (at, next(self._order), key))

    def pop(self, now: datetime) -> K | None:
        """The key that is due for longest, now running; None when nothing is due."""
        self._tidy()
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._news.pop(key, None)
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """The round of `key` is over."""
        self._running.remove(key)
        again = self._again.pop(key, None)
        if again is not None:
            self._due[key] = again
            heapq.heappush(self._heap, (again, next(self._order), key))

    def drop(self, key: K) -> None:
        """Forget every time requested for `key` (its object is gone)."""
        self._due.pop(key, None)
        self._again.pop(key, None)
        self._news.pop(key, None)

    def hasten(self, now: datetime) -> None:
        """Have a round for every key by `now`: the clock was set back, and their times mean
        nothing."""
        self._again = {key: min(at, now) for key, at in self._again.items()}
        for key, at in self._due.items():
            if at > now:
                self._due[key] = now
                heapq.heappush(self._heap, (now, next(self._order), key))

    def next_at(self) -> datetime | None:
        """Return when the next key is due; None when no key waits."""
        self._tidy()
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        """Take entries off the heap that an earlier time, `drop` or later news have outdated."""
        while self._heap:
            at, _, key = self._heap[0]
            due = self._due.get(key)
            if due == at:
                return
            if due is not None and due > at:
                heapq.heapreplace(self._heap, (due, next(self._order), key))
            else:
                heapq.heappop(self._heap)
