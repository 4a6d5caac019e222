"""One unit kept as git wants it: take in commits, apply in order, prune, heal, report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Finding, Reported
from gitkruise.gitops.apply import Applier, Sent, delete, ensure_namespace
from gitkruise.gitops.intake import Intake, Reader, check_updates, own_namespaces, with_unchanged
from gitkruise.gitops.live import CLONESET, LiveView
from gitkruise.gitops.observe import Observation, Patience, observe_unit
from gitkruise.gitops.reporter import Reporter
from gitkruise.kube.clock import Clock
from gitkruise.kube.store import Change as StoreChange
from gitkruise.model.change import Desired, DesiredSet, PruneRules, SyncPlan, SyncSnapshot
from gitkruise.model.config import Unit, duration
from gitkruise.model.settings import Gates
from gitkruise.planner.sync.differ import owned_differences
from gitkruise.planner.sync.marks import unit_label
from gitkruise.planner.sync.plan import plan_sync
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.paths import get

log = logging.getLogger(__name__)
RETRY: Final = timedelta(seconds=2)
SETTLE_S: Final = 0.02  # news of one moment are looked at together


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every unit of a process shares."""

    live: LiveView
    clock: Clock
    cluster: str
    gates: Gates
    engine: str


class UnitSync:
    """Drives one unit. Level-triggered: each round looks at everything and does what is due."""

    def __init__(
        self, unit: Unit, reader: Reader, around: Surroundings, reporter: Reporter
    ) -> None:
        self.unit, self._reader, self._around, self._reporter = unit, reader, around, reporter
        self.label = unit_label(around.cluster, unit.id)
        self.intake: Intake | None = None  # the last commit that could be taken
        self._pending = ""
        self._wake = asyncio.Event()
        self._inventory: set[ObjectKey] = set()
        self._inventory_complete = False
        self._refused: dict[ObjectKey, str] = {}
        self._settled: dict[ObjectKey, frozenset[tuple[str | int, ...]]] = {}
        self._patience = Patience(duration(unit.spec.health.no_progress_timeout))
        self._owners: frozenset[str] = frozenset()
        self._retry_at: datetime | None = None

    # From outside ---------------------------------------------------------------------------

    def offer(self, commit: str) -> None:
        """Look at `commit` in the next round; an older one not looked at yet is passed over."""
        self._pending = commit
        self._wake.set()

    def hear(self, change: StoreChange) -> None:
        """A live object changed; wake up when it is one of ours."""
        seen = change.after or change.before
        assert seen is not None
        if seen.facts is not None:
            mine = not self._owners.isdisjoint(seen.owners)
        else:
            mine = change.key in self._inventory or not self._owners.isdisjoint(seen.owners)
        if mine:
            self._wake.set()

    async def run(self) -> None:
        """Rounds for ever, one after each piece of news; ends by cancellation."""
        unsubscribe = self._around.live.store.subscribe(self.hear)
        try:
            while True:
                wake_at = await self._guarded_round()
                await self._sleep(wake_at)
        finally:
            unsubscribe()

    async def _sleep(self, wake_at: datetime | None) -> None:
        now = self._around.clock.now()
        limit = duration(self.unit.spec.interval)
        if wake_at is not None:
            limit = max(min(limit, wake_at - now), timedelta())
        try:
            async with asyncio.timeout(limit.total_seconds()):
                await self._wake.wait()
                await self._around.clock.sleep(SETTLE_S if not self._pending else 0)
        except TimeoutError:
            pass
        self._wake.clear()

    async def _guarded_round(self) -> datetime | None:
        try:
            return await self.round()
        except Reported as error:
            self._reporter.problem(error.findings)
            log.warning("%s: %s", self.unit.id, error)
        except ApiError as error:
            finding = Finding(
                code="GK4102",
                message=f"the cluster did not answer: {error.message}",
                notes=(("unchanged", "everything live stays as it is; we go on trying"),),
            )
            self._reporter.problem((finding,))
            log.warning("%s: %s", self.unit.id, error)
        return self._around.clock.now() + RETRY

    # One round ------------------------------------------------------------------------------

    async def round(self) -> datetime | None:
        """Take in what is new, do what is due, report; when to look again at the latest."""
        if self._pending:
            await self._take_in()
        if self.intake is None or self.intake.desired is None:
            self._reporter.nothing_yet()
            return None
        if self.unit.spec.suspended:
            self._reporter.observed(self.intake, self._observe(self.intake.desired), None)
            return None
        while True:
            seen = self._observe(self.intake.desired)
            plan = self._plan(self.intake.desired, seen)
            self._reporter.observed(self.intake, seen, plan)
            if plan.quiet or self._pending:
                break
            if not await self._act(plan, seen):
                break
        if not self._inventory_complete and not plan.waiting:
            await self._complete_inventory()
        return self._next_look(seen)

    def _next_look(self, seen: Observation) -> datetime | None:
        times = [self._patience.wake_at(seen.rollouts), self._retry_at]
        self._retry_at = None
        return min((t for t in times if t), default=None)

    def _observe(self, desired: DesiredSet) -> Observation:
        versions = {d.key: d.version for d in desired.objects}
        versions |= dict.fromkeys(sorted(self._inventory - versions.keys()), "")
        seen = observe_unit(
            versions,
            self._around.live.store,
            self._patience,
            self._around.clock.now(),
            self._around.engine,
        )
        self._owners = frozenset(
            str(get(live.obj, "metadata", "uid")) for live in seen.live.values()
        )
        return seen

    def _plan(self, desired: DesiredSet, seen: Observation) -> SyncPlan:
        spec = self.unit.spec
        snapshot = SyncSnapshot(
            desired=desired,
            unit_label=self.label,
            live=seen.live,
            inventory=frozenset(self._inventory),
            inventory_complete=self._inventory_complete,
            prune=PruneRules(
                enabled=spec.prune.enabled,
                max_delete=spec.prune.max_delete,
                max_delete_percent=spec.prune.max_delete_percent,
                allow_empty=spec.prune.allow_empty,
            ),
            correct_drift=spec.drift.mode == "correct",
            settled=self._settled,
            refused=self._refused,
        )
        plan = plan_sync(snapshot, self._around.live.catalog)
        return plan if spec.drift.mode != "off" else replace(plan, drift=())

    async def _act(self, plan: SyncPlan, seen: Observation) -> bool:
        """Carry out a plan; whether it is worth planning again at once."""
        if plan.apply:
            sent = await self._send(plan.apply, seen, self._need_intake().causal.id)
            return self._absorb(sent, seen)
        for key in plan.prune:
            live = seen.live.get(key)
            if live is not None:
                await delete(
                    self._around.live.transport,
                    key,
                    live.obj,
                    self._around.live.catalog,
                    self.unit.spec.prune.propagation,
                )
            self._inventory.discard(key)
        return False

    def _need_intake(self) -> Intake:
        assert self.intake is not None
        return self.intake

    async def _send(
        self, objects: Sequence[Desired], seen: Observation, commit: str, *, dry_run: bool = False
    ) -> list[Sent]:
        around = self._around
        applier = Applier(around.live.transport, self.unit, self.label, commit)
        live = {key: found.obj for key, found in seen.live.items()}
        return await applier.send(objects, live, around.live.catalog, dry_run=dry_run)

    def _absorb(self, sent: Sequence[Sent], seen: Observation) -> bool:
        """Remember replies and refusals; whether everything went through."""
        problems = []
        for item in sent:
            key = item.desired.key
            if item.reply is not None:
                self._accept(item.desired, item.reply, seen)
            elif item.finding is not None:
                problems.append(item.finding)
                if item.retry:
                    self._retry_at = self._around.clock.now() + RETRY
                else:
                    self._refused[key] = item.desired.digest
        if any(s.desired.key.kind == "CustomResourceDefinition" for s in sent):
            self._retry_at = self._around.clock.now()
        self._reporter.problem(tuple(problems))
        return not problems

    def _accept(self, desired: Desired, reply: Obj, seen: Observation) -> None:
        live = self._around.live
        before = seen.live.get(desired.key)
        live.store.note_write(reply)
        self._inventory.add(desired.key)
        self._refused.pop(desired.key, None)
        kind = live.catalog.by_kind(desired.key.group, desired.version, desired.key.kind)
        node = kind.schema if kind else None
        kept = owned_differences(desired.obj, reply, node)
        if before is not None and _same_version(before.obj, reply):
            kept += owned_differences(desired.obj, before.obj, node)  # applying changed nothing
        self._settled[desired.key] = frozenset(change.path for change in kept)
        self._reporter.applied(self._need_intake(), desired, before.obj if before else None)

    # Commits --------------------------------------------------------------------------------

    async def _take_in(self) -> None:
        commit, self._pending = self._pending, ""
        live = self._around.live
        intake = await asyncio.to_thread(self._reader.read, commit, live.catalog, self.intake)
        if intake.desired is not None:
            await self._follow(intake.desired)
            findings = await self._preflight(intake.desired, intake.causal.id)
            if findings:
                intake = replace(intake, desired=None, findings=(*intake.findings, *findings))
        if intake.desired is None:
            good = self.intake.causal if self.intake else None
            self._reporter.rejected(replace(intake, findings=with_unchanged(intake.findings, good)))
            return
        self._reporter.accepted(intake, self.intake)
        self.intake = intake
        self._refused.clear()

    async def _follow(self, desired: DesiredSet) -> None:
        """See every kind the commit names before deciding anything about it."""
        live = self._around.live
        kinds = {d.key.group_kind: d.version for d in desired.objects}
        if any(live.catalog.stored(kind) is None for kind in kinds):
            await live.discover()
        informers = live.want(kinds)
        spaces = {d.key.namespace for d in desired.objects if d.key.group_kind == CLONESET}
        informers += live.want_workloads(spaces)
        await live.ready(informers)

    async def _preflight(self, desired: DesiredSet, commit: str) -> list[Finding]:
        """What our rules and the cluster's dry run say against the objects that would change.

        Raises ClusterFailed or ApiError when the cluster cannot be asked.
        """
        live = self._around.live
        seen = self._observe(desired)
        objs = {key: found.obj for key, found in seen.live.items()}
        findings = check_updates(desired, objs, live.catalog, self._around.gates)
        if findings:
            return findings
        await self._make_namespace(desired)
        changed = self._plan_all(desired, seen)
        coming = own_namespaces(desired.objects)
        kinds = {d.key.kind for d in desired.objects if d.key.kind == "CustomResourceDefinition"}
        sent = await self._send(
            [d for d in changed if d.key.namespace not in coming], seen, commit, dry_run=True
        )
        refused = [s for s in sent if s.finding is not None]
        if kinds:  # kinds that the commit itself brings cannot be tried before they exist
            refused = [s for s in refused if s.finding and s.finding.code != "GK4201"]
        for item in refused:
            if item.retry and item.finding and item.finding.code == "GK4102":
                self._pending = self._pending or desired.commit.id
                raise Reported(item.finding)
        return [s.finding for s in refused if s.finding is not None]

    def _plan_all(self, desired: DesiredSet, seen: Observation) -> list[Desired]:
        """Objects that a sync of `desired` would change, whatever their order."""
        return [
            d
            for d in desired.objects
            if (plan := self._plan(replace(desired, objects=(d,)), seen)).apply
            or any(w.key == d.key and d.key not in seen.live for w in plan.waiting)
        ]

    async def _make_namespace(self, desired: DesiredSet) -> None:
        target = self.unit.spec.target
        if target.create_namespace and target.namespace not in own_namespaces(desired.objects):
            live = self._around.live
            await ensure_namespace(live.transport, target.namespace, live.catalog)

    async def _complete_inventory(self) -> None:
        """Once a start: find what carries our label, also in kinds git names no more."""
        live = self._around.live
        found = await live.scan(self.label)
        self._inventory |= set(found)
        await live.ready(live.want({key.group_kind: "" for key in found}))
        self._inventory_complete = True
        self._wake.set()


def _same_version(before: Obj, after: Obj) -> bool:
    where = ("metadata", "resourceVersion")
    return bool(get(before, *where) == get(after, *where))
