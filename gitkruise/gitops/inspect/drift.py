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
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder
from gitkruise.gitops.build.post_build import gather
from gitkruise.gitops.charts.cache import ChartCache
from gitkruise.gitops.charts.fetcher import Charts, LiveCharts
from gitkruise.gitops.config.cluster_units import cluster_config
from gitkruise.gitops.preview.changes import changes_between, with_live
from gitkruise.gitops.preview.inputs import not_here, units_elsewhere, whole_config_at
from gitkruise.gitops.preview.live_diff import LiveObjects, read_live, sized_workloads
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
        access = ClusterAccess(transport, kinds, charts, hidden, asked)
        found: list[DriftRecord] = []
        compared: set[ObjectKey] = set()
        others: set[ObjectKey] = set()
        aside: dict[ObjectKey, str] = {}
        unread: list[DiagnosticError] = []
        if config is None and repository.find(head, CONFIG_FILE) is None:
            here = addresses(repository.git_dir)
            config = await cluster_config(transport, catalog, here, cluster)
        config = config or whole_config_at(repository, head)
        there = units_elsewhere(repository, config)
        for unit in config.units.values():
            if unit.id in there:
                why = not_here(config, unit, unchanged="its objects were not compared")
                unread.append(UsageProblem(why))
                continue
            commit = head if revision else applied.get(unit.id, head)
            try:
                records, wanted, left, refused, apart = await _of_unit(
                    repository, unit, commit, access, fixed=bool(revision)
                )
            except DiagnosticError as error:
                unread.append(error)
                continue
            found += records
            compared.update(d.key for d in wanted)
            aside |= left
            others |= apart
            unread += refused
        return DriftComparison(
            found, frozenset(compared), tuple(unread), others=frozenset(others), aside=aside
        )


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


async def _of_unit(
    repository: Repository, unit: Unit, commit: str, access: ClusterAccess, *, fixed: bool
) -> tuple[
    list[DriftRecord],
    tuple[Desired, ...],
    Mapping[ObjectKey, str],
    list[ClusterFailed],
    set[ObjectKey],
]:
    """One unit's, at a commit: the one that was asked for, or a newer one that objects carry.

    Returns (what differs, the objects that were compared, those that a sync leaves as they are,
    why others were not compared, those that were not asked for).
    """
    transport, catalog = access.transport, access.catalog
    whole = await _desired(repository, unit, commit, access)
    wanted = _asked(whole, access)
    live = await _live(wanted, access)
    if not fixed:
        marks = {annotation(obj, COMMIT) for obj in live.objects.values()} - {""}
        newest = await asyncio.to_thread(newest_of, repository, sorted(marks), commit)
        if newest != commit:
            whole = await _desired(repository, unit, newest, access)
            wanted = _asked(whole, access)
            live = await _live(wanted, access)
    apart = of_unknown_kinds(wanted, catalog, access.hidden)
    read = tuple(d for d in wanted if d.key not in live.unread and d.key not in apart)
    aside = left_as_they_are(read, live.objects)
    read = tuple(d for d in read if d.key not in aside)
    sized = await sized_workloads(read, transport, catalog)
    records = differences(unit, read, live.objects, sized.keys, catalog)
    unsure = sized.findings if any(r.field == _SIZE for r in records) else ()
    refused = [replace(f, severity=Severity.ERROR) for f in (*live.findings, *unsure)]
    failed = [*map(ClusterFailed, refused), *map(ClusterFailed, apart.values())]
    return records, read, aside, failed, {d.key for d in whole} - {d.key for d in wanted}


def _asked(wanted: Sequence[Desired], access: ClusterAccess) -> tuple[Desired, ...]:
    return tuple(d for d in wanted if access.asked(d.key))


async def _live(wanted: Sequence[Desired], access: ClusterAccess) -> LiveObjects:
    keys = [d.key for d in wanted]
    return await read_live(access.transport, access.catalog, keys, otherwise="were not compared")


async def _desired(
    repository: Repository, unit: Unit, commit: str, access: ClusterAccess
) -> tuple[Desired, ...]:
    reader = Builder(repository=repository, unit=unit, gates=Gates(), cache=ParseCache())
    ingredients = await gather(unit, access.transport, access.charts)
    built = await asyncio.to_thread(reader.read, commit, access.catalog, None, "", ingredients)
    if built.desired is None:
        raise InvalidManifests(*built.findings)
    return tuple(d for d in built.desired.objects if not d.hook)


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
    rules = dict.fromkeys(live, ignore_rules(unit.spec.drift))
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
