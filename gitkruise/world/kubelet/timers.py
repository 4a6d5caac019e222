"""Timers of the kubelet: the instants at which it syncs a pod again."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime


class Timers:
    """Due instants of pods. An instant that is no longer awaited is dropped."""

    __slots__ = ("_at", "_instants")

    def __init__(self) -> None:
        self._instants: list[datetime] = []  # a heap
        self._at: dict[datetime, dict[str, None]] = {}  # uids in the order they were set

    def set(self, at: datetime, uid: str) -> None:
        who = self._at.get(at)
        if who is None:
            who = self._at[at] = {}
            heapq.heappush(self._instants, at)
        who[uid] = None

    def due(self, now: datetime, awaited: Callable[[datetime, str], bool]) -> list[str]:
        """Pop the uids that are due up to `now`."""
        found: list[str] = []
        while self._instants and self._instants[0] <= now:
            at = heapq.heappop(self._instants)
            found += [uid for uid in self._at.pop(at) if awaited(at, uid)]
        return found

    def next(self, awaited: Callable[[datetime, str], bool]) -> datetime | None:
        """Return the next awaited instant."""
        while self._instants:
            at = self._instants[0]
            if any(awaited(at, uid) for uid in self._at[at]):
                return at
            del self._at[heapq.heappop(self._instants)]
        return None
