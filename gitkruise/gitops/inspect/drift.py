"""Live objects compared with git at this moment, for a reader: nothing is put back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from gitkruise.errors import (
    ClusterFailed,
    DiagnosticError,
    Finding,
    Forbidden,
    InvalidManifests,
    Severity,
    UsageProblem,
)
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.push.worktree import addresses
from gitkruise.git.repository.path_history import PathHistory
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder
from gitkruise.gitops.build.post_build import gather
from gitkruise.gitops.charts.cache import ChartCache
from gitkruise.gitops.charts.fetcher import Charts, LiveCharts
from gitkruise.gitops.config.cluster_units import cluster_config
from gitkruise.gitops.preview.changes import changes_between, with_live
from gitkruise.gitops.preview.inputs import not_here, units_elsewhere, whole_config_at
from gitkruise.gitops.preview.live_diff import read_live, sized_workloads
from gitkruise.gitops.preview.ownership import set_aside
from gitkruise.gitops.reconcile.drift_correction import ignore_rules
from gitkruise.gitops.reconcile.rejections import not_served
from gitkruise.gitops.source.ancestry import newest_of
from gitkruise.gitops.status.observer import drift_records
from gitkruise.gitops.status.reader import read_units, status_branches
from gitkruise.kube.client.discovery import served_catalog
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.wall_clock import wall_time
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.record import DriftRecord
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import COMMIT, annotation
from gitkruise.planner.sync.autoscale import REPLICAS
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import CONFIG_FILE, Obj, ObjectKey

_SIZE: Final = ".".join(REPLICAS)
THERE, GONE = "is there", "is missing"


@dataclass(frozen=True, slots=True)
class DriftComparison:
    """Fields that differ by unit, object and field; the objects compared; why units were not.

    `others` are objects that were not asked for. `recorded` is when the newest record was written
    that they were read from; None: they are live. `aside` are objects that a sync leaves as they
    are, with the annotation: they are not compared.
    """

    differing: Sequence[DriftRecord]
    compared: frozenset[ObjectKey]
    unread: tuple[DiagnosticError, ...] = ()
    recorded: datetime | None = None
    others: frozenset[ObjectKey] = frozenset()
    aside: Mapping[ObjectKey, str] = field(default_factory=dict)


async def compare(
    path: str,
    revision: str,
    config: Config | None,
    catalog: Catalog,
    *,
    transport: Transport,
    charts: Charts,
    cluster: str,
    asked: Callable[[ObjectKey], bool] = lambda _: True,
) -> DriftComparison:
    """Compare every unit that can be read with its live objects, as far as they are `asked` for.

    A missing object is one row. Objects that may not be read are not compared.

    Each unit is compared at `revision`. The default is the commit in its record and in the
    annotations of its objects, otherwise HEAD.
    Raises InvalidManifests, SourceFailed, ClusterFailed and ApiError.
    """
    kinds, hidden = await _served(transport, catalog)
    with Repository.open(path) as repository:
        head = repository.named(revision or "HEAD")
        ref = status_branches(repository).get(cluster)
        units = read_units(repository, ref) if ref else []
        applied = {u.unit: u.applied.id for u in units if u.applied}
        if ChartCache.shared is not None:
            live = {u.unit: u.chart for u in units if u.chart}
            charts = LiveCharts(charts, ChartCache.shared, live)
        if config is None and repository.find(head, CONFIG_FILE) is None:
            here = addresses(repository.git_dir)
            config = await cluster_config(transport, catalog, here, cluster)
        config = config or whole_config_at(repository, head)
        there = units_elsewhere(repository, config)
        away = (config.units[name] for name in there)
        reading = _UnitsRead(repository, ClusterAccess(transport, kinds, charts, hidden, asked))
        reading.unread += (
            UsageProblem(not_here(config, unit, unchanged="its objects were not compared"))
            for unit in away
        )
        for unit in config.units.values():
            if unit.id not in there:
                await reading.take(unit, head if revision else applied.get(unit.id, head))
        await reading.look(reading.taken)
        if not revision:
            await reading.move_on()
        return await reading.compared()


async def _served(transport: Transport, catalog: Catalog) -> tuple[Catalog, str]:
    """Return (the kinds of the cluster, ""); without the right to read its definitions those known
    here, and the answer of the API server. Raises ApiError."""
    try:
        return await served_catalog(transport, catalog), ""
    except Forbidden as error:
        return catalog, error.message


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Ways to a cluster, to its kinds and to charts, for the objects that are `asked` for.
    `hidden` is why its definitions of kinds are not known."""

    transport: Transport
    catalog: Catalog
    charts: Charts
    hidden: str = ""
    asked: Callable[[ObjectKey], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class _UnitObjects:
    """Everything that a unit wants at a commit, and what is `asked` for of it."""

    unit: Unit
    commit: str
    whole: tuple[Desired, ...]
    asked: tuple[Desired, ...]


class _UnitsRead:
    """Units as they are read. The live objects of all of them are listed together: two thousand
    units would take as many lists of each kind."""

    def __init__(self, repository: Repository, access: ClusterAccess) -> None:
        self.taken: dict[str, _UnitObjects] = {}
        self.unread: list[DiagnosticError] = []
        self._access = access
        self._repository = repository
        self._cache = ParseCache()
        self._history = PathHistory(repository)
        self._live: dict[ObjectKey, Obj] = {}
        self._refused: dict[Finding, None] = {}
        self._hidden: set[ObjectKey] = set()

    async def take(self, unit: Unit, commit: str) -> None:
        """Read what a unit wants at a commit, or note why that cannot be read."""
        try:
            whole = await self._desired(unit, commit)
        except DiagnosticError as error:
            self.taken.pop(unit.id, None)
            self.unread.append(error)
            return
        asked = tuple(d for d in whole if self._access.asked(d.key))
        self.taken[unit.id] = _UnitObjects(unit, commit, whole, asked)

    async def _desired(self, unit: Unit, commit: str) -> tuple[Desired, ...]:
        access, history = self._access, self._history
        reader = Builder(
            repository=self._repository, unit=unit, gates=Gates(), cache=self._cache, shared=history
        )
        inputs = await gather(unit, access.transport, access.charts)
        built = await asyncio.to_thread(reader.read, commit, access.catalog, None, "", inputs)
        if built.desired is None:
            raise InvalidManifests(*built.findings)
        return tuple(d for d in built.desired.objects if not d.hook)

    async def look(self, names: Collection[str]) -> None:
        """Read the live objects of some units. Raises ApiError."""
        access, keys = self._access, [d.key for name in names for d in self.taken[name].asked]
        live = await read_live(
            access.transport, access.catalog, keys, otherwise="were not compared"
        )
        for key in keys:
            self._live.pop(key, None)
        self._live |= live.objects
        self._refused |= dict.fromkeys(live.findings)
        self._hidden |= live.unread

    async def move_on(self) -> None:
        """Take each unit at the newest commit that its objects carry."""
        moved = []
        for name, one in tuple(self.taken.items()):
            there = (self._live[d.key] for d in one.asked if d.key in self._live)
            marks = {annotation(obj, COMMIT) for obj in there} - {""}
            newest = await asyncio.to_thread(newest_of, self._repository, sorted(marks), one.commit)
            if newest != one.commit:
                await self.take(one.unit, newest)
                moved.append(name)
        await self.look([name for name in moved if name in self.taken])

    async def compared(self) -> DriftComparison:
        """Compare what was taken with what is live. Raises ApiError."""
        access = self._access
        read: list[Desired] = []
        others: set[ObjectKey] = set()
        found: list[DriftRecord] = []
        unknown: list[Finding] = []
        aside: dict[ObjectKey, str] = {}
        for one in self.taken.values():
            apart = of_unknown_kinds(one.asked, access.catalog, access.hidden)
            some = [d for d in one.asked if d.key not in self._hidden and d.key not in apart]
            left = left_as_they_are(some, self._live)
            some = [d for d in some if d.key not in left]
            aside |= left
            found += differences(one.unit, some, self._live, (), access.catalog)
            read += some
            unknown += apart.values()
            others |= {d.key for d in one.whole} - {d.key for d in one.asked}
        resized = {r.key for r in found if r.field == _SIZE}
        sized = await sized_workloads(
            (d for d in read if d.key in resized), access.transport, access.catalog
        )
        found = [r for r in found if not _theirs(r, sized.keys)]
        unsure = sized.findings if any(r.field == _SIZE for r in found) else ()
        refused = [replace(f, severity=Severity.ERROR) for f in (*self._refused, *unsure)]
        unread = (*self.unread, *map(ClusterFailed, (*refused, *unknown)))
        compared = frozenset(d.key for d in read)
        return DriftComparison(found, compared, unread, others=frozenset(others), aside=aside)


def of_unknown_kinds(
    wanted: Iterable[Desired], catalog: Catalog, hidden: str = ""
) -> dict[ObjectKey, Finding]:
    """Return why objects of kinds that are not in `catalog` are not compared.

    `hidden` is why the definitions of the cluster are not known.
    """
    return {
        d.key: _kind_unknown(d, catalog, hidden)
        for d in wanted
        if catalog.stored(d.key.group_kind) is None
    }


def _kind_unknown(d: Desired, catalog: Catalog, hidden: str) -> Finding:
    unchanged = ("unchanged", f"{d.key} was not compared")
    if hidden:
        message = f"kind {d.key.kind} ({d.obj['apiVersion']}) is not known: {hidden}"
        right = ("next", "give this account the right to list customresourcedefinitions")
        return Finding(code="GK4301", message=message, notes=(unchanged, right), object=str(d.key))
    found = not_served(d, catalog)
    return replace(found, notes=(unchanged, *(n for n in found.notes if n[0] != unchanged[0])))


def left_as_they_are(
    wanted: Iterable[Desired], live: Mapping[ObjectKey, Obj]
) -> dict[ObjectKey, str]:
    """Return the objects that a sync leaves as they are, each with the annotation."""
    now = wall_time()
    found = {d.key: set_aside(d, there := live.get(d.key), there, now) for d in wanted}
    return {key: why for key, why in found.items() if why}


def differences(
    unit: Unit,
    wanted: Sequence[Desired],
    live: Mapping[ObjectKey, Obj],
    sized: Collection[ObjectKey],
    catalog: Catalog,
) -> list[DriftRecord]:
    """Return the fields of a unit's live objects that differ from git, by object and field.

    An object of a kind that is not in `catalog` was not read. `sized` are the workloads whose
    size an autoscaler sets: that is no drift.
    """
    rules = dict.fromkeys((d.key for d in wanted), ignore_rules(unit.spec.drift))
    same = changes_between(wanted, wanted, catalog)
    drifted = [c for c in with_live(same, wanted, live, catalog, rules) if c.drift or c.pending]
    gone = [
        DriftRecord(key=d.key, field="(object)", git=THERE, live=GONE)
        for d in wanted
        if d.key not in live and catalog.stored(d.key.group_kind) is not None
    ]
    records = [r for r in drift_records(drifted) if not _theirs(r, sized)]
    return sorted([*records, *gone], key=lambda r: (r.key, r.field))


def _theirs(record: DriftRecord, sized: Collection[ObjectKey]) -> bool:
    """Return whether the field is a size that an autoscaler sets."""
    return record.key in sized and record.field == _SIZE
