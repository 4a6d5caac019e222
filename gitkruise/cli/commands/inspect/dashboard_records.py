"""Records of units for pages of a controller: its own, and those of shards of other replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.cli.context.local_repository import (
    ClusterRecord,
    Records,
    cluster_record,
    warning_lines,
)
from gitkruise.errors import RefMissing, SourceFailed
from gitkruise.kube.system.clock import wait_for
from gitkruise.printable import many
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.gitops.runtime.fleet_questions import RunningFleet
    from gitkruise.gitops.runtime.supervisor import Supervisor
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Unit
    from gitkruise.model.gitops.record import UnitRecord
    from gitkruise.model.gitops.shards import Shard
    from gitkruise.model.workloads.feature_gates import Gates
    from gitkruise.sharding import RunningShards

_READ: Final = timedelta(
    seconds=10
)  # between two fetches of status branches, while other replicas have shards


@dataclass(frozen=True, slots=True)
class UnitsElsewhere:
    """Units of shards that this replica does not have.

    `holders` say by unit which replica has its shard. `records` are by Sink those that it wrote to
    the status branch, and `problem` says why one could not be read.
    """

    holders: Mapping[str, str] = field(default_factory=dict)
    records: Mapping[str, ClusterRecord] = field(default_factory=dict)
    problem: str = ""

    @property
    def units(self) -> list[RecordedUnit]:
        """Return the recorded units."""
        return [one for record in self.records.values() for one in record.units]


@dataclass(slots=True)
class ReceivedRecords:
    """Records of units as a controller of this process reports them; its `fleet` while it leads.

    With `shards` they are those of the shards that it has, and `elsewhere` has the others.
    """

    fleet: RunningFleet | None = None
    units: dict[str, UnitRecord] = field(default_factory=dict)
    changed: Callable[[], None] = lambda: None
    fresh: bool = False  # whether they were arranged since the last one
    shards: RunningShards | None = None
    elsewhere: UnitsElsewhere = field(default_factory=UnitsElsewhere)
    _programs: dict[Shard, Supervisor] = field(default_factory=dict)
    _read: dict[str, ClusterRecord] = field(default_factory=dict)  # whole records, by Sink
    _moved: asyncio.Event = field(default_factory=asyncio.Event)  # shards came or went

    def receive(self, record: UnitRecord) -> None:
        self.units[record.unit] = record
        self._news()

    def receive_shard(
        self, shard: Shard, program: Supervisor | None, gates: Gates, clock: Clock
    ) -> None:
        """Take note that the program of a shard runs here, or no longer."""
        from gitkruise.gitops.runtime.fleet_questions import RunningFleet  # noqa: PLC0415  the model

        if program is not None:
            self._programs[shard] = program
        else:
            self._programs.pop(shard, None)
            self.units = {name: one for name, one in self.units.items() if not shard.owns(name)}
        programs = tuple(self._programs.values())
        self.fleet = RunningFleet(programs[0], gates, clock, programs[1:]) if programs else None
        self._moved.set()
        self._news()

    def _news(self) -> None:
        self.fresh = False
        self.changed()

    def news(self) -> list[RecordedUnit]:
        """Return the units as readers of the status branch see them."""
        from gitkruise.gitops.status.reader import recorded_unit  # noqa: PLC0415  start-up budget

        mine = [recorded_unit(record) for record in self.units.values()]
        there = (one for one in self.elsewhere.units if one.unit not in self.units)
        return sorted([*mine, *there], key=lambda one: one.unit)

    def records(self) -> Records:
        """Return what explanations need of them."""
        steps = [
            (key, step)
            for record in self.units.values()
            for key, taken in record.steps
            for step in taken
        ]
        steps += [pair for record in self.elsewhere.records.values() for pair in record.steps]
        steps.sort(key=lambda pair: pair[1].started, reverse=True)
        return Records(units=tuple(self.news()), steps=tuple(steps))

    def of_cluster(self, name: str) -> ClusterRecord:
        """Return them as the status branch of a cluster has them."""
        known, made = self.records(), [i for r in self.units.values() for i in r.interventions]
        made += [one for r in self.elsewhere.records.values() for one in r.interventions]
        made.sort(key=lambda one: one.at, reverse=True)
        return ClusterRecord(
            cluster=name, tip="", written=None, units=known.units, steps=known.steps,
            interventions=tuple(made),
        )  # fmt: skip

    def why_stale(self) -> list[str]:
        """Return the lines that say what of the units is not of now."""
        if self.shards is not None and not self._programs:
            return ["this replica has no shard now: units, commits and plans are shown by others"]
        there, seen = self.elsewhere, {one.unit for one in self.elsewhere.units}
        read, unread = len(seen), len(there.holders.keys() - seen)
        lines = []
        if read:
            times = [r.written for r in there.records.values() if r.written and r.units]
            written = f", written {format_time(min(times))}" if times else ""
            what = f"{many(read, 'unit')} of shards of other replicas"
            lines.append(f"{what}: as recorded on the status branch{written}")
        if unread:
            what = f"{many(unread, 'unit')} of shards of other replicas"
            lines.append(f"{what}: no record that this one can read; their objects are shown")
        lines += warning_lines(f for one in there.records.values() for f in one.unread)
        return [*lines, there.problem] if there.problem else lines

    # Units of other replicas ----------------------------------------------------------------

    async def read_elsewhere(self, cluster: str, clock: Clock) -> None:
        """Read again and again what other replicas record, while they have shards."""
        while True:
            found = await self._read_elsewhere(cluster)
            if found != self.elsewhere:
                self.elsewhere = found
                self._news()
            await wait_for(self._moved, clock, _READ)
            self._moved.clear()

    async def _read_elsewhere(self, cluster: str) -> UnitsElsewhere:
        fleet, shards = self.fleet, self.shards
        if fleet is None or shards is None:
            return UnitsElsewhere()
        by_sink = _by_sink(fleet.elsewhere.values())
        problem = ""
        for sink in sorted(by_sink.keys() & fleet.fleet.outboxes.keys()):
            known = self._read.get(sink)
            try:
                found = await asyncio.to_thread(_recorded, fleet.fleet, sink, cluster, known)
            except SourceFailed as error:
                problem, found = f"the status branch of Sink {sink} cannot be read: {error}", known
            if found is not None:
                self._read[sink] = found
        holders = {name: _holder(shards, name) for name in fleet.elsewhere}
        known_ones = self._read.items()
        records = {s: _part(r, by_sink[s]) for s, r in known_ones if s in by_sink}
        return UnitsElsewhere(holders, records, problem)


def _by_sink(units: Iterable[Unit]) -> dict[str, set[str]]:
    from gitkruise.gitops.config.fingerprints import sink_of  # noqa: PLC0415  the model

    found: dict[str, set[str]] = {}
    for unit in units:
        found.setdefault(sink_of(unit), set()).add(unit.id)
    return found


def _holder(shards: RunningShards, unit: str) -> str:
    """The replica that has the shard of a unit, as its Lease names it."""
    from gitkruise.model.gitops.shards import Shard, shard_of  # noqa: PLC0415  start-up budget

    shard = Shard(shard_of(unit, shards.count), shards.count)
    lease = shards.election.shards[shard.number]
    replica = f"replica {lease.holder}" if lease.is_held and lease.holder else "no replica now"
    return f"{replica}, shard {shard}"


def _recorded(
    supervisor: Supervisor, sink: str, cluster: str, known: ClusterRecord | None
) -> ClusterRecord | None:
    """The record on the status branch of a Sink; None where nothing was written yet. Blocking."""
    try:
        repository, tip = supervisor.outboxes[sink].branch.fetched()
    except RefMissing:
        return None
    if known is not None and known.tip == tip:
        return known
    return cluster_record(repository, cluster, tip, tip)


def _part(record: ClusterRecord, units: set[str]) -> ClusterRecord:
    """The part of a record that is about some units."""
    found = tuple(one for one in record.units if one.unit in units)
    keys = {key for one in found for key in one.objects}
    return replace(
        record, units=found,
        steps=tuple(pair for pair in record.steps if pair[0] in keys),
        interventions=tuple(one for one in record.interventions if one.key in keys),
    )  # fmt: skip
