"""Following one branch of one repository: each new commit once, rewritten history refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import timedelta

from gitkruise.errors import Finding, Reported, SourceFailed
from gitkruise.git.repo import Repository
from gitkruise.git.watching import ref_changes
from gitkruise.kube.clock import Clock
from gitkruise.model.config import GitSource, duration

log = logging.getLogger(__name__)
_LONGEST_PAUSE = timedelta(minutes=5)


def ref_of(source: GitSource) -> str:
    """The ref a source follows, for records: a commit, a full name, a tag, a branch, or HEAD."""
    ref = source.spec.ref
    return ref.commit or ref.name or ref.tag or ref.branch or "HEAD"


def tip_of(repository: Repository, source: GitSource) -> str:
    """The commit a source stands at now, present locally. Blocking; raises SourceFailed.

    Without any ref it is the branch that the repository's own HEAD names.
    """
    ref = source.spec.ref
    if ref.commit:
        repository.fetch(repository.default_branch())
        return repository.resolve(ref.commit)
    if ref.name:
        return repository.fetch(ref.name)
    if ref.tag:
        return repository.fetch(f"refs/tags/{ref.tag}")
    return repository.fetch(ref.branch or repository.default_branch())


class SourceFollower:
    """Calls `on_commit` with each new tip and `on_problem` with what keeps us from seeing one.

    `live` names the commits the cluster stands on: history that drops one of them is not
    followed. A commit that was rejected, and taken back by rewriting, is nobody's loss.

    A local repository is watched (and looked at every interval all the same); others are asked
    every interval, with jitter, and with growing pauses while they do not answer.
    """

    def __init__(
        self,
        source: GitSource,
        repository: Repository,
        clock: Clock,
        *,
        on_commit: Callable[[str], None],
        on_problem: Callable[[Finding | None], None],
        live: Callable[[], Iterable[str]],
    ) -> None:
        self.source, self.repository, self._clock = source, repository, clock
        self._on_commit, self._on_problem, self._live = on_commit, on_problem, live
        self._told = ""  # the newest commit handed on
        self._failures = 0
        self._problem: Finding | None = None
        self._look = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self.repository.local:
                tasks.create_task(self._watch())
            while True:
                await self.check()
                await self._pause()

    def look_now(self) -> None:
        """Look before the interval is over."""
        self._look.set()

    async def _watch(self) -> None:
        async with aclosing(ref_changes(self.repository)) as changes:
            async for _ in changes:
                self._look.set()

    async def _pause(self) -> None:
        interval = duration(self.source.spec.interval)
        pause = min(interval * 2**self._failures, max(_LONGEST_PAUSE, interval))
        jitter = 0.9 + (self._clock.seed() % 1000) / 5000
        try:
            async with self._clock.timeout(pause.total_seconds() * jitter):
                await self._look.wait()
        except TimeoutError:
            pass
        self._look.clear()

    async def check(self) -> None:
        """Look once."""
        try:
            tip = await asyncio.to_thread(tip_of, self.repository, self.source)
            problem = await self._rewritten(tip) if tip != self._told else None
        except Reported as error:
            self._failures = min(self._failures + 1, 10)
            self._tell(error.findings[0])
            return
        self._failures = 0
        self._tell(problem)
        if problem is None and tip != self._told:
            self._told = tip
            self._on_commit(tip)

    def _tell(self, problem: Finding | None) -> None:
        """Pass on news; the same trouble with another count of tries is none."""
        before, self._problem = self._problem, problem
        if _gist(problem) == _gist(before):
            return
        if problem is not None:
            log.warning("%s: %s", self.source.name, problem)
        self._on_problem(problem)

    async def _rewritten(self, tip: str) -> Finding | None:
        """GK3204 when a commit the cluster stands on is no longer in the branch's history."""
        if self.source.spec.allow_force_push:
            return None
        for commit in sorted(set(self._live())):
            if not await asyncio.to_thread(self._leads_to, commit, tip):
                return self._lost(commit, tip)
        return None

    def _leads_to(self, commit: str, tip: str) -> bool:
        try:
            return self.repository.is_ancestor(commit, tip)
        except SourceFailed:
            log.info("%s is not in the repository any more", commit)
            return False

    def _lost(self, commit: str, tip: str) -> Finding:
        short = commit[:7]
        return Finding(
            code="GK3204",
            message=f"branch {ref_of(self.source)} was rewritten: {short}, "
            "the commit now live, is no longer in its history",
            notes=(
                ("live", commit),
                ("remote", tip),
                ("policy", "allowForcePush is off, so sync is stopped"),
                ("unchanged", f"the cluster stays on {short}"),
                ("next", f"put {short} back into the branch's history"),
                ("or", f"accept rewrites: allowForcePush: true on GitSource {self.source.name}"),
            ),
        )


def _gist(problem: Finding | None) -> tuple[str, str] | None:
    return (problem.code, problem.message) if problem else None
