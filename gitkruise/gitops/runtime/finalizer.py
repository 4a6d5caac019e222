"""Units that left the configuration: what becomes of their objects, and of their records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Conflict, Crashed, DiagnosticError, Finding, Severity
from gitkruise.gitops.cluster.impersonation import acting_as
from gitkruise.gitops.reconcile.pre_delete_hooks import run_last_jobs
from gitkruise.gitops.reconcile.pruner import UnitPruner, delete_all, release_all
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import wait_for
from gitkruise.model.gitops.document import DesiredSet, GitCommit
from gitkruise.model.gitops.record import Intervention, Removal, UnitRecord
from gitkruise.model.gitops.sync_round import Live, SyncSnapshot
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.sync.annotations import kept, lasting_hold, unit_label
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.planner.sync.prune import choose_prunes, lingering, rules_at_end
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import ObjectKey

log = logging.getLogger(__name__)
_PAUSE_S: Final = 5.0
_SILENT: Final = timedelta(minutes=1)  # while units that start read their first commit
_NAMED_MAX: Final = 5
_TRIES, _CHANGED_S = 4, 0.5  # for objects that others write: until the cache has their version
_NOTHING: Final = DesiredSet(commit=GitCommit(id=""), objects=())
_UNIT_GONE: Final = "its unit was removed"


async def _no_memory() -> None:
    """Nothing outside the process knows of the unit any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedUnit:
    """A unit that is in no configuration any more, from its last record.

    `offer` gets records with the reason why it cannot end, `forget` is called at its end, and
    `gone` when the last object that it deleted is gone; both may raise ApiError. Its objects may
    have moved to units of `source`, which are asked first; "" means all units. `spared` are those
    that git left alone, with the reason: the live ones may not say so.
    """

    record: UnitRecord
    offer: Callable[[UnitRecord], None]
    forget: Callable[[UnitRecord, str], Awaitable[None]]
    gone: Callable[[], Awaitable[None]] = _no_memory
    source: str = ""
    spared: Mapping[ObjectKey, str] = field(default_factory=dict)

    @property
    def custom(self) -> bool:
        """Return whether it is a custom resource, which exists until the unit ended."""
        return bool(self.source)

    @property
    def removal(self) -> Removal:
        assert self.record.removal is not None
        return self.record.removal


@dataclass(slots=True)
class _Outliving:
    """Objects of a forgotten unit whose deletion was requested: their uids."""

    unit: RemovedUnit
    uids: Mapping[ObjectKey, str]
    reported: Finding | None = None


