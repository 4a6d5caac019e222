"""Following one source: each new commit once; rewritten or untrusted history refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from gitkruise.errors import Finding, Reported, SourceFailed
from gitkruise.git.prefetch import bring_files
from gitkruise.git.refs import is_object_id
from gitkruise.git.repo import Repository
from gitkruise.gitops.memory import Memory
from gitkruise.gitops.standing import leads_to
from gitkruise.gitops.target import Target, look, ref_of
from gitkruise.gitops.trust import Trusted, anything
from gitkruise.model.config import GitSource
from gitkruise.planner.sync.marks import ACCEPT_REWRITE

log = logging.getLogger(__name__)
_COUNTED: Final = 1_000  # commits; more are not counted one by one


@dataclass(frozen=True, slots=True)
class Terms:
    """What must hold before a commit is handed on: it is `trusted` (which says what is wrong with
    the signatures of a commit and its ref), files below `paths` are here, and its history holds
    what `memory` has of an earlier run. It went through `sift`, which may block."""

    trusted: Trusted = anything
    paths: tuple[str, ...] = ()
    memory: Memory | None = None
    renew: Callable[[], Awaitable[None]] | None = None  # what `trusted` judges by
    sift: Callable[[str], None] = lambda _: None


NO_TERMS: Final = Terms()


class SourceFollower:
    """Calls `on_commit` with each new tip and `on_problem` with what keeps us from seeing one.

    `live` names the commits the cluster stands on: history that drops one of them is not
    followed. A commit that was rejected, and taken back by rewriting, is nobody's loss.
    """

    def __init__(
        self,
        source: GitSource,
        repository: Repository,
        *,
        on_commit: Callable[[str], None],
        on_problem: Callable[[Finding | None], None],
        live: Callable[[], Iterable[str]],
        terms: Terms = NO_TERMS,
    ) -> None:
        self.source, self.repository = source, repository
        self._on_commit, self._on_problem, self._live = on_commit, on_problem, live
        self._terms = terms
        self._told = ""  # the newest commit handed on
        self._problem: Finding | None = None

    @property
    def followed(self) -> str:
        """The newest commit handed on; "" before the first."""
        return self._told

    @property
    def problem(self) -> Finding | None:
        """What keeps us from the newest commit."""
        return self._problem

    async def check(self) -> None:
        """Look once, for this source alone."""
        try:
            (found,) = await asyncio.to_thread(look, self.repository, [self.source])
        except Reported as error:
            found = error
        await self.take(found)

    async def take(self, found: Target | Reported) -> None:
        """Hand on where the source stands now, or what is wrong."""
        if self._told and self._terms.memory is not None:
            await asyncio.to_thread(self._terms.memory.keep, self._live())
        if isinstance(found, Target):
            new = found.commit != self._told
            problem = await self._new_problem(found) if new else None
            self._tell(problem)
            if problem is None and new:
                self._told = found.commit
                self._on_commit(found.commit)
        else:
            self._tell(self._meanwhile(found.findings[0]))

    async def _new_problem(self, found: Target) -> Finding | None:
        try:
            if self._terms.renew is not None:
                await self._terms.renew()
        except Reported as error:
            return error.findings[0]
        return await asyncio.to_thread(self._judge, found)

    def _judge(self, target: Target) -> Finding | None:
        """Why a tip is not handed on. Blocking."""
        try:
            problem = self._rewritten(target) or self._untrusted(target)
            if problem is None:
                bring_files(self.repository, target.commit, self._terms.paths)
                self._terms.sift(target.commit)
        except Reported as error:
            return error.findings[0]
        return problem

    def _tell(self, problem: Finding | None) -> None:
        """Pass on news; the same trouble with another count of tries is none."""
        before, self._problem = self._problem, problem
        if _gist(problem) == _gist(before):
            return
        if problem is not None:
            log.warning("%s: %s", self.source.name, problem)
        self._on_problem(problem)

    def _meanwhile(self, finding: Finding) -> Finding:
        """Trouble on the way to a remote, told with what is live meanwhile."""
        live = _both(self._live())
        if not live or not finding.code.startswith("GK31"):
            return finding
        told = f"still running {live}, and drift is still looked after; new commits are not seen"
        notes = [(k, told if k == "unchanged" else text) for k, text in finding.notes]
        return replace(finding, notes=tuple(notes))

    def _untrusted(self, target: Target) -> Finding | None:
        finding = self._terms.trusted(target.commit, target.ref)
        if finding is None:
            return None
        live = _both(self._live())
        stays = f"{live} stays live" if live else "nothing was live yet"
        unchanged = ("unchanged", f"{stays}; nothing of this commit was read")
        return replace(finding, notes=(*finding.notes[:-1], unchanged, finding.notes[-1]))

    def _rewritten(self, target: Target) -> Finding | None:
        """GK3204 when a commit the cluster stands on is no longer in the ref's history.

        A range may choose another tag at any time, and a pin says itself what it wants; but a tag
        that was moved or taken away under the cluster is rewritten history, too.
        """
        if self.source.spec.allow_force_push or self.source.spec.ref.commit:
            return None
        stood_on = set(self._live())
        if not self._told and self._terms.memory is not None:
            stood_on |= self._terms.memory.recall()
        for commit in sorted(stood_on - target.tagged):
            kept = leads_to(self.repository, commit, target.commit)
            if not (kept or self._accepted(commit, target.commit)):
                return self._lost(commit, target.commit)
        return None

    def _accepted(self, lost: str, tip: str) -> bool:
        """Whether a person agreed to this rewrite: its history has the commit they named, and what
        it drops had not. A later rewrite that drops what came after is another one."""
        named = self.source.accepted
        return (
            is_object_id(named)
            and leads_to(self.repository, named, tip)
            and not leads_to(self.repository, named, lost)
        )

    def _lost(self, commit: str, tip: str) -> Finding:
        short = commit[:7]
        return Finding(
            code="GK3204",
            message=f"{_kind(self.source)} {ref_of(self.source)} was rewritten: {short}, "
            "the commit now live, is no longer in its history",
            notes=(
                ("live", self._told_of(commit)),
                ("remote", self._told_of(tip) + self._between(commit, tip)),
                ("policy", "allowForcePush is off, so sync is stopped"),
                ("unchanged", f"the cluster stays on {short}"),
                ("next", f"look at it: gitkruise plan --from {short} --to {tip[:7]}"),
                ("or", f"put {short} back into the {_kind(self.source)}'s history"),
                ("or", f"accept it once: gitkruise sync --accept-rewrite {tip}"),
                ("or", f"annotate its GitSource: {ACCEPT_REWRITE}: {tip}"),
                ("or", f"accept rewrites: allowForcePush: true on GitSource {self.source.name}"),
            ),
        )

    def _told_of(self, commit: str) -> str:
        """`4f2c9e1  Dana K  "canary"`; the whole id of a commit that is not here any more."""
        try:
            about = self.repository.commit(commit)
        except SourceFailed:
            return commit
        return f'{about.short}  {about.author}  "{about.subject}"'

    def _between(self, old: str, new: str) -> str:
        """How much the rewrite dropped and added, as far as it can be told."""
        try:
            dropped = len(self.repository.commits_between(new, old, limit=_COUNTED))
            added = len(self.repository.commits_between(old, new, limit=_COUNTED))
        except SourceFailed:
            return ""
        return f"   {_number(dropped)} dropped, {_number(added)} added"


def _both(commits: Iterable[str]) -> str:
    """`4f2c9e1 and 8ab13d0`."""
    return " and ".join(sorted({commit[:7] for commit in commits}))


def _number(commits: int) -> str:
    many = f"{_COUNTED} commits or more" if commits >= _COUNTED else f"{commits} commits"
    return "1 commit" if commits == 1 else many


def _kind(source: GitSource) -> str:
    ref = source.spec.ref
    return "ref" if ref.name else "range" if ref.semver else "tag" if ref.tag else "branch"


def _gist(problem: Finding | None) -> tuple[str, str] | None:
    return (problem.code, problem.message) if problem else None
