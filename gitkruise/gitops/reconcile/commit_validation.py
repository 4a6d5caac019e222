"""Validation of a commit: it is built, its kinds are followed, and its changes are dry-run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gitkruise.errors import DiagnosticError, Finding, InvalidManifests, SourceFailed
from gitkruise.gitops.build.builder import (
    Builder,
    BuildRequest,
    BuiltCommit,
    built_commit,
    rejected_commit,
)
from gitkruise.gitops.build.post_build import gather
from gitkruise.gitops.charts.fetcher import Charts
from gitkruise.gitops.config.dependencies import Gate
from gitkruise.gitops.config.sync_windows import Windows
from gitkruise.gitops.reconcile.approval import ApprovalRule, Consent, approvals, changes_of
from gitkruise.gitops.reconcile.preflight import (
    NAMESPACE,
    brought,
    check_updates,
    ensure_namespace,
    ignored_canaries,
    misfits,
    refusals,
    target_namespaces,
    testable,
    unreachable,
)
from gitkruise.gitops.reconcile.unit_cluster import UnitCluster, UnitContext
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.document import Desired, DesiredSet, GitCommit
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.sync.autoscale import scalable
from gitkruise.planner.sync.hooks import JOB
from gitkruise.planner.sync.prune import awaited_approval, leaves_nothing
from gitkruise.wire.primitives.names import GroupKind, ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTaken:
    """The last commit of a unit when the next one is validated.

    `built` is the live commit, `looked` the newest one that was read, `recorded` the one that the
    unit's record names.
    """

    built: BuiltCommit | None = None
    looked: str = ""
    recorded: GitCommit | None = None

    def was(self, commit: GitCommit) -> bool:
        """Return whether `commit` was taken before this start."""
        return self.built is None and self.recorded is not None and self.recorded.id == commit.id


class CommitValidator:
    """Validates commits of one unit."""

    def __init__(
        self, reader: Builder, context: UnitContext, cluster: UnitCluster, transport: Transport
    ) -> None:
        """Create a validator; `transport` acts with the unit's rights."""
        self._reader, self._context, self._cluster = reader, context, cluster
        self._transport = transport
        self._unit = reader.unit
        self._approval = ApprovalRule(reader.unit, cluster.label, context.gates)
        windows = Windows(reader.unit.spec.windows, context.clock, by_hand=context.by_hand)
        self._consent: Consent | None = None  # the last one
        self.stale: Finding | None = None  # why the chart may be older than the newest one
        self.gate = Gate(reader.unit, context.standings, windows, context.workers, context.clock)

    async def read(self, commit: str, last: LastTaken, *, known: bool = False) -> BuiltCommit:
        """Validate a commit; one whose content is live already is not dry-run.

        `known`: the commit was taken before a start. Raises DiagnosticError or ApiError when git or
        the cluster does not answer.
        """
        before = last.built
        built = await self._fitting(commit, last)
        if built.desired is None or (before and built.desired is before.desired):
            return built
        if not (built.desired.objects or known) and await self._would_empty(built.desired, last):
            extended = (*built.findings, leaves_nothing(self._unit.id))
            return replace(built, desired=None, findings=extended)
        if not known and (waits := await self._waiting(built, last)).blocked_by:
            return replace(waits, desired=None)
        findings, replaced = await self._preflight(built.desired, built.causal)
        if not findings:
            return built if known else await self._agreed(built, last, replaced)
        if await self._context.live.rediscover():
            return await self.read(commit, last, known=known)
        extended = (*built.findings, *findings)
        return replace(built, desired=None, findings=extended, by_cluster=True)

    async def _waiting(self, built: BuiltCommit, last: LastTaken) -> BuiltCommit:
        """Return a commit with what blocks it if it has an effect; "" when nothing does.

        The approval that it needs is part of that, so that a user can give it before a window
        opens.
        """
        assert built.desired is not None
        self.gate.approval = ""
        blocker = await self.gate.blocked_by()
        if not blocker:
            return built
        await self._cluster.complete(last.recorded)
        effect = self._cluster.effect(built.desired)
        if not effect:
            return built
        if last.was(built.commit) and not (effect.changed or effect.taken_over):
            blocker = ""  # taken before the start: only deletions and handovers are left of it
        if not self._approval.needed:
            return replace(built, blocked_by=blocker)
        findings, replaced = await self._preflight(built.desired, built.causal, writes=False)
        if not findings:
            await self._agreed(built, last, replaced)
        blocker = await self.gate.blocked_by() if blocker else self.gate.approval
        undecided = bool(findings or self.gate.approval)
        return replace(built, blocked_by=blocker, undecided=undecided)

    async def _fitting(self, commit: str, last: LastTaken) -> BuiltCommit:
        """Build a commit with definitions that are not older than those of the cluster.

        One whose objects do not fit them waits for the units that it depends on, which may bring
        other definitions, and otherwise is read again some time later.
        """
        live, charts = self._context.live, self._context.charts
        built = await self._followed(commit, last.built, last.looked, charts)
        while misfits(built.findings, live.catalog):
            if not await live.rediscover():
                self.gate.approval = ""
                return replace(built, blocked_by=await self.gate.blocked_by(), by_cluster=True)
            built = await self._followed(commit, last.built, last.looked, charts)
        return built

    async def _agreed(
        self, built: BuiltCommit, last: LastTaken, replaced: frozenset[ObjectKey]
    ) -> BuiltCommit:
        """Return the intake if no approval is needed or one was given; otherwise it waits."""
        assert built.desired is not None
        if not self._approval.needed:
            return built
        stood = await self._cluster.complete(last.recorded)
        effect = self._cluster.effect(built.desired)
        mark, why = self._approval.asks(effect, replaced)
        if not mark:
            return built
        since = last.built.commit.id if last.built is not None else stood
        if since == built.commit.id:  # taken before the start; it may bring its own approval
            since = next(iter(built.commit.parents), "")
        repository, commit = self._reader.repository, built.commit.id
        given = {self._unit.approved} | await asyncio.to_thread(
            approvals, repository, commit, since
        )
        if mark in given:
            self._consent = Consent(since=since, mark=mark, changes=changes_of(effect))
        if self._consent is None or not self._consent.covers(effect, given, since):
            self.gate.approval = awaited_approval(why, mark, built.commit)
            return replace(built, desired=None, blocked_by=self.gate.approval, undecided=True)
        return built

    async def lives(self, commit: str) -> bool:
        """Return whether all live objects are as `commit` wants. Raises ApiError.

        No chart is fetched: a start of all units of a source waits for the answer.
        """
        try:
            built = await self._followed(commit, None, "", self._context.charts.kept)
        except SourceFailed:
            return False  # it is not here
        return built.desired is not None and not self._cluster.effect(built.desired).changed

    async def objects_of(self, commit: str) -> Sequence[Desired]:
        """Return the objects of an earlier commit; none if it is invalid. Raises SourceFailed and
        ApiError."""
        built = await self._followed(commit, None, "", self._context.charts.kept)
        return built.desired.objects if built.desired is not None else ()

    async def follow(self, desired: DesiredSet) -> None:
        """Follow every kind that the commit names, before anything is decided about it."""
        live = self._context.live
        kinds = {d.key.group_kind: d.version for d in desired.objects}
        if any(live.catalog.stored(kind) is None for kind in kinds):
            await live.discover()
        if any(scalable(d) for d in desired.objects):
            kinds = {**await live.autoscalers(), **kinds}
        informers = live.want(kinds)
        informers += live.want_workloads(_pod_places(d.key for d in desired.objects))
        # An approval is of a whole commit: no object may be added to it that was not seen.
        await (live.ready if self._approval.needed else live.mostly_ready)(informers)

    async def _ensure_target(self, new: AbstractSet[str]) -> None:
        """Create the target namespace if the unit asks for it, unless git brings it as `new`."""
        for target in target_namespaces([self._unit]) - new:
            await ensure_namespace(self._transport, target, self._context.live.catalog)

    async def put_target_back(self, desired: DesiredSet) -> None:
        """Create the target namespace again where objects vanished, perhaps together with it."""
        await self._ensure_target(
            {d.key.name for d in desired.objects if d.key.group_kind == NAMESPACE}
        )

    async def learn_kinds(self, desired: DesiredSet, objects: Iterable[Desired]) -> None:
        """Rediscover the served kinds when a kind is new: its CRD may just have been applied.

        A kind that was discovered for another unit is not followed yet: what is applied of it would
        never be seen, and applied without end.
        """
        live, objects = self._context.live, tuple(objects)
        known = [live.catalog.by_kind(d.key.group, d.version, d.key.kind) for d in objects]
        if None in known:
            await live.discover()
        if None in known or not live.follows({d.key.group_kind for d in objects}):
            await self.follow(desired)

    async def _followed(
        self, commit: str, before: BuiltCommit | None, looked: str, charts: Charts
    ) -> BuiltCommit:
        """Build a commit and follow its kinds; build it again if that discovered new kinds."""
        live = self._context.live
        catalog = live.catalog
        refused = await asyncio.to_thread(self._reader.refused, commit)
        if refused is not None:
            return refused
        try:
            given = await gather(self._unit, self._transport, charts)
        except InvalidManifests as error:  # of a chart that its repository does not have
            self.stale = None  # it answered
            info = await asyncio.to_thread(self._reader.repository.commit, commit)
            return rejected_commit(info, error.findings)
        self.stale = given.stale
        chart = given.release.chart if given.release is not None else None
        asked = BuildRequest.of(commit, before, looked)
        if before and before.desired and any(live.misplaces(d.key) for d in before.desired.objects):
            asked = replace(asked, tree="")  # the same content means other objects now
        answer = await self._context.workers.read(self._reader, asked, catalog, given)
        built = replace(built_commit(answer, before), chart=chart)
        if built.desired is not None and not (before and built.desired is before.desired):
            await self.follow(built.desired)
            if live.catalog is not catalog:
                workers, catalog = self._context.workers, live.catalog
                answer = await workers.read(self._reader, asked, catalog, given)
                return replace(built_commit(answer, before), chart=chart)
        return built

    async def _would_empty(self, nothing: DesiredSet, last: LastTaken) -> bool:
        """Return whether a commit without objects would delete live objects of the unit."""
        if self._unit.spec.prune.allow_empty:
            return False
        if last.built is not None and last.built.desired is not None:
            return bool(last.built.desired.objects)
        await self._cluster.complete(last.recorded)
        lives = self._cluster.effect(nothing).seen.live.values()
        return any(not found.obj["metadata"].get("deletionTimestamp") for found in lives)

    async def _preflight(
        self, desired: DesiredSet, commit: GitCommit, *, writes: bool = True
    ) -> tuple[list[Finding], frozenset[ObjectKey]]:
        """Return what our rules and the dry run report against the objects that would change, and
        the objects that would be replaced. Where it `writes`, the target namespace is created."""
        live = self._context.live
        effect = self._cluster.effect(desired)
        changed, seen = effect.changed, effect.seen
        objs = {key: found.obj for key, found in seen.live.items()}
        findings = check_updates(changed, objs, live.catalog, self._context.gates)
        findings += await ignored_canaries(changed, live.transport)
        if findings or not changed:
            return findings, frozenset()
        ensured = frozenset[str]() if writes else target_namespaces([self._unit])
        new = await brought(desired, objs, live.transport, ensured=ensured)
        if writes:
            await self._ensure_target(new)
        sent = await self._cluster.try_out(testable(changed, new), seen, commit)
        silent = unreachable(sent)
        if silent is not None:
            raise DiagnosticError(silent)
        moving = {d.key for d in changed} | effect.leaving
        refused = list(refusals(desired, sent, objs, moving))
        return refused, frozenset(s.desired.key for s in sent if s.replace)


def _pod_places(keys: Iterable[ObjectKey]) -> Mapping[str, frozenset[GroupKind]]:
    """Return the namespaces with pods of rollouts and Jobs, each with the kinds of revisions."""
    found: dict[str, set[GroupKind]] = defaultdict(set)
    for key in keys:
        kind = ROLLOUTS.get(key.group_kind)
        if kind is not None:
            found["" if kind.everywhere else key.namespace].add(kind.kept_in)
        elif key.group_kind == JOB:
            found[key.namespace].add(POD)
    if "" in found:  # followed whole
        found = {"": {gk for kinds in found.values() for gk in kinds}}
    return {place: frozenset(kinds) for place, kinds in found.items()}
