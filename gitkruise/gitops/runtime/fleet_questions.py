"""Commits, plans and drift of what a running controller follows, for its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gitkruise.errors import (
    ClusterFailed,
    DiagnosticError,
    Finding,
    SourceFailed,
    UsageProblem,
)
from gitkruise.git.plumbing.errors import ref_missing
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionVerb
from gitkruise.gitops.actions.target import ObjectQuery
from gitkruise.gitops.build.untrusted import PagePart, PageRequest
from gitkruise.gitops.config.fingerprints import sink_of, source_of
from gitkruise.gitops.inspect.drift import (
    DriftComparison,
    differences,
    left_as_they_are,
    of_unknown_kinds,
)
from gitkruise.gitops.notify.factory import of_the_repository
from gitkruise.gitops.notify.pull_request_plan import ProposedCommit, PullRequestPlanner
from gitkruise.gitops.notify.pull_requests import PullRequestLoop
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.runtime.foreseen_edits import EditForecasts, ForeseenEdit
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.workers.frames import PlanPage
from gitkruise.kube.cache.shared import FollowedCache
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.notifications import Pull
from gitkruise.model.gitops.record import DriftRecord
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj, ObjectKey


@dataclass(frozen=True, slots=True)
class FollowedCommit:
    """A commit in the history of what a source follows."""

    source: str
    repository: Repository
    id: str


@dataclass(frozen=True, slots=True)
class RunningFleet:
    """Reads for pages of a controller: its mirrors, its workers, its watches. It pushes nothing.

    `also` are those of other shards that this process has.
    """

    fleet: Supervisor
    gates: Gates
    clock: Clock
    also: tuple[Supervisor, ...] = ()

    @property
    def fleets(self) -> tuple[Supervisor, ...]:
        """Return every supervisor of this process."""
        return (self.fleet, *self.also)

    @property
    def elsewhere(self) -> Mapping[str, Unit]:
        """Return the units of shards that this process does not have."""
        here = frozenset[str]().union(*(one.config.units for one in self.fleets))
        units = self.fleet.foreign.units
        return {name: unit for name, unit in units.items() if name not in here}

    async def followed(self, id_: str) -> FollowedCommit:
        """Return the commit that an id, perhaps abbreviated, names in a followed history.

        Commits of other branches and of pull requests are strangers' content, which is read under
        limits of its own. Raises SourceFailed GK3201.
        """
        return await asyncio.to_thread(self._followed, id_)

    async def page(self, commit: FollowedCommit, part: PagePart) -> PlanPage:
        """Return the plan or the diff of a commit against its first parent, from git alone.

        The workers make it. Raises InvalidManifests and SourceFailed.
        """
        parents = (await asyncio.to_thread(commit.repository.commit, commit.id)).parents
        asked = PageRequest(base=parents[0] if parents else "", head=commit.id, part=part)
        rules = (self.fleet.units_of(commit.source), self.fleet.live.catalog, self.gates)
        return await self.fleet.workers.page(commit.repository, *rules, asked)

    @property
    def loops(self) -> Sequence[PullRequestLoop]:
        """Return those that follow pull requests into branches of units; a Sink may have one for
        each shard."""
        followed = (loops for one in self.fleets for loops in one.notifications.pulls.values())
        return list({loop: None for loops in followed for loop in loops if loop.planners})

    def pulls(self) -> Iterator[tuple[str, Pull, PullRequestPlanner]]:
        """Yield the Sink of each open pull request, the pull request, and its planner."""
        planners: dict[tuple[str, str], PullRequestPlanner] = {}
        found = {(loop.sink, n): loop for loop in self.loops for n in loop.open}
        for (sink, number), loop in sorted(found.items(), key=lambda one: one[0]):
            pull = loop.open[number]
            place = sink, pull.base
            planners[place] = planners.get(place) or self._whole_planner(loop, pull.base)
            yield sink, pull, planners[place]

    def looks(self) -> Iterator[tuple[str, Sequence[str], str]]:
        """Yield each Sink whose forge has pull requests, its units, and why those that are open are
        not known; "" for a list that is up to date."""
        by_sink: dict[str, list[PullRequestLoop]] = {}
        for loop in self.loops:
            by_sink.setdefault(loop.sink, []).append(loop)
        for sink, loops in sorted(by_sink.items()):
            planners = [self._whole_planner(loop, b) for loop in loops for b in loop.planners]
            units = sorted({unit for planner in planners for unit in planner.config.units})
            problem = next((f"not read: {loop.problem}" for loop in loops if loop.problem), "")
            unread = "not read yet" if not all(loop.looked for loop in loops) else ""
            yield sink, units, problem or unread

    def _whole_planner(self, loop: PullRequestLoop, branch: str) -> PullRequestPlanner:
        """Return the planner of pull requests into a branch, for units of other shards, too."""
        planner, whole = loop.planners[branch], self.fleet.whole
        spec = whole.sinks[loop.sink].spec.forge
        if not self.fleet.foreign.units or spec is None:
            return planner
        sources = {source_of(unit) for unit in planner.config.units.values()}
        reported = [unit for unit in whole.units.values() if sink_of(unit) == loop.sink]
        units = {
            unit.id: unit
            for unit in of_the_repository(spec, reported, whole)
            if whole.source_of(unit).spec.ref.followed_branch == branch
            or source_of(unit) in sources
        }
        return replace(planner, config=Config(whole.sources, units, {}))

    def branches(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield each source that follows a branch, the branch, and the units of the source."""
        units: dict[str, list[str]] = {}
        for name, unit in self.fleet.whole.units.items():
            units.setdefault(source_of(unit), []).append(name)
        for source, follower in sorted(self.fleet.followers.items()):
            if branch := follower.branch:
                yield source, branch, sorted(units.get(source, ()))

    def _planner(self, source: str, follower: SourceFollower) -> PullRequestPlanner:
        fleet = self.fleet
        return PullRequestPlanner(
            repository=follower.repository, branch=follower.branch,
            config=fleet.units_of(source), live=fleet.live, cluster=fleet.cluster,
            gates=self.gates, clock=self.clock, workers=fleet.workers,
        )  # fmt: skip

    async def pull(self, sink: str, number: int) -> ProposedCommit:
        """Return what an open pull request of the forge of a Sink proposes.

        Raises SourceFailed, UsageProblem GK7092."""
        loops = [loop for loop in self.loops if loop.sink == sink]
        if not loops:
            known = sorted({loop.sink for loop in self.loops})
            raise _unplanned(f"Sink {sink} follows no pull requests", "Sink", known)
        loop = next((one for one in loops if number in one.open), loops[0])
        return await loop.proposed(number, partial(self._whole_planner, loop))

    async def branch(self, source: str, name: str) -> ProposedCommit:
        """Return what a branch of the repository of a source proposes.

        Raises SourceFailed, UsageProblem GK7092."""
        known = [name for name, _, _ in self.branches()]
        if source not in known:
            raise _unplanned(f"source {source} follows no branch here", "source", known)
        planner = self._planner(source, self.fleet.followers[source])
        ref = f"refs/heads/{name}"
        head = await asyncio.to_thread(planner.repository.fetch, ref)
        pull = Pull(number=0, state="open", head=head, base=planner.branch, branch=name)
        return await planner.proposed(pull, ref)

    @property
    def caches(self) -> Sequence[FollowedCache]:
        """Return the caches that this process follows."""
        return [cache for one in self.fleets for cache in (one.live, *one.live.others)]

    async def foreseen(
        self, verb: ActionVerb, query: ObjectQuery, partition: str = ""
    ) -> ForeseenEdit:
        """Return what a command would commit now; see EditForecasts.foresee."""
        return await EditForecasts(self.fleet, self.gates, self.clock).foresee(
            verb, query, partition
        )

    async def drift(self) -> DriftComparison:
        """Compare every unit of this process with the commit that it takes.

        Raises ClusterFailed while the watches fail.
        """
        found: list[DriftRecord] = []
        compared: set[ObjectKey] = set()
        aside: dict[ObjectKey, str] = {}
        unread = [DiagnosticError(_not_here(name)) for name in sorted(self.elsewhere)]
        for fleet in self.fleets:
            for name, unit in list(fleet.units.items()):
                built = unit.built
                if built is None or built.desired is None:
                    unread.append(DiagnosticError(*self._why_unread(fleet, name)))
                    continue
                wanted = [d for d in built.desired.objects if not d.hook]
                apart = of_unknown_kinds(wanted, fleet.live.catalog)
                unread += map(ClusterFailed, apart.values())
                wanted = [d for d in wanted if d.key not in apart]
                records, left = await asyncio.to_thread(self._differences, fleet, unit, wanted)
                found += records
                aside |= left
                compared.update(d.key for d in wanted if d.key not in left)
            if (silent := fleet.live.problem()) is not None:
                raise ClusterFailed(silent)
        return DriftComparison(found, frozenset(compared), tuple(unread), aside=aside)

    def _why_unread(self, supervisor: Supervisor, name: str) -> tuple[Finding, ...]:
        """Return why a unit has no commit to compare with: what its record says, or GK7090."""
        missing = Finding(
            code="GK7090",
            message=f"unit {name} has taken no commit yet",
            notes=(
                ("unchanged", "its objects were not compared"),
                ("next", "gitkruise get units -A"),
            ),
        )
        return supervisor.reporters[name].record.findings or (missing,)

    def _differences(
        self, supervisor: Supervisor, unit: UnitReconciler, wanted: Sequence[Desired]
    ) -> tuple[list[DriftRecord], dict[ObjectKey, str]]:
        live = supervisor.live
        seen = {d.key: live.store.seen(d.key) for d in wanted}
        there: dict[ObjectKey, Obj] = {k: one.obj for k, one in seen.items() if one is not None}
        aside = left_as_they_are(wanted, there)
        rest = [d for d in wanted if d.key not in aside]
        sized = live.autoscaled.targets()
        return differences(unit.unit, rest, there, sized, live.catalog), aside

    def _followed(self, id_: str) -> FollowedCommit:
        followers = list(self.fleet.followers.items())
        for name, follower in followers:
            full = _in_history(follower, id_)
            if full:
                return FollowedCommit(name, follower.repository, full)
        urls = ", ".join(follower.repository.url for _, follower in followers)
        raise ref_missing(urls, id_, [])


def _not_here(unit: str) -> Finding:
    """GK7093: another replica has the shard of a unit."""
    notes = (
        ("why", "its shard is held by another replica, which alone knows the commit that it takes"),
        ("unchanged", "its objects were not compared"),
        ("next", "gitkruise drift compares every unit with git"),
    )
    return Finding(
        code="GK7093", message=f"unit {unit} is not in a shard of this replica", notes=notes
    )


def _unplanned(message: str, what: str, known: Sequence[str]) -> UsageProblem:
    there = ", ".join(known) or "none"
    notes = (
        ("known", f"{there}: each {what} that has plans of what may be merged"),
        ("unchanged", "nothing was planned, and a plan applies nothing"),
        ("next", "open /commits, which lists them"),
    )
    return UsageProblem(Finding(code="GK7092", message=message, notes=notes))


def _in_history(follower: SourceFollower, id_: str) -> str:
    """The full id of a commit that the newest followed one descends from; "" for another."""
    repository = follower.repository
    try:
        full = repository.resolve(id_)
    except SourceFailed:
        return ""
    return full if follower.followed and repository.is_ancestor(full, follower.followed) else ""
