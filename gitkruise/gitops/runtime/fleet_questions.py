"""Commits, plans and drift of what a running controller follows, for its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from dataclasses import dataclass

from gitkruise.errors import (
    ClusterFailed,
    DiagnosticError,
    Finding,
    InvalidManifests,
    SourceFailed,
)
from gitkruise.git.plumbing.errors import ref_missing
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionVerb
from gitkruise.gitops.actions.target import ObjectQuery
from gitkruise.gitops.inspect.drift import DriftComparison, differences
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.preview.preview import offline_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.runtime.foreseen_edits import EditForecasts, ForeseenEdit
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.workers.jobs import errors_of
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.change import Desired, ObjectChange
from gitkruise.model.gitops.record import DriftRecord
from gitkruise.model.gitops.report import PlanReport
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
    """Reads for pages of a controller: its mirrors, its workers, its watches. It pushes nothing."""

    fleet: Supervisor
    gates: Gates
    clock: Clock

    async def followed(self, id_: str) -> FollowedCommit:
        """Return the commit that an id, perhaps abbreviated, names in a followed history.

        Commits of other branches and of pull requests are strangers' content, which is read under
        limits of its own. Raises SourceFailed GK3201.
        """
        return await asyncio.to_thread(self._followed, id_)

    async def plan(self, commit: FollowedCommit, shown: Set[ObjectKey] | None = None) -> PlanReport:
        """Return the plan of a commit against its first parent, from git alone; with `shown`, of
        those objects only.

        The workers read both. Raises InvalidManifests and SourceFailed.
        """
        base, target = await self._sides(commit)
        catalog, gates = self.fleet.live.catalog, self.gates

        def foretell() -> PlanReport:
            preview = offline_preview(base, target, catalog, gates)
            return report_of(preview, base, target, shown=shown)

        return await asyncio.to_thread(foretell)

    async def changes(self, commit: FollowedCommit) -> Sequence[ObjectChange]:
        """Return the changes of objects between a commit and its first parent, by git alone.

        Raises InvalidManifests and SourceFailed.
        """
        base, target = await self._sides(commit)
        before = base.objects if base else ()
        return await asyncio.to_thread(
            changes_between, before, target.objects, self.fleet.live.catalog
        )

    async def _sides(self, commit: FollowedCommit) -> tuple[PlanSide | None, PlanSide]:
        rules = (self.fleet.units_of(commit.source), self.fleet.live.catalog, self.gates)
        repository, workers = commit.repository, self.fleet.workers
        parents = (await asyncio.to_thread(repository.commit, commit.id)).parents
        target = await workers.side(repository, commit.id, *rules)
        if wrong := errors_of(target.findings):
            raise InvalidManifests(*wrong)
        base = await workers.side(repository, parents[0], *rules, base=True) if parents else None
        return base, target

    async def foreseen(
        self, verb: ActionVerb, query: ObjectQuery, partition: str = ""
    ) -> ForeseenEdit:
        """Return what a command would commit now; see EditForecasts.foresee."""
        return await EditForecasts(self.fleet, self.gates, self.clock).foresee(
            verb, query, partition
        )

    async def drift(self) -> DriftComparison:
        """Compare every unit with the commit that it takes. Raises ClusterFailed while the watches
        fail."""
        live = self.fleet.live
        found: list[DriftRecord] = []
        compared: set[ObjectKey] = set()
        unread: list[DiagnosticError] = []
        for name, unit in list(self.fleet.units.items()):
            built = unit.built
            if built is None or built.desired is None:
                unread.append(DiagnosticError(*self._why_unread(name)))
                continue
            wanted = [d for d in built.desired.objects if not d.hook]
            found += await asyncio.to_thread(self._differences, unit, wanted)
            compared.update(d.key for d in wanted)
        if (silent := live.problem()) is not None:
            raise ClusterFailed(silent)
        return DriftComparison(found, frozenset(compared), tuple(unread))

    def _why_unread(self, name: str) -> tuple[Finding, ...]:
        """Return why a unit has no commit to compare with: what its record says, or GK7090."""
        missing = Finding(
            code="GK7090",
            message=f"unit {name} has taken no commit yet",
            notes=(
                ("unchanged", "its objects were not compared"),
                ("next", "gitkruise get units -A"),
            ),
        )
        return self.fleet.reporters[name].record.findings or (missing,)

    def _differences(self, unit: UnitReconciler, wanted: Sequence[Desired]) -> list[DriftRecord]:
        live = self.fleet.live
        seen = {d.key: live.store.seen(d.key) for d in wanted}
        there: dict[ObjectKey, Obj] = {k: one.obj for k, one in seen.items() if one is not None}
        sized = live.autoscaled.targets()
        return differences(unit.unit, wanted, there, sized, live.catalog)

    def _followed(self, id_: str) -> FollowedCommit:
        followers = list(self.fleet.followers.items())
        for name, follower in followers:
            full = _in_history(follower, id_)
            if full:
                return FollowedCommit(name, follower.repository, full)
        urls = ", ".join(follower.repository.url for _, follower in followers)
        raise ref_missing(urls, id_, [])


def _in_history(follower: SourceFollower, id_: str) -> str:
    """The full id of a commit that the newest followed one descends from; "" for another."""
    repository = follower.repository
    try:
        full = repository.resolve(id_)
    except SourceFailed:
        return ""
    return full if follower.followed and repository.is_ancestor(full, follower.followed) else ""
