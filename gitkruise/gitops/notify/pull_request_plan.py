"""The plan of merging a pull request, against the live objects, as in `gitkruise plan`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

import msgspec

from gitkruise import __version__
from gitkruise.errors import Crashed, Finding, InvalidManifests, SourceFailed
from gitkruise.git.plumbing.commits import ACTION, NOTED_ACTIONS, OBJECT, squashed_trailers
from gitkruise.git.repository.merge import Unmergeable, merged
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.post_build import read_known, wants
from gitkruise.gitops.build.release import KnownData
from gitkruise.gitops.build.untrusted import PagePart, PageRequest, Workers
from gitkruise.gitops.cluster.impersonation import account_of, acting_as
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.preview.brought_units import DEEP, config_left
from gitkruise.gitops.preview.cluster_facts import ClusterFacts, cluster_facts
from gitkruise.gitops.preview.inputs import PlanSide, followers
from gitkruise.gitops.preview.rejection import as_taken
from gitkruise.gitops.preview.render_markdown import fenced
from gitkruise.gitops.workers import frames
from gitkruise.gitops.workers.pool import InProcess
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.notifications import Pull, PullRequestReport
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.printable import visible
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import named

log = logging.getLogger(__name__)
_FINDINGS: Final = 10
_BROUGHT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class PullRequestForecast:
    """A report with its plan, the plan in a few words, and the units whose live state matters."""

    report: PullRequestReport
    summary: str = ""
    units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedCommit:
    """The head of a pull request or a branch, and the branch `into` which it may be merged.

    `base` is the tip of that one. `page` plans the merge, from the live objects where `live`.
    """

    name: str
    title: str
    url: str
    into: str
    base: str
    head: str
    live: bool
    page: Callable[[PagePart], Awaitable[frames.PlanPage]]


@dataclass(frozen=True, kw_only=True)
class PullRequestPlanner:
    """Plan pull requests into one branch of one repository, for the units of `config`."""

    repository: Repository
    branch: str
    config: Config
    live: LiveView
    cluster: str
    gates: Gates
    clock: Clock
    workers: Workers = field(default_factory=InProcess)

    async def plan(self, pull: Pull, ref: str) -> PullRequestForecast:
        """Return the plan of merging `pull`, whose head the forge has under `ref`.

        Raises SourceFailed when git fails, ApiError when the cluster does.
        """
        base = await asyncio.to_thread(self._fetch, pull, ref)
        report = PullRequestReport(
            number=pull.number, state="open", head=pull.head, branch=pull.base, base=base,
            settings=self.settings,
        )  # fmt: skip
        try:
            merge = await asyncio.to_thread(merged, self.repository, base, pull.head)
            found = await (self._apart if pull.foreign else self._live)(base, merge)
        except Unmergeable as error:
            return PullRequestForecast(_conflicting(report, error))
        except InvalidManifests as error:
            return PullRequestForecast(_unplanned(report, error.findings))
        units = () if pull.foreign else found.units
        if found.findings and not found.plan:
            return PullRequestForecast(_unplanned(report, found.findings), units=units)
        report = msgspec.structs.replace(
            report, plan=found.plan, touches=found.moved or bool(found.rejecting),
            rejecting=found.rejecting, failed=_rejected(found, pull.base),
            units=tuple(sorted({*found.takers, *found.rejecting})),
        )  # fmt: skip
        return PullRequestForecast(report, found.summary, units)

    async def proposed(self, pull: Pull, ref: str) -> ProposedCommit:
        """Return what `pull` proposes, whose head the remote has under `ref`.

        The page is of the same plan: about live objects unless its author is a stranger. Raises
        SourceFailed.
        """
        base = await asyncio.to_thread(self._fetch, pull, ref)
        name = f"pull request {pull.number}" if pull.number else f"branch {pull.branch}"
        return ProposedCommit(
            name=visible(name), title=visible(pull.title), url=pull.url, into=self.branch,
            base=base, head=pull.head, live=not pull.foreign,
            page=partial(self._page, pull, base),
        )  # fmt: skip

    async def _page(self, pull: Pull, base: str, part: PagePart) -> frames.PlanPage:
        merge = await asyncio.to_thread(merged, self.repository, base, pull.head)
        apart = pull.foreign or part.diff
        asked = PageRequest(
            base=base, head=merge, part=part, stranger=pull.foreign,
            facts=None if apart else await self._facts(base, merge),
        )  # fmt: skip
        return await self.workers.page(
            self.repository, self.config, self.live.catalog, self.gates, asked
        )

    @cached_property
    def settings(self) -> str:
        """Return a digest of the planned units, and of the version that plans them."""
        text = repr((__version__, self.config.sources, self.config.units, self.gates))
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    async def outdated(self, report: PullRequestReport) -> bool:
        """Return whether the branch has other commits than those that a report was planned on, or
        the units other settings.

        It is the branch as last fetched for the units that follow it. Raises SourceFailed.
        """
        if report.settings != self.settings:
            return True
        ref = f"refs/heads/{self.branch}"
        return await asyncio.to_thread(self.repository.resolve, ref) != report.base

    async def _apart(self, base: str, merge: str) -> frames.PlanText:
        """Return a plan without live objects: the author of a foreign pull request sees it."""
        return await self.workers.plan_text(
            self.repository, self.config, self.live.catalog, self.gates, base=base, head=merge
        )

    async def _live(self, base: str, merge: str) -> frames.PlanText:
        """Return the plan against the live objects."""
        facts = await self._facts(base, merge)
        return await self.workers.plan_text(
            self.repository, self.config, self.live.catalog, self.gates, facts,
            base=base, head=merge,
        )  # fmt: skip

    async def _facts(self, base: str, merge: str) -> ClusterFacts:
        """Return the live state that the plan starts from."""
        known = await self._known()
        before = await self._side(base, None, known, base=True)
        after = await self._side(merge, before, known)
        units = await asyncio.to_thread(followers, self.repository, self.config, merge)
        facts = await cluster_facts(
            before, replace(as_taken(before, after), followed_by=units), self.live.catalog,
            transport=self.live.transport, now=self.clock.now(), cluster=self.cluster,
        )  # fmt: skip
        return replace(facts, known=known)

    async def _known(self) -> KnownData:
        """Return the values of ConfigMaps that the units are rendered with.

        A commit before its merge gets no value of a Secret: it may put it into a name.
        """
        known = KnownData()
        for unit in self.config.units.values():
            if wants(unit):
                transport = acting_as(account_of(unit), self.live.transport)
                await read_known(unit, transport, known, secrets=False)
        return known

    async def _side(
        self, commit: str, before: PlanSide | None, known: KnownData, *, base: bool = False
    ) -> PlanSide:
        """Return a commit as the units read it that it leaves."""
        config, rules = self.config, (self.live.catalog, self.gates)
        read = partial(self.workers.side, self.repository, commit, base=base, known=known)
        side = await read(config, *rules)
        for _ in range(DEEP):
            if (left := config_left(config, before, side)) == config:
                break
            config = left
            side = await read(config, *rules)
        return side

    def brought(self, report: PullRequestReport, merged_as: str) -> tuple[str, ...]:
        """The commits that a merge brought to the branch. Blocking. Raises SourceFailed."""
        self.repository.fetch(f"refs/heads/{self.branch}")
        found = {merged_as, report.head}
        parents = self.repository.commit(merged_as).parents
        if len(parents) > 1:
            between = self.repository.commits_between(parents[0], merged_as, limit=_BROUGHT_MAX)
            found |= {commit.id for commit in between}
        if report.base and self.repository.is_ancestor(report.head, merged_as):
            between = self.repository.commits_between(report.base, report.head, limit=_BROUGHT_MAX)
            found |= {commit.id for commit in between}
        elif report.base and len(parents) == 1:
            found |= self._rebased(report, merged_as)
        return tuple(sorted(found))

    def past(self, report: PullRequestReport, at: Mapping[str, str]) -> frozenset[str]:
        """Return the units whose commit, in `at`, is newer than the merge of a report. Blocking.

        A commit that git lacks, as after a rewrite of the branch, is not known to be.
        """
        found, merge = set[str](), report.merged_as
        try:
            for unit, commit in at.items():
                here = commit not in report.commits and self.repository.has(commit)
                if here and merge and self.repository.is_ancestor(merge, commit):
                    found.add(unit)
        except SourceFailed as error:  # the remote is away, or another push replaced the merge
            log.info(log_line("merge-not-compared", commit=merge, error=error))
        return frozenset(found)

    def unsaid(self, report: PullRequestReport, merged_as: str) -> tuple[str, ...]:
        """Return the commands that commits of a pull request name for promotions, where the branch
        that it was merged into does not say so: its squash has another message. Blocking.

        Raises SourceFailed.
        """
        units = self.config.units.values()
        promoted = sorted({key for unit in units if (key := unit.promoted) is not None})
        if not promoted or not report.base:
            return ()
        asked, merged = (
            self._actions(report.base, report.head),
            self._actions(report.base, merged_as),
        )
        verbs = {str(key): (asked.get(str(key), ""), named(key)) for key in promoted}
        return tuple(
            f"gitkruise {verb} {name}"
            for key, (verb, name) in verbs.items()
            if verb in NOTED_ACTIONS and merged.get(key) != verb
        )

    def _actions(self, since: str, commit: str) -> dict[str, str]:
        """Return the newest action on each object that commits after `since` name."""
        found: dict[str, str] = {}
        for each in self.repository.commits_between(since, commit, limit=_BROUGHT_MAX):
            for trailers in squashed_trailers(self.repository.message(each.id)):
                if ACTION in trailers and OBJECT in trailers:
                    found.setdefault(trailers[OBJECT], trailers[ACTION])
        return found

    def _rebased(self, report: PullRequestReport, merged_as: str) -> set[str]:
        """The copies of a pull request's commits that end with `merged_as`: they have the same
        messages, one after the other. A squashed one has another message, or is the only one."""
        found, here = set[str](), merged_as
        for commit in self.repository.commits_between(report.base, report.head, limit=_BROUGHT_MAX):
            if self.repository.message(here) != self.repository.message(commit.id):
                break
            found.add(here)
            here = next(iter(self.repository.commit(here).parents), "")
            if not here:
                break
        return found

    def _fetch(self, pull: Pull, ref: str) -> str:
        """Fetch both ends of the pull request, and return the tip of the branch."""
        tip = self.repository.fetch(f"refs/heads/{self.branch}")
        if not self.repository.here(pull.head):
            self.repository.fetch(ref)
        return tip


def unplannable(pull: Pull, error: Crashed) -> PullRequestForecast:
    """The report of a pull request whose planning crashed. Where the report is kept concerns only
    those who run gitkruise."""
    finding = error.findings[0]
    message = finding.message.partition("; report:")[0]
    failed = (
        "gitkruise could not plan it, and tries again after a while. "
        "What is live is unchanged.\n\n" + fenced("text", [f"{finding.code}: {message}"])
    )
    return PullRequestForecast(
        PullRequestReport(
            number=pull.number, state="open", head=pull.head, branch=pull.base, failed=failed,
            crashed=True, touches=True,
        )
    )  # fmt: skip


def _unplanned(report: PullRequestReport, findings: Sequence[Finding]) -> PullRequestReport:
    failed = (
        "It would not be applied; what is live would stay. "
        "Next: push a commit to its branch that mends this.\n\n" + _listed(findings)
    )
    return msgspec.structs.replace(report, failed=failed, touches=True)


def _rejected(found: frames.PlanText, branch: str) -> str:
    """Return the sentence about units that a plan leaves out, and their errors; "" for none."""
    if not found.findings:
        return ""
    names = ", ".join(found.rejecting[:_FINDINGS]) + (", …" * (len(found.rejecting) > _FINDINGS))
    sentence = f"{names} would reject it and keep what is live. The plan is of the other units."
    if not found.rejecting:
        sentence = (
            f"A unit rejects `{branch}` already, and would not take it. The plan leaves it out."
        )
    return f"{sentence}\n\n{_listed(found.findings)}"


def _listed(findings: Sequence[Finding]) -> str:
    """Return findings with their places and what to do next, in a fence."""
    lines: list[str] = []
    for finding in findings[:_FINDINGS]:
        labels = [place.label for place in finding.places[:1] if place.label]
        following = [text for name, text in finding.notes if name == "next"] or labels
        lines += [f"{finding}", *(f"  next: {text}" for text in following)]
    more = len(findings) - _FINDINGS
    return fenced("text", [*lines, *([f"… and {more} more"] if more > 0 else [])])


def _conflicting(report: PullRequestReport, error: Unmergeable) -> PullRequestReport:
    """The report of a pull request that git cannot merge: as it is it changes nothing."""
    (finding,) = error.findings
    why = dict(finding.notes)["why"]
    failed = (
        "It cannot be merged, so there is no plan. What is live is unchanged. "
        "Next: rebase it on the branch, or merge the branch into it.\n\n"
        + fenced("text", [f"{finding.code}: {finding.message}", f"why: {why}"])
    )
    return msgspec.structs.replace(report, failed=failed, touches=True)
