"""Polling of a repository: once for all its sources, on events or after an interval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple, TypeAlias

from gitkruise.errors import Concern, DiagnosticError, SourceFailed
from gitkruise.git.repository.ref_watcher import ref_changes
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.source.ref_resolver import ResolvedRef, look
from gitkruise.kube.cache.subscriptions import RoundRequests
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.config import GitSource, duration
from gitkruise.wire.primitives.times import RetryPause

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=5)
_DOUBLINGS_MAX: Final = 10


Resolve: TypeAlias = Callable[[Sequence[GitSource]], Awaitable[list[ResolvedRef | DiagnosticError]]]


class _ParkedSource(NamedTuple):
    """A source that crashed at the commit `tip`, `tries` times in a row."""

    tip: str
    tries: int
    pause: RetryPause


class Polling:
    """Polls one repository for every source that follows it.

    A local repository is watched (and polled every interval all the same); others are polled every
    interval, with jitter, and with growing pauses while they do not answer.
    """

    def __init__(
        self,
        repository: Repository,
        followers: Sequence[SourceFollower],
        clock: Clock,
        renew: Callable[[], Awaitable[str]] | None = None,
        *,
        authority: WriteAuthority | None = None,
        containment: Containment = UNREPORTED,
        resolve: Resolve | None = None,
    ) -> None:
        """`renew` re-reads the credentials, and returns why it could not. `resolve` resolves the
        refs of sources that git does not speak to, and imports their commits."""
        self._repository, self._followers, self._clock = repository, followers, clock
        self._resolve = resolve or self._by_git
        self._watched = repository.local and resolve is None
        self._interval = min(duration(f.source.spec.interval) for f in followers)
        self._renew, self._authority = renew, authority or WriteAuthority()
        self._failures = 0  # in a row
        self._parked: dict[SourceFollower, _ParkedSource] = {}
        self._containment = containment
        self._named = ", ".join(
            f"GitSource {f.source.namespace}/{f.source.name}" for f in followers
        )
        self._look = asyncio.Event()
        self._requests = RoundRequests()

    async def run(self) -> None:
        """Poll until cancelled."""
        self._authority.listen(self, self.look_now)
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._watched:
                    watching = (f"{self._named}: its watch", self._watch, self._clock)
                    tasks.create_task(self._containment.keep(*watching, lambda _: None))
                while True:
                    began = self._clock.monotonic()
                    self._requests.began()
                    await self.check()
                    self._requests.ended()
                    await self._pause(self._clock.monotonic() - began)
        finally:
            self._authority.leave(self)

    async def _by_git(self, sources: Sequence[GitSource]) -> list[ResolvedRef | DiagnosticError]:
        return await asyncio.to_thread(look, self._repository, sources)

    def look_now(self) -> None:
        """Poll before the interval is over."""
        self._look.set()

    def look_for(self, done: Callable[[], None]) -> None:
        """Poll before the interval is over; call `done` when that poll has ended."""
        self._requests.ask(done)
        self._look.set()

    async def check(self) -> None:
        """Poll once for every source; after a failure, with re-read credentials."""
        sources = [follower.source for follower in self._followers]
        found: Sequence[ResolvedRef | DiagnosticError]
        unread = ""
        term = self._authority.term  # a poll from before a pause may be out of date
        try:
            with self._containment.of(self._named):
                if self._failures and self._renew is not None:
                    unread = await self._renew()
                found = await self._resolve(sources)
        except DiagnosticError as error:
            found = [error] * len(sources)
        if unread:
            found = [_explained(one, unread) for one in found]
        for follower, one in zip(self._followers, found, strict=True):
            await self._hand_on(follower, one)
            if isinstance(one, ResolvedRef):
                self._authority.read(follower.id, term, one.commit)
                follower.read_at = self._clock.now()
        failed = all(isinstance(one, DiagnosticError) for one in found)
        self._failures = min(self._failures + 1, _DOUBLINGS_MAX) if failed else 0

    async def _hand_on(
        self, follower: SourceFollower, found: ResolvedRef | DiagnosticError
    ) -> None:
        """Hand the result to a source. One that crashed is skipped until its ref moved or its pause
        ended."""
        tip, now = found.commit if isinstance(found, ResolvedRef) else "", self._clock.now()
        parked = self._parked.get(follower)
        if parked is not None and parked.tip == tip and parked.pause.rests(now):
            return
        await follower.take(found)
        self._parked.pop(follower, None)
        if tip and follower.problem is not None and follower.problem.concern is Concern.PROGRAM:
            tries = min(parked.tries + 1, _DOUBLINGS_MAX) if parked is not None else 1
            pause = RetryPause(now, now + pause_after(tries, self._interval))
            self._parked[follower] = _ParkedSource(tip, tries, pause)

    async def _watch(self) -> None:
        async with aclosing(ref_changes(self._repository)) as changes:
            async for _ in changes:
                self._look.set()

    async def _pause(self, took_s: float) -> None:
        """Wait for the next poll: the interval counts from poll to poll."""
        jitter = 0.8 + (self._clock.seed() % 1000) / 5000
        whole = pause_after(self._failures, self._interval) * jitter
        pause = max(whole - timedelta(seconds=took_s), whole / 2)
        now = self._clock.now()
        rests = [max(parked.pause.until - now, FIRST_PAUSE) for parked in self._parked.values()]
        await wait_for(self._look, self._clock, min([pause, *rests]))
        self._look.clear()


def pause_after(failures: int, interval: timedelta) -> timedelta:
    """Return the interval, or while the repository does not answer 1 s, doubled up to 5 min."""
    if failures == 0:
        return interval
    return min(FIRST_PAUSE * (1 << (failures - 1)), max(LONGEST_PAUSE, interval))


def _explained(found: ResolvedRef | DiagnosticError, unread: str) -> ResolvedRef | DiagnosticError:
    """Return a failure with the reason why the credentials in use may be outdated."""
    if isinstance(found, ResolvedRef):
        return found
    first, *rest = found.findings
    return SourceFailed(replace(first, message=f"{first.message}; {unread}"), *rest)
