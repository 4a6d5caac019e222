"""Limits of requests: adaptive concurrency, jittered pauses between tries, and rarer log lines."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gitkruise.wire.primitives.backoff import backoff


def pause_s(attempt: int, *, first_s: float, cap_s: float, seed: str) -> float:
    """Seconds before try `attempt` (1 is the first retry): doubling from `first_s` to `cap_s`.

    Jitter takes away up to half, derived from `seed` and `attempt`, so that a run can be
    repeated and a fleet does not retry in step. 0 for attempt 0.
    """
    if attempt <= 0:
        return 0.0
    full = backoff(attempt, first=first_s, cap=cap_s)
    drawn = hashlib.blake2b(f"{seed}/{attempt}".encode(), digest_size=4).digest()
    return full * (1.0 - int.from_bytes(drawn, "big") / 2**33)


def is_logged(count: int) -> bool:
    """Return whether occurrence `count` of what goes on is logged: 1, 2, 4, 8, …"""
    return count & (count - 1) == 0


class AdaptiveLimit:
    """Requests in flight: additive increase on success, halved when the server says 429.

    One halving per generation: answers to requests sent before it do not halve again.
    Waiters are served in order. `urgent` requests wait for none: those that run may all hang.
    """

    def __init__(self, *, start: int = 16, floor: int = 1, ceiling: int = 64) -> None:
        if not 1 <= floor <= start <= ceiling:
            raise ValueError(f"no limit fits {floor}, {start}, {ceiling}")
        self._limit, self._floor, self._ceiling = float(start), floor, ceiling
        self._running, self._generation = 0, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return int(self._limit)

    @property
    def running(self) -> int:
        return self._running

    @asynccontextmanager
    async def slot(self, *, urgent: bool = False) -> AsyncIterator[int]:
        """Hold one place; yields the generation to hand to `refused`."""
        await self._enter(urgent=urgent)
        try:
            yield self._generation
        finally:
            self._running -= 1
            self._wake()

    def succeeded(self) -> None:
        self._limit = min(self._limit + 1.0 / self._limit, float(self._ceiling))
        self._wake()

    def refused(self, generation: int) -> None:
        """The server asked for less (429)."""
        if generation == self._generation:
            self._generation += 1
            self._limit = max(self._limit / 2.0, float(self._floor))

    async def _enter(self, *, urgent: bool) -> None:
        if urgent or (not self._waiting and self._running < self.limit):
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn  # the one who wakes us has counted us in
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._running -= 1
                self._wake()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _wake(self) -> None:
        while self._waiting and self._running < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