class UnitFinalizer:
    """End removed units by their `prune.deletionPolicy`.

    Nothing is deleted before the remaining units have taken the newest commit of their source,
    because an object may have moved to one of them. Orphan leaves all objects; MirrorPrune deletes
    them up to prune.maxDelete; Delete and WaitForTermination are explicit and have no limit. No
    policy deletes objects that hold data or need an approval. A unit is forgotten when it has
    nothing left to delete; with WaitForTermination when all its objects are gone. With the other
    policies, objects may outlive their unit: those that still exist `prune.timeout` after their
    deletion are logged. Its pre-delete Jobs run before anything is deleted. What stays loses its
    mark at the end: it belongs to no unit, and any unit may take it over.

    Units that wait at the same moment share a scan, which says where to look and no more: what an
    object is, and who wants it, is looked up again right before each write, and the write holds for
    that version only.
    """

    def __init__(
        self,
        remaining: Callable[[], Iterable[UnitPruner]],
        context: UnitContext,
        listeners: Sequence[Callable[[UnitRecord], None]],
        foreign: Callable[[str], bool] = lambda _: True,
        left: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`foreign` returns whether it is known what units of other shards want of a source;
        `left` gets the name of each unit."""
        self._remaining, self._foreign, self._report_left = remaining, foreign, left
        self._added = asyncio.Event()
        self._claims, self._live, self._clock = context.claims, context.live, context.clock
        self._containment = context.containment
        self._cluster, self._listeners = context.cluster, listeners
        self._authority, self._hooks = context.authority, context.hooks
        self._analysis = context.analysis
        self._reported: dict[str, Finding] = {}
        self._journal: dict[str, list[Intervention]] = {}  # what was deleted, by unit
        self._asked: dict[str, frozenset[str]] = {}  # uids whose deletion was asked for, by unit
        self._outliving: dict[str, _Outliving] = {}  # by unit that is forgotten
        self._left: list[RemovedUnit] = []
        self._waiting: dict[str, datetime] = {}  # for other units, since when

    def add(self, unit: RemovedUnit) -> None:
        """One more unit to end, or one to end otherwise than was said before."""
        self._left = [one for one in self._left if one.record.unit != unit.record.unit]
        self._left.append(unit)
        name = unit.record.unit
        self._claims.end(name, self._label(unit))
        self._report_left(name)
        self._added.set()

    async def run(self) -> None:
        """End whatever is left, until cancelled."""
        while True:
            self._added.clear()
            self._report_waiting()
            await self._end_together([unit for unit in self._left if self._may_end(unit)])
            async with asyncio.TaskGroup() as tasks:
                for name in self._outliving:
                    tasks.create_task(self._look_at_outliving(name))
            if self._left or self._outliving:
                await wait_for(self._added, self._clock, timedelta(seconds=_PAUSE_S))
            else:
                await self._added.wait()

    def _may_end(self, unit: RemovedUnit) -> bool:
        """Return whether `unit` is still to end in this way, and every unit that its objects may
        have moved to has said what it wants."""
        sure = not self._unsure(unit) and self._foreign(unit.source)
        return sure and any(unit is one for one in self._left)

    def _unsure(self, unit: RemovedUnit) -> list[str]:
        """Return the units of this process that have not said what they want, and one that git has
        and that does not run yet."""
        others = (p for p in self._remaining() if unit.source in {"", p.source})
        late = [p.unit_id for p in others if not (p.sure and self._authority.fresh(p.source))]
        return [*late, *filter(None, [self._claims.unborn(unit.source)])]

    def _report_waiting(self) -> None:
        """Report units that other units have kept from their end for some time."""
        now = self._clock.now()
        waiting = {u.record.unit: others for u in self._left if (others := self._unsure(u))}
        self._waiting = {name: self._waiting.get(name, now) for name in waiting}
        for unit in self._left:
            since = self._waiting.get(unit.record.unit, now)
            if now - since >= _SILENT:
                self._report(unit, _waits_for(unit.record.unit, waiting[unit.record.unit]))

    async def _end_together(self, units: Sequence[RemovedUnit]) -> None:
        """End `units` side by side, by one scan: it begins after each of them was added, and thus
        stopped writing."""
        if not units:
            return
        try:
            with self._containment.of("Objects of removed units: the scan"):
                found = await self._live.scan_all()
        except (DiagnosticError, ApiError) as error:
            for unit in units:
                self._failed(unit, error)
            return
        async with asyncio.TaskGroup() as tasks:
            for unit in units:
                tasks.create_task(self._guarded(unit, found.get(self._label(unit), ())))

    async def _guarded(self, unit: RemovedUnit, found: Collection[ObjectKey]) -> None:
        try:
            with self._containment.of(f"Unit {unit.record.unit}: its end"):
                finding = await self._tried(unit, found)
        except (DiagnosticError, ApiError) as error:
            self._failed(unit, error)
        else:
            if finding is not None:
                self._report(unit, finding)

    async def _tried(self, unit: RemovedUnit, found: Collection[ObjectKey]) -> Finding | None:
        """End a unit, or return what keeps it; objects that others write are read again. Raises
        Conflict when they are written all the time."""
        left = _TRIES
        while True:
            left -= 1
            live = await self._objects(self._label(unit), found)
            if not self._may_end(unit):
                return None  # that changed during the scan: the next one is for it
            try:
                finding = await self._end(unit, live)
            except Conflict:
                if not left:
                    raise
                await self._clock.sleep(_CHANGED_S)
                continue
            if finding is None:
                self._left = [one for one in self._left if one is not unit]
                self._claims.forget(unit.record.unit)
                self._asked.pop(unit.record.unit, None)  # it may come back, and end once more
                self._reported.pop(unit.record.unit, None)
            return finding

    def _failed(self, unit: RemovedUnit, error: DiagnosticError | ApiError) -> None:
        """Report a failure; the end of the unit is tried again."""
        if isinstance(error, Crashed):
            self._report(unit, error.findings[0])
        else:
            log.warning(log_line("unit-removal-failed", unit=unit.record.unit, error=error))

    def _report(self, unit: RemovedUnit, finding: Finding) -> None:
        if self._reported.get(unit.record.unit) != finding:
            self._reported[unit.record.unit] = finding
            self._stuck(unit, finding)

    async def _end(self, unit: RemovedUnit, live: dict[ObjectKey, Live]) -> Finding | None:
        """Do what is due; what keeps the unit from its end, None when it is forgotten.

        Raises Conflict when an object changed since it was read, and the same ApiErrors as writes.
        """
        name, removal = unit.record.unit, unit.removal
        transport = acting_as(removal.account, self._live.transport)
        if removal.policy == "Orphan":
            await release_all(live, self._live, transport)
            await self._forget(unit, "its objects stay")
            await unit.gone()
            return None
        snapshot = self._snapshot(live, unit)
        prunes = choose_prunes(snapshot)
        if prunes.now:
            awaited = await run_last_jobs(name, live, self._live, transport)
            if awaited is not None:
                return awaited
        findings = await self._delete(unit, prunes.now, live, transport)
        if findings:
            return findings[0]
        stays = [k for k in live if k not in prunes.now and self._is_due(k, live[k], snapshot)]
        if stays:
            return _stays(unit, sorted(stays))
        if removal.policy == "WaitForTermination" and self._leaving(live, prunes.now):
            late, _ = lingering(live, (), self._clock.now(), removal.timeout)
            return late or _waits(name)
        count = len(self._asked.get(name, ()))
        words = f"{many(count, 'object')} deleted" if count else "nothing was left"
        kept_ones = {key: one for key, one in live.items() if key not in prunes.now}
        await release_all(kept_ones, self._live, transport)
        await self._forget(unit, words)
        metas = {key: one.obj["metadata"] for key, one in live.items()}
        leaving = {
            key: str(meta["uid"])
            for key, meta in metas.items()
            if meta["uid"] in self._asked.get(name, ()) or meta.get("deletionTimestamp")
        }
        if leaving:
            self._outliving[name] = _Outliving(unit, leaving)
        else:
            await unit.gone()
        return None

    async def _delete(
        self,
        unit: RemovedUnit,
        keys: Sequence[ObjectKey],
        live: Mapping[ObjectKey, Live],
        transport: Transport,
    ) -> tuple[Finding, ...]:
        """Delete objects in order; return why some stay. Raises Conflict for one that another unit
        may want or have by now: the next scan decides."""
        name, accepted = unit.record.unit, set[ObjectKey]()
        findings: list[Finding] = []

        def journal(key: ObjectKey, reason: str, text: str) -> None:
            accepted.add(key)
            uids = self._asked.get(name, frozenset())
            self._asked[name] = uids | {live[key].obj["metadata"]["uid"]}
            entry = Intervention(at=self._clock.now(), key=key, reason=reason, text=text)
            self._journal.setdefault(name, []).append(entry)

        for key in keys:
            if not self._may_end(unit) or self._claims.others(name, frozenset({key})):
                raise Conflict(f"{key} may have moved to another unit meanwhile")
            findings += await delete_all(
                [key], live, self._live, transport,
                propagation=unit.removal.propagation, why=_UNIT_GONE, journal=journal,
            )  # fmt: skip
        changed = [key for key in keys if key not in accepted]
        if changed and not findings:
            raise Conflict(f"{changed[0]} changed or disappeared meanwhile")
        return tuple(findings)

    async def _look_at_outliving(self, name: str) -> None:
        """Report objects that a forgotten unit should have taken with it."""
        outliving = self._outliving[name]
        found = {key: self._live.store.seen(key) for key in outliving.uids}
        live = {
            key: Live(obj=there.obj, ready=True)
            for key, there in found.items()
            if there is not None and there.obj["metadata"]["uid"] == outliving.uids[key]
        }
        late, _ = lingering(live, (), self._clock.now(), outliving.unit.removal.timeout)
        if not live:
            try:
                await outliving.unit.gone()
            except ApiError as error:
                log.warning(log_line("unit-removal-failed", unit=name, error=error))
                return
            del self._outliving[name]
            if outliving.reported is not None:
                log.warning(log_line("unit-objects-gone", unit=name))
        elif late is not None and late != outliving.reported:
            outliving.reported = late
            log.warning(
                log_line(
                    "unit-objects-remain", unit=name, error=late, next=dict(late.notes)["next"]
                )
            )

    async def _forget(self, unit: RemovedUnit, why: str) -> None:
        await self._hooks.forget(unit.record.unit)
        await self._analysis.forget(unit.record.unit)
        deleted = tuple(self._journal.get(unit.record.unit, ()))
        await unit.forget(replace(unit.record, interventions=deleted), why)
        self._journal.pop(unit.record.unit, None)

    async def _objects(self, label: str, found: Collection[ObjectKey]) -> dict[ObjectKey, Live]:
        """Return those of the objects `found` that have the unit's label now: another unit may
        have taken some over since the scan. Raises ClusterFailed."""
        await self._live.ready(self._live.want({key.group_kind: "" for key in found}))
        seen = {key: there for key in found if (there := self._live.store.seen(key)) is not None}
        return {
            key: Live(obj=there.obj, ready=True)
            for key, there in seen.items()
            if mark_of(there.obj) == label
        }

    def _label(self, unit: RemovedUnit) -> str:
        return unit_label(self._cluster, unit.record.unit)

    def _snapshot(self, live: dict[ObjectKey, Live], unit: RemovedUnit) -> SyncSnapshot:
        removal, now = unit.removal, self._clock.now()
        held = {key: why for key, one in live.items() if (why := lasting_hold(one.obj, now))}
        return SyncSnapshot(
            desired=_NOTHING,
            unit_label=self._label(unit),
            live=live,
            inventory=frozenset(live),
            inventory_complete=True,
            prune=rules_at_end(removal.policy, removal.limit),
            correct_drift=False,
            agreed=self._asked.get(unit.record.unit, frozenset()),
            claimed=self._claims.others(unit.record.unit, frozenset(live)),
            spared={**unit.spared, **held},
        )

    def _is_due(self, key: ObjectKey, live: Live, s: SyncSnapshot) -> bool:
        """Return whether the unit owns the object and no annotation keeps it."""
        leaving = live.obj["metadata"].get("deletionTimestamp")
        return not (key in s.claimed or leaving or key in s.spared or kept(live.obj))

    def _leaving(self, live: dict[ObjectKey, Live], now: tuple[ObjectKey, ...]) -> bool:
        return bool(now) or any(x.obj["metadata"].get("deletionTimestamp") for x in live.values())

    def _stuck(self, unit: RemovedUnit, finding: Finding) -> None:
        state = State.STUCK if finding.is_error else State.WAITING
        record = replace(
            unit.record,
            state=state,
            message=finding.message,
            since=self._clock.now(),
            findings=(finding,),
            objects=(),
            rollouts=(),
            steps=(),
            drift=(),
        )
        unit.offer(record)
        for listener in self._listeners:
            listener(record)


def _stays(unit: RemovedUnit, keys: list[ObjectKey]) -> Finding:
    removal = unit.removal
    named = ", ".join(map(str, keys[:5])) + (", …" if len(keys) > 5 else "")
    limited = removal.policy == "MirrorPrune" and len(keys) > removal.limit
    why = (
        f"that is more than prune.maxDelete ({removal.limit})"
        if limited
        else "deleting them would delete what they hold, or they ask for approval"
    )
    return Finding(
        code="GK2308",
        message=f"unit {unit.record.unit} left the configuration, and {len(keys)} of its objects "
        f"stay: {why}",
        notes=(
            ("stays", named),
            ("unchanged", "these objects; nothing keeps them as git wants any more"),
            ("next", "delete by hand what you no longer want"),
            ("or", "set the unit's prune.deletionPolicy to Delete or Orphan")
            if unit.custom
            else (
                "or",
                "put the unit back with deletionPolicy Delete or Orphan, and take it out again",
            ),
        ),
    )


def _waits_for(unit: str, others: Sequence[str]) -> Finding:
    these, have = listing(sorted(others), _NAMED_MAX), "has" if len(others) == 1 else "have"
    return Finding(
        code="GK2309",
        message=f"unit {unit} left the configuration, and nothing of it is deleted before "
        f"unit{'' if len(others) == 1 else 's'} {these} {have} taken the newest commit of "
        f"{'its source' if len(others) == 1 else 'their sources'}",
        notes=(("why", "an object may have moved to another unit"),),
        severity=Severity.WARNING,
    )


def _waits(unit: str) -> Finding:
    return Finding(
        code="GK2309",
        message=f"unit {unit} left the configuration, and its objects are being deleted",
        notes=(("why", "prune.deletionPolicy is WaitForTermination"),),
        severity=Severity.WARNING,
    )
