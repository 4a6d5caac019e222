"""When a kubelet looks at which pod again: instants, and who is awaited at each."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime


class Bells:
    """Bells that ring at instants for pods. One that nobody awaits any more stays silent."""

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

    def ringing(self, now: datetime, awaited: Callable[[datetime, str], bool]) -> list[str]:
        """Whose bells ring up to `now`; they ring once."""
        found: list[str] = []
        while self._instants and self._instants[0] <= now:
            at = heapq.heappop(self._instants)
            found += [uid for uid in self._at.pop(at) if awaited(at, uid)]
        return found

    def next(self, awaited: Callable[[datetime, str], bool]) -> datetime | None:
        """The next instant at which somebody is awaited."""
        while self._instants:
            at = self._instants[0]
            if any(awaited(at, uid) for uid in self._at[at]):
                return at
            del self._at[heapq.heappop(self._instants)]
        return None
