"""One unit's side of the cluster: its live objects, compared with git, tried out and applied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gitkruise.admission.conversion.registry import lost_fields
from gitkruise.errors import Finding
from gitkruise.gitops.analysis.memory import AnalysisMemory
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.charts.fetcher import Charts
from gitkruise.gitops.cluster.engine import OWN, Engine, steers_canaries, undriven
from gitkruise.gitops.cluster.hook_runs import HookRuns
from gitkruise.gitops.cluster.live_cache import WATCHES, LiveView
from gitkruise.gitops.cluster.ownership import Claims
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.config.dependencies import UnitStates
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.reconcile.applier import Applier, ApplyFacts, Sent
from gitkruise.gitops.reconcile.approval import Effect
from gitkruise.gitops.reconcile.drift_correction import ignore_rules
from gitkruise.gitops.reconcile.preflight import causes
from gitkruise.gitops.reconcile.pruner import UnitPruner
from gitkruise.gitops.reconcile.rejected_objects import RejectedObjects
from gitkruise.gitops.status.health_checks import HealthChecks
from gitkruise.gitops.status.observer import Observation, Observer
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Unit, duration
from gitkruise.model.gitops.document import Desired, DesiredSet, FieldPath, GitCommit
from gitkruise.model.gitops.sync_round import Live, SyncSnapshot
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.health.node_requests import pulls_nowhere
from gitkruise.planner.sync.annotations import COMMIT, Marks, annotation, unit_label
from gitkruise.planner.sync.autoscale import REPLICAS
from gitkruise.planner.sync.canary_pause import awaits_canary
from gitkruise.planner.sync.diff import kept_differences
from gitkruise.planner.sync.drift import Memo
from gitkruise.planner.sync.field_owners import marks_are_ours, read_managed
from gitkruise.planner.sync.ownership import is_applied, mark_of, withheld
from gitkruise.planner.sync.plan import apply_ignores, overtaken
from gitkruise.planner.sync.prune import leaving
from gitkruise.wire.primitives.names import Obj, ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitContext:
    """Dependencies that all units of a process share."""

    live: LiveView
    clock: Clock
    cluster: str
    gates: Gates
    engine: Engine
    workers: Workers
    hooks: HookRuns
    analysis: AnalysisMemory
    charts: Charts
    by_hand: bool = False  # a person asked for one pass
    claims: Claims = field(default_factory=Claims)
    standings: UnitStates = field(default_factory=UnitStates)
    authority: WriteAuthority = field(default_factory=WriteAuthority)
    containment: Containment = UNREPORTED


class UnitCluster:
    """Observes, compares and applies the objects of one unit. It decides nothing.

    `transport` acts with the unit's rights.
    """

    def __init__(
        self, unit: Unit, context: UnitContext, pruner: UnitPruner, transport: Transport
    ) -> None:
        self._unit, self._context, self._pruner = unit, context, pruner
        self._transport, self._source = transport, source_of(unit)
        self.label = unit_label(context.cluster, unit.id)
        self.rejected = RejectedObjects()
        patience = duration(unit.spec.health.no_progress_timeout)
        self._observer = Observer(context.live.store, context.engine, patience)
        self._health = HealthChecks(unit, self.label, context.workers)
        self._ignore = ignore_rules(unit.spec.drift)
        self._settled: dict[ObjectKey, frozenset[FieldPath]] = {}
        self._watched: frozenset[ObjectKey] = frozenset()
        self._marks: dict[ObjectKey, tuple[Obj, Marks]] = {}  # of objects as they were applied
        self.memo: Memo = {}

    # Observing ------------------------------------------------------------------------------

    def observe(self, desired: DesiredSet) -> Observation:
        """Observe the objects of `desired` and of the inventory, and be woken by their changes."""
        live = self._context.live
        versions = {d.key: d.version for d in desired.objects}
        versions |= dict.fromkeys(self._pruner.gone(versions, live.store), "")
        unlisted = live.unlisted(versions)
        visible = {key: v for key, v in versions.items() if key not in unlisted}
        seen = self._observer.look(visible, self._context.clock.now())
        seen = replace(seen, live=dict(self._as_marked(seen.live, desired)))
        seen = Observation.beyond(unlisted, seen) if unlisted else seen
        self._watched = frozenset(versions)
        owners = frozenset(found.obj["metadata"]["uid"] for found in seen.live.values())
        live.changes.watch(self._unit.id, self._watched | owners | seen.owners | {WATCHES})
        return seen

    def _as_marked(
        self, live: Mapping[ObjectKey, Live], desired: DesiredSet
    ) -> Iterator[tuple[ObjectKey, Live]]:
        """Yield the live objects with our last marks, where others wrote over them.

        What it wrote there is no state that was applied, and no news in git.
        """
        wanted, sure = desired.by_key(), self._context.authority.fresh(self._source)
        for key, found in live.items():
            d, known = wanted.get(key), self._marks.get(key)
            if d is None or (known is not None and known[0] is found.obj):
                yield key, found
                continue
            marks = Marks.of(found.obj)
            if known is not None and _rewritten(found, marks, known[1], d, sure=sure):
                ours = known[1].on(found.obj)
                yield key, replace(found, obj=ours, rewritten=known[1].over(marks))
                continue
            unchanged = known is not None and known[1] == marks
            if unchanged or (
                is_applied(d, found.obj, self.label) and marks_are_ours(read_managed(found.managed))
            ):
                self._marks[key] = found.obj, marks
            yield key, found

    async def weigh(self, desired: DesiredSet) -> tuple[Observation, tuple[Finding, ...]]:
        """Observe with the unit's own health checks, whose findings are the second part."""
        now, found = self._context.clock.now(), self.observe(desired)
        await self._health.ask(found, desired)
        seen, bad = self._health.weigh(found, desired, now, self.rejected.present)
        pulls = (pulls_nowhere(key, found.obj) for key, found in seen.live.items())
        bad = (*bad, *filter(None, pulls))
        asked = self._unit.spec.workloads.engine
        bad = (*bad, *self._context.engine.problems(seen.live, asked))
        if self._context.engine.name != OWN:
            return seen, bad
        live = self._context.live
        if old := tuple(undriven(seen.live, live.catalog)):
            live.doubt()  # its definition may be upgraded
        return seen, (*bad, *old)

    def wake_at(self, seen: Observation | None, now: datetime) -> list[datetime]:
        """Return when `seen` must be looked at again although nothing changes."""
        due = [self.rejected.wake_at(now), self._health.wake_at(now)]
        due += [self._observer.wake_at(seen.rollouts)] if seen is not None else []
        return [time for time in due if time is not None]

    def snapshot(self, desired: DesiredSet, seen: Observation) -> SyncSnapshot:
        """Return what a plan may look at, as far as the cluster and the unit's settings say it."""
        claims, pruning = self._context.claims, self._pruner
        marks = {key: mark_of(found.obj) for key, found in seen.live.items()}
        return SyncSnapshot(
            desired=desired,
            unit_label=self.label,
            live=seen.live,
            inventory=frozenset(pruning.inventory),
            inventory_complete=pruning.complete,
            prune=pruning.rules,
            correct_drift=self._unit.spec.drift.mode == "correct",
            settled=self._settled,
            refused=self.rejected.standing(self._context.clock.now()),
            ignore=self._ignore,
            autoscaled=self._context.live.autoscaled.targets(),
            held=self._health.held,
            replacing=frozenset(self.rejected.replacing),
            present=frozenset(self.rejected.present),
            causes=self.rejected.causes,
            claimed=claims.others(
                self._unit.id,
                self._watched,
                own={k for k in desired.by_key() if marks.get(k) == self.label},
                unmarked={key for key in self._watched if not marks.get(key)},
            ),
            owners=claims.owners(self._unit.id, self.label, seen.live),
            released=claims.released(self._unit.id, desired.by_key()),
            approved=pruning.approved,
            agreed=pruning.agreed,
            spared=pruning.spared,
            unknown=seen.unknown,
        )

    def effect(self, desired: DesiredSet) -> Effect:
        """Return the effect of taking `desired`."""
        seen = self.observe(desired)
        snapshot = replace(self.snapshot(desired, seen), refused={})
        catalog = self._context.live.catalog
        moved = [d for d in desired.objects if overtaken(d, snapshot)]
        free = [d for d in moved if not withheld(d.key, snapshot)]
        return Effect(
            changed=[apply_ignores(d, snapshot, catalog, {}) for d in free],
            taken_over=[d for d in moved if withheld(d.key, snapshot)],
            leaving=leaving(snapshot),
            seen=seen,
        )

    async def complete(self, recorded: GitCommit | None) -> str:
        """Complete the inventory; return the newest commit taken before this start, "" for none.

        Raises ApiError or ClusterFailed.
        """
        await self._pruner.find(self._context.live, self.label)
        return await self._pruner.stood_on(self._context.live.store, recorded)

    async def live_commits(self) -> frozenset[str]:
        """Return the commits that live objects of the unit carry. Raises ApiError or
        ClusterFailed."""
        await self._pruner.find(self._context.live, self.label)
        found = map(self._context.live.store.seen, self._pruner.inventory)
        return frozenset(annotation(seen.obj, COMMIT) for seen in found if seen) - {""}

    # Sending --------------------------------------------------------------------------------

    async def try_out(
        self, objects: Sequence[Desired], seen: Observation, commit: GitCommit
    ) -> list[Sent]:
        """Dry-run `objects`. Raises ApiError."""
        return await self._send(objects, seen, commit, dry_run=True, stop=lambda: False)

    async def apply(
        self,
        objects: Sequence[Desired],
        seen: Observation,
        commit: GitCommit,
        *,
        take: Collection[ObjectKey],
        stop: Callable[[], bool],
    ) -> list[Sent]:
        """Apply `objects` of `commit` in order until `stop`; those in `take` are forced. Raises
        ApiError."""
        return await self._send(objects, seen, commit, take=take, stop=stop)

    async def _send(
        self,
        objects: Sequence[Desired],
        seen: Observation,
        commit: GitCommit,
        *,
        stop: Callable[[], bool],
        take: Collection[ObjectKey] = (),
        dry_run: bool = False,
    ) -> list[Sent]:
        around = self._context
        live = {d.key: found.obj for d in objects if (found := seen.live.get(d.key))}
        waits = any(d.key in live and awaits_canary(d, live[d.key]) for d in objects)
        facts = ApplyFacts(
            gates=around.gates,
            autoscaled=around.live.autoscaled.targets(),
            steered=waits and await steers_canaries(around.live.transport),
            restored={
                d.key: known[1]
                for d in objects
                if not d.hook and (known := self._marks.get(d.key)) is not None
            },
        )
        applier = Applier(
            self._transport, self._unit, self.label, commit,
            facts=facts, clock=around.clock, reader=around.live.transport,
        )  # fmt: skip
        catalog = around.live.catalog
        sent = await applier.send(
            objects, live, catalog, take=take, dry_run=dry_run, overtaken=stop
        )
        if any(item.unserved for item in sent):
            around.live.doubt()
        there = {key: found.obj for key, found in seen.live.items()}
        before = frozenset() if dry_run else self.rejected.causes
        keys = there.keys() | {d.key for d in objects}
        self.rejected.causes = before | causes(sent, there, keys)
        return sent

    def accept(self, desired: Desired, reply: Obj, seen: Observation) -> Obj | None:
        """Take in the reply to an apply; return the object as it was before, None if new."""
        live, key, found = self._context.live, desired.key, seen.live.get(desired.key)
        before = found.obj if found is not None else None
        live.store.note_write(reply)
        self._pruner.inventory.add(key)
        self.rejected.forget(key)
        self._marks[key] = reply, Marks.of(reply)  # others may write before the next look
        kind = live.catalog.by_kind(key.group, desired.version, key.kind)
        kept = kept_differences(desired.obj, before, reply, kind.schema if kind else None)
        self._settled[key] = kept - {REPLICAS} if key in live.autoscaled.targets() else kept
        return before

    def taken(self, desired: DesiredSet) -> None:
        """The unit wants exactly `desired` from now on: forget what was known of other objects."""
        self.rejected.clear()
        keys = {d.key for d in desired.objects}
        catalog = self._context.live.catalog
        lost = {d.key: lost_fields(d.obj, catalog) for d in desired.objects}
        self._settled = {k: self._settled.get(k, paths) for k, paths in lost.items()}
        self.memo = {k: v for k, v in self.memo.items() if k in keys}
        self._marks = {k: v for k, v in self._marks.items() if k in keys}
        self._observer.forget({*keys, *self._pruner.inventory})


def _rewritten(live: Live, marks: Marks, known: Marks, desired: Desired, *, sure: bool) -> bool:
    """Return whether others changed the marks of an object as git still wants it: another manager,
    or a process with the same names that follows something else. Until git was read in this term
    (`sure`), that may be the leader before us, at a newer commit."""
    if marks == known or (known.uid, known.digest) != (marks.uid, desired.digest):
        return False
    other_content = marks.label == known.label and marks.digest != known.digest
    return (sure and other_content) or not marks_are_ours(read_managed(live.managed))
