"""When a repository is looked at: once for all its sources, on news or after a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Final

from gitkruise.errors import Reported
from gitkruise.git.repo import Repository
from gitkruise.git.watching import ref_changes
from gitkruise.gitops.source import SourceFollower
from gitkruise.gitops.target import Target, look
from gitkruise.kube.clock import Clock, wait_for
from gitkruise.model.config import duration

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=5)
_DOUBLINGS_MAX: Final = 10


class Polling:
    """Looks at one repository for every source that follows it.

    A local repository is watched (and looked at every interval all the same); others are asked
    every interval, with jitter, and with growing pauses while they do not answer.
    """

    def __init__(
        self,
        repository: Repository,
        followers: Sequence[SourceFollower],
        clock: Clock,
        renew: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._repository, self._followers, self._clock = repository, followers, clock
        self._interval = min(duration(f.source.spec.interval) for f in followers)
        self._renew = renew
        self._failures = 0  # in a row
        self._look = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._repository.local:
                tasks.create_task(self._watch())
            while True:
                began = self._clock.monotonic()
                await self.check()
                await self._pause(self._clock.monotonic() - began)

    def look_now(self) -> None:
        """Look before the interval is over."""
        self._look.set()

    async def check(self) -> None:
        """Look once, and let every source know; after a failure with credentials read anew."""
        if self._failures and self._renew is not None:
            await self._renew()
        sources = [follower.source for follower in self._followers]
        found: Sequence[Target | Reported]
        try:
            found = await asyncio.to_thread(look, self._repository, sources)
        except Reported as error:
            found = [error] * len(sources)
        for follower, one in zip(self._followers, found, strict=True):
            await follower.take(one)
        failed = all(isinstance(one, Reported) for one in found)
        self._failures = min(self._failures + 1, _DOUBLINGS_MAX) if failed else 0

    async def _watch(self) -> None:
        async with aclosing(ref_changes(self._repository)) as changes:
            async for _ in changes:
                self._look.set()

    async def _pause(self, took_s: float) -> None:
        """Until it is time again: never longer than the interval from one look to the next."""
        jitter = 0.8 + (self._clock.seed() % 1000) / 5000
        whole = pause_after(self._failures, self._interval) * jitter
        await wait_for(self._look, self._clock, max(whole - timedelta(seconds=took_s), whole / 2))
        self._look.clear()


def pause_after(failures: int, interval: timedelta) -> timedelta:
    """How long to wait: the interval, or while nothing answers 1 s, doubled up to 5 min."""
    if failures == 0:
        return interval
    return min(FIRST_PAUSE * (1 << (failures - 1)), max(LONGEST_PAUSE, interval))
