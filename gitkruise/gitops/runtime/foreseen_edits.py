"""Edits of git as the controller foresees them: what a command would commit, and its plan.

The controller computes the edit in the mirror of the source, on the commit that it follows, writes
it there as a commit that no branch has, and has its workers read it, as people's commits are read.
Nothing is pushed. The proofs are those of the command: an edit that the command refuses is refused
with the same words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Set
from dataclasses import dataclass

from gitkruise.errors import InvalidManifests
from gitkruise.git.edit.edit_diff import edit_diff
from gitkruise.gitops.actions.actions import (
    LIVE_SETTINGS,
    ActionArgs,
    ActionTarget,
    ActionVerb,
    FileEdit,
    act_message,
    compute,
)
from gitkruise.gitops.actions.proof import check_outcome, check_reach
from gitkruise.gitops.actions.target import (
    DRY_RUN,
    BranchState,
    ObjectQuery,
    check_in_git,
    commit_over,
    find_target,
)
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.inspect.cluster_view import pods_now
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.preview.preview import Preview, live_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.workers.jobs import errors_of
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.report import PlanReport
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenEdit:
    """An edit as a unified diff, with and without context lines, and the preview of its commit.

    `cluster` is "" where the preview does not start from live objects.
    """

    diff: tuple[str, ...]
    changed_lines: tuple[str, ...]
    base: PlanSide
    after: PlanSide
    preview: Preview
    cluster: str

    def report(self, shown: Set[ObjectKey] | None = None) -> PlanReport:
        """Return the plan; with `shown`, of those objects only."""
        return report_of(self.preview, self.base, self.after, cluster=self.cluster, shown=shown)


@dataclass(frozen=True, slots=True)
class EditForecasts:
    """Foresees edits of what a controller follows."""

    fleet: Supervisor
    gates: Gates
    clock: Clock

    async def foresee(
        self, verb: ActionVerb, query: ObjectQuery, partition: str = ""
    ) -> ForeseenEdit:
        """Return what the command would commit now, with `partition` where it is given.

        Raises NothingToDo where git asks for it already, UsageProblem GK704x where the command
        refuses, InvalidManifests, SourceFailed and ApiError.
        """
        check_in_git(self.fleet.whole, query)
        follower, state, target = await self._found(query)
        repository, tip = follower.repository, target.commit
        args = await self._args(verb, target, partition)
        edit = await asyncio.to_thread(compute, verb, repository, target, args)
        commit = await asyncio.to_thread(
            commit_over, repository, tip, edit.files, act_message(edit, target),
            author=DRY_RUN, now=self.clock.now(),
        )  # fmt: skip
        after = await self._side(follower, commit, state.config)
        if wrong := errors_of(after.findings):
            raise InvalidManifests(*wrong)
        base = state.side
        if errors_of(base.findings):  # a unit that rejects the commit has its last valid one
            base = await self._side(follower, tip, state.config, base=True)
        preview = await self._played(base, after, edit, target)
        diff, bare = await asyncio.to_thread(
            lambda: [tuple(edit_diff(repository, tip, edit.files, context=n)) for n in (3, 0)]
        )
        return ForeseenEdit(
            diff=diff, changed_lines=bare, base=base, after=after, preview=preview,
            cluster=self.fleet.cluster,
        )  # fmt: skip

    async def _played(
        self, base: PlanSide, after: PlanSide, edit: FileEdit, target: ActionTarget
    ) -> Preview:
        live, catalog = self.fleet.live, self.fleet.live.catalog
        preview = await live_preview(
            base, after, catalog, self.gates, transport=live.transport, now=self.clock.now()
        )
        await asyncio.to_thread(check_reach, edit, target, base.objects, after.objects, catalog)
        check_outcome(edit, target, preview)
        return preview

    async def _args(self, verb: ActionVerb, target: ActionTarget, partition: str) -> ActionArgs:
        """Arguments of the action: a hold without a value keeps the pods that are not new yet."""
        args, live = ActionArgs(partition=partition), self.fleet.live
        if verb not in LIVE_SETTINGS and (verb != ActionVerb.HOLD or partition):
            return args
        now = await pods_now(live.transport, live.catalog, target.key, self.clock.now())
        return args.over(now) if verb in LIVE_SETTINGS else ActionArgs.keeping(now)

    async def _found(self, query: ObjectQuery) -> tuple[SourceFollower, BranchState, ActionTarget]:
        """The object in the newest commit of a source. Raises UsageProblem GK7040."""
        read = [(f, await self._state(f, config)) for f, config in self._sources(query)]
        state, target = find_target([state for _, state in read], query)
        return next((f, state, target) for f, one in read if one is state)

    def _sources(self, query: ObjectQuery) -> Iterator[tuple[SourceFollower, Config]]:
        """The followed sources of units that have the object; all of them if no unit has it."""
        config, followers = self.fleet.config, self.fleet.followers
        having = {
            source_of(config.units[name])
            for name, unit in self.fleet.units.items()
            if name in config.units
            and unit.built is not None
            and unit.built.desired is not None
            and any(query.fits(d) for d in unit.built.desired.objects)
        }
        for name, follower in followers.items():
            if follower.followed and (name in having or not having):
                yield follower, self.fleet.units_of(name)

    async def _state(self, follower: SourceFollower, config: Config) -> BranchState:
        side = await self._side(follower, follower.followed, config)
        branch = follower.source.spec.ref.branch
        return BranchState(branch=branch, config=config, side=side, catalog=self.fleet.live.catalog)

    async def _side(
        self, follower: SourceFollower, commit: str, config: Config, *, base: bool = False
    ) -> PlanSide:
        rules = (config, self.fleet.live.catalog, self.gates)
        return await self.fleet.workers.side(follower.repository, commit, *rules, base=base)
