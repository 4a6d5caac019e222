"""Follower of one source: each new commit once; rewritten or untrusted history is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gitkruise.errors import ApiError, Concern, Crashed, DiagnosticError, Finding, SourceFailed
from gitkruise.git.plumbing.refs import HEADS, is_object_id
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.source.accepted_commits import Memory
from gitkruise.gitops.source.accepted_rewrites import AcceptedRewrites
from gitkruise.gitops.source.ancestry import leads_to
from gitkruise.gitops.source.ref_resolver import ResolvedRef, look, ref_of
from gitkruise.gitops.source.verification import Trusted, anything
from gitkruise.model.gitops.config import GitSource
from gitkruise.model.gitops.document import GitCommit
from gitkruise.planner.sync.annotations import ACCEPT_REWRITE
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_COUNTED: Final = 1_000  # commits; more are not counted one by one


@dataclass(frozen=True, slots=True)
class FollowPolicy:
    """Conditions for handing on a commit.

    `trusted` says why a commit and its ref are not trusted, if so; `renew` refreshes its keys.
    Files below `paths` must be in the repository. `memory` holds the live commits of an earlier
    run, `rewrites` those that users accepted. `prepare` prepares a commit that passed.
    """

    trusted: Trusted = anything
    paths: tuple[str, ...] = ()
    memory: Memory | None = None
    rewrites: AcceptedRewrites | None = None
    renew: Callable[[], Awaitable[None]] | None = None  # what `trusted` judges by
    prepare: Callable[[str], Awaitable[None]] | None = None
    containment: Containment = UNREPORTED


DEFAULT_POLICY: Final = FollowPolicy()


class SourceFollower:
    """Calls `on_commit` with each new commit and `on_problem` with what prevents following, and
    the commit that was refused, if one was.

    `live` returns the live commits: history that drops one of them is not followed. A rejected
    commit that a rewrite takes back is no loss.
    """

    def __init__(
        self,
        source: GitSource,
        repository: Repository,
        *,
        on_commit: Callable[[str], None],
        on_problem: Callable[[Finding | None, GitCommit | None], None],
        live: Callable[[], Iterable[str]],
        policy: FollowPolicy = DEFAULT_POLICY,
    ) -> None:
        self.source, self.repository = source, repository
        self._on_commit, self._on_problem, self._live = on_commit, on_problem, live
        self._policy, self._named = policy, f"GitSource {source.namespace}/{source.name}"
        self._handed_on = ""  # the newest commit handed on
        self.revision = ""  # of the artifact that it was imported from
        self._ref = ""  # the full one that led to a commit last
        self.read_at: datetime | None = None  # when the ref was resolved last
        self._problem: Finding | None = None
        self._refused: GitCommit | None = None  # by the verdict on its history and signature

    @property
    def id(self) -> str:
        """Return `namespace/name` of the source."""
        return f"{self.source.namespace}/{self.source.name}"

    @property
    def followed(self) -> str:
        """Return the newest commit handed on; "" before the first."""
        return self._handed_on

    @property
    def branch(self) -> str:
        """Return the branch that it follows, by name or by default; "" for another ref, and before
        a default branch is known."""
        ref = self.source.spec.ref
        if ref.branch or not ref.is_branch or not self._ref.startswith(HEADS):
            return ref.followed_branch
        return self._ref.removeprefix(HEADS)

    @property
    def problem(self) -> Finding | None:
        """Return the problem that prevents following; None if there is none."""
        return self._problem

    async def check(self) -> None:
        """Resolve the ref of this source alone, and hand on the result."""
        found: ResolvedRef | DiagnosticError
        try:
            with self._policy.containment.of(self._named):
                (found,) = await asyncio.to_thread(look, self.repository, [self.source])
        except DiagnosticError as error:
            found = error
        await self.take(found)

    async def take(self, found: ResolvedRef | DiagnosticError) -> None:
        """Hand on the resolved commit, or the problem."""
        try:
            with self._policy.containment.of(self._named):
                await self._taken(found)
        except Crashed as error:
            self._report(error.findings[0])

    async def _taken(self, found: ResolvedRef | DiagnosticError) -> None:
        if self._handed_on and self._policy.memory is not None:
            await asyncio.to_thread(self._policy.memory.keep, self._live())
        if isinstance(found, ResolvedRef):
            self._ref = found.ref
            new = found.commit != self._handed_on
            before, self._refused = self._refused, None
            problem = await self._new_problem(found) if new else None
            if problem is None and new:
                self._on_commit(found.commit)
                self._handed_on = found.commit
            if problem is None:
                self.revision = found.revision
            self._report(problem, again=self._refused != before)
        else:
            self._report(self._meanwhile(found.findings[0]))

    async def _new_problem(self, found: ResolvedRef) -> Finding | None:
        try:
            if self._policy.renew is not None:
                await self._policy.renew()
        except DiagnosticError as error:
            return error.findings[0]
        try:
            problem = await self._judged(found)
        except ApiError as error:
            return _unknown_acceptance(self.source, error)
        if problem is not None and problem.concern is Concern.HISTORY:
            self._refused = await asyncio.to_thread(self.repository.commit, found.commit)
        if problem is None and self._policy.prepare is not None:
            await self._policy.prepare(found.commit)
        return problem

    async def _judged(self, found: ResolvedRef) -> Finding | None:
        """Return why a commit is not handed on, after asking which rewrites were accepted.

        An acceptance of the configuration is remembered for the other processes. Raises ApiError.
        """
        named, rewrites = self.source.accepted, self._policy.rewrites
        accepted = {named} if named else set()
        problem = await asyncio.to_thread(self._judge, found, accepted)
        if rewrites is None:
            return problem
        if problem is None and is_object_id(named):
            await rewrites.note(self.id, named)
        if problem is not None and (other := await rewrites.of(self.id)):
            return await asyncio.to_thread(self._judge, found, accepted | {other})
        return problem

    def _judge(self, target: ResolvedRef, accepted: Collection[str]) -> Finding | None:
        """Return why a commit is not handed on; None if it may be. Blocking."""
        try:
            problem = self._rewritten(target, accepted) or self._untrusted(target)
            if problem is None:
                self.repository.fetch_files(target.commit, self._policy.paths)
        except DiagnosticError as error:
            return error.findings[0]
        return problem

    def _report(self, problem: Finding | None, *, again: bool = False) -> None:
        """Report a problem that changed; another count of attempts is no change."""
        before, self._problem = self._problem, problem
        if _gist(problem) == _gist(before) and not again:
            return
        if problem is not None:
            log.warning(log_line("source-failed", source=self.source.name, error=problem))
        self._on_problem(problem, self._refused)

    def _meanwhile(self, finding: Finding) -> Finding:
        """Complete a failure of the remote with the live commit, which keeps running."""
        live = _all(self._live())
        if not live or finding.concern is not Concern.REMOTE:
            return finding
        unchanged = (
            f"still running {live}, and drift is still looked after; new commits are not seen"
        )
        notes = [(k, unchanged if k == "unchanged" else text) for k, text in finding.notes]
        return replace(finding, notes=tuple(notes))

    def _untrusted(self, target: ResolvedRef) -> Finding | None:
        finding = self._policy.trusted(target.commit, target.ref)
        if finding is None:
            return None
        live = _all(self._live())
        verb = "stay" if " and " in live else "stays"
        stays = f"{live} {verb} live" if live else "what runs stays as it is"
        unchanged = ("unchanged", f"{stays}; nothing of this commit was read")
        return replace(finding, notes=(*finding.notes[:-1], unchanged, finding.notes[-1]))

    def _rewritten(self, target: ResolvedRef, accepted: Collection[str]) -> Finding | None:
        """Return GK3204 when a live commit is no longer in the ref's history.

        A range may choose another tag at any time, and a pinned commit is explicit; but a tag that
        was moved or deleted under the cluster is rewritten history, too. Artifacts have no history:
        a tag is free to move, as in Flux, and a digest pins one.
        """
        spec = self.source.spec
        if spec.allow_force_push or spec.ref.commit or spec.is_artifact:
            return None
        stood_on = set(self._live())
        if not self._handed_on and self._policy.memory is not None:
            stood_on |= self._policy.memory.recall()
        for commit in sorted(stood_on - target.tagged):
            kept = leads_to(self.repository, commit, target.commit)
            if not (kept or any(self._allows(a, commit, target.commit) for a in accepted)):
                return self._lost(commit, target.commit)
        return None

    def _allows(self, named: str, lost: str, tip: str) -> bool:
        """Return whether a user who named this commit accepted this rewrite.

        Its history contains the commit that they named, and that one does not contain what it
        drops. A later rewrite that drops newer commits needs another acceptance.
        """
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
                ("live", self._commit_text(commit)),
                ("remote", self._commit_text(tip) + self._between(commit, tip)),
                ("policy", "allowForcePush is off, so sync is stopped"),
                ("unchanged", f"the cluster stays on {short}"),
                ("next", f"look at it: gitkruise plan --from {short} --to {tip[:7]}"),
                ("or", f"put {short} back into the {_kind(self.source)}'s history"),
                ("or", f"accept it once: gitkruise sync --accept-rewrite {tip}"),
                ("or", f"annotate its GitSource: {ACCEPT_REWRITE}: {tip}"),
                ("or", f"accept rewrites: allowForcePush: true on GitSource {self.source.name}"),
            ),
        )

    def _commit_text(self, commit: str) -> str:
        """Return `4f2c9e1  Dana K  "canary"`, or the full id of a commit that is not in the
        repository."""
        try:
            about = self.repository.commit(commit)
        except SourceFailed:
            return commit
        return f'{about.short}  {about.author}  "{about.subject}"'

    def _between(self, old: str, new: str) -> str:
        """Return the numbers of dropped and added commits; "" if they cannot be counted."""
        try:
            dropped = len(self.repository.commits_between(new, old, limit=_COUNTED))
            added = len(self.repository.commits_between(old, new, limit=_COUNTED))
        except SourceFailed:
            return ""
        return f"   {_number(dropped)} dropped, {_number(added)} added"


def _unknown_acceptance(source: GitSource, error: ApiError) -> Finding:
    return Finding(
        code="GK3308",
        message=f"source {source.name}: the cluster does not say which rewrites were accepted",
        notes=(
            ("why", str(error)),
            ("unchanged", "what runs stays as it is; it is tried again"),
            ("next", "gitkruise doctor cluster"),
        ),
    )


def _all(commits: Iterable[str]) -> str:
    """Return `4f2c9e1`, or `4f2c9e1, 8ab13d0 and c4d5e6f`."""
    *others, last = sorted({commit[:7] for commit in commits}) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _number(commits: int) -> str:
    many = f"{_COUNTED} commits or more" if commits >= _COUNTED else f"{commits} commits"
    return "1 commit" if commits == 1 else many


def _kind(source: GitSource) -> str:
    ref = source.spec.ref
    return "ref" if ref.name else "range" if ref.semver else "tag" if ref.tag else "branch"


def _gist(problem: Finding | None) -> tuple[str, str] | None:
    return (problem.code, problem.message) if problem else None
