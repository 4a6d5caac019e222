"""Supervisor of the sources, units, sinks and receivers of a configuration that may change.

A change restarts only the components that it concerns; those that fail to start are reported and
retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from gitkruise.errors import ApiError, Concern, Crashed, DiagnosticError, Finding, Severity
from gitkruise.git.push.status_branch import StatusBranch
from gitkruise.git.repository.path_history import PathHistory
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.config.fingerprints import (
    ENDPOINTS,
    DerivedComponents,
    Fingerprints,
    listened_for,
    place_of,
    sink_of,
    source_of,
    written_to,
)
from gitkruise.gitops.notify.factory import Notifications, open_notifications
from gitkruise.gitops.receiver.server import ReceiverServer, open_receivers, receiver_keys
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.runtime.component_errors import ComponentErrors, Name
from gitkruise.gitops.runtime.components import ComponentSet, ProcessDeps
from gitkruise.gitops.runtime.followers import FollowerDeps, Followers, follow
from gitkruise.gitops.runtime.foreign_units import ForeignUnits
from gitkruise.gitops.runtime.promotions import Promotions
from gitkruise.gitops.runtime.restore import BranchRecords, RestoredState, hand_over
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.source.ref_resolver import ref_of
from gitkruise.gitops.source.repositories import Pool, Renewal, patience_of, trust_sources
from gitkruise.gitops.source.verification import Trusted
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.sinks import Writer, open_status_sinks
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.config import Config, Sink, Unit
from gitkruise.model.gitops.record import UnitRecord

NOTHING: Final = Config()


@dataclass(frozen=True, slots=True)
class _Source:
    repository: Repository
    trusted: Trusted


@dataclass(frozen=True, slots=True)
class _Branch:
    """A Sink's status branch, as it was when it was opened."""

    outbox: Outbox
    branch: StatusBranch
    records: BranchRecords
    writer: Writer


class Supervisor:
    """Everything that follows git, for one process. Only `reconcile` changes what runs."""

    def __init__(self, deps: ProcessDeps, context: UnitContext, tasks: asyncio.TaskGroup) -> None:
        self._deps, self._context, self._containment = deps, context, context.containment
        self._transport = context.live.transport
        self._renewal = Renewal(self._transport)
        self._pool = Pool(deps.state_dir, self._transport, self._renewal)
        self.foreign = ForeignUnits(context, self._reader, deps.states)
        self._follower_deps = FollowerDeps(
            deps.state_dir, context.cluster, context.clock, self._renewal, deps.moved,
            context.authority, context.workers, context.containment, deps.rewrites,
            self.foreign.offering,
        )  # fmt: skip
        self._histories: dict[Repository, PathHistory] = {}
        self._past: dict[str, RestoredState] = {}  # of units that are rebuilt
        containment, clock = context.containment, context.clock
        self._sources: ComponentSet[_Source] = ComponentSet("GitSource", tasks, containment, clock)
        self._branches: ComponentSet[_Branch | None] = ComponentSet(
            "Sink", tasks, containment, clock, self._sink_crashed
        )
        self.units: ComponentSet[UnitReconciler] = ComponentSet(
            "Unit", tasks, containment, clock, self._unit_crashed
        )
        self._followers: ComponentSet[Followers] = ComponentSet(
            "Repository", tasks, containment, clock
        )
        self._notifications: ComponentSet[Notifications] = ComponentSet(
            "Sink", tasks, containment, clock, self._sink_crashed
        )
        self._receivers: ComponentSet[ReceiverServer] = ComponentSet(
            "Receivers", tasks, containment, clock, self._receivers_crashed
        )
        self.promotions = Promotions(tasks, context, lambda: self.whole, acts=deps.acts)
        self.reporters: dict[str, Reporter] = {}
        self.config = NOTHING
        self.cluster = context.cluster
        self.errors = ComponentErrors(patient=deps.acts)
        self.crashes: dict[Name, Finding] = {}  # of sinks and receivers that run

    # What runs ------------------------------------------------------------------------------

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """By sink."""
        return {name: one.outbox for name, one in self._branches.items() if one is not None}

    @property
    def branch_files(self) -> Mapping[str, Mapping[str, Mapping[str, bytes]]]:
        """By sink and unit: the files of the status branch as they were found."""
        return {name: one.records.files for name, one in self._branches.items() if one is not None}

    @property
    def live(self) -> LiveView:
        """Return the view of the cluster that all units share."""
        return self._context.live

    @property
    def workers(self) -> Workers:
        """Return what reads the content of repositories."""
        return self._context.workers

    @property
    def followers(self) -> Mapping[str, SourceFollower]:
        """By source."""
        return {name: f for one in self._followers.values() for name, f in one.by_source.items()}

    @property
    def reconciled(self) -> Mapping[str, datetime]:
        """By unit: the end of its last round without a failure."""
        return {name: u.reconciled_at for name, u in self.units.items() if u.reconciled_at}

    @property
    def leads(self) -> bool:
        """Return whether this process may write."""
        return self._context.authority.leads

    @property
    def pollings(self) -> Mapping[str, Polling]:
        """By source; sources of one repository share theirs."""
        return {name: one.polling for one in self._followers.values() for name in one.by_source}

    @property
    def notifications(self) -> Notifications:
        """Return the notifications of all sinks as one."""
        whole = Notifications()
        for one in self._notifications.values():
            whole.listeners += one.listeners
            whole.jobs += one.jobs
            whole.senders |= one.senders
            for source, pulls in one.pulls.items():
                whole.pulls.setdefault(source, []).extend(pulls)
        return whole

    @property
    def hooks(self) -> Mapping[str, str]:
        """Return the path of each Receiver."""
        return {name: url for one in self._receivers.values() for name, url in one.urls.items()}

    @property
    def whole(self) -> Config:
        """Return the configuration with the units of other shards."""
        return msgspec.structs.replace(self.config, units=self.foreign.units | self.config.units)

    def units_of(self, source: str) -> Config:
        """Return the configuration, other shards included, without the units of other sources."""
        config = self.whole
        units = {name: one for name, one in config.units.items() if source_of(one) == source}
        return Config(config.sources, units, config.sinks, config.receivers)

    # Changing it ----------------------------------------------------------------------------

    async def reconcile(
        self, config: Config, *, required: Config = NOTHING, suspended: Collection[str] = ()
    ) -> None:
        """Run exactly the components of `config`, without units of other shards; errors are in
        `errors` afterwards. Units that are `suspended` exist but do not run: they keep their
        objects. Raises the errors of `required` components that `failed` does not put off.
        """
        whole, self.config = config.units, self._deps.shard.part(config)
        config = self.config
        self.foreign.follow(whole, config.units)
        marks = Fingerprints(config)
        outer = self._outer(marks)
        await self._receivers.keep(outer.endpoints)
        await self._notifications.keep(outer.notifications)
        await self._followers.keep(outer.follows)
        await self.promotions.keep(marks)
        for name in [n for n in self.units if not self.units.fits(n, marks.units.get(n))]:
            self._remember(name, stays=name in config.units or name in suspended)
        await self.units.keep(marks.units)
        await self._branches.keep(marks.sinks)
        await self._sources.keep(marks.sources)
        self.errors.clear()
        await self._open_sources(marks, required)
        await self._open_sinks(marks, required)
        hand_over(config, self.outboxes, self.branch_files, self.cluster)
        for name in config.units:
            self._guarded_start(name, marks)
        writers = {n: b.writer for n, b in self._branches.items() if b is not None}
        pairs = {n: (u, self.reporters[n]) for n, u in self.units.items()}
        await self.promotions.open(marks, pairs, writers, errors=self.errors, required=required)
        await self._open_outer(marks, required)
        self.errors.rest_runs(self.units or not self._deps.shard.is_whole)

    async def rest(self) -> None:
        """Stop everything that runs; records not written yet stay in the outboxes."""
        await self._receivers.close()
        await self._notifications.close()
        await self._followers.close()
        await self.promotions.close()
        await self.units.rest()
        await self._branches.rest()

    async def close(self) -> None:
        """Let go of all repositories, at the very end."""
        await self.units.close()
        await self._branches.close()
        await self._sources.close()

    def _remember(self, name: str, *, stays: bool) -> None:
        """Keep the state of a unit that is rebuilt with other settings."""
        record = self.reporters.pop(name).record
        if stays:
            self._past[name] = RestoredState.of(record, self.units[name].pruning)
            self._context.claims.stop(name)
        else:
            self._context.claims.leave(name)
            self._context.standings.leave(name)

    # Sources and sinks ----------------------------------------------------------------------

    async def _open_sources(self, marks: Fingerprints, required: Config) -> None:
        sources = marks.config.sources
        for name, source in sources.items():
            if name in self._sources:
                continue
            patience = patience_of(sources, source.spec.url)
            async with AsyncExitStack() as stack:
                try:
                    with self._containment.of(f"GitSource {name}"):
                        repository = await self._pool.open(name, source, patience, stack)
                        trusts = await trust_sources(
                            {name: source},
                            {name: repository},
                            self._deps.state_dir,
                            self._transport,
                            self._context.clock,
                            self._renewal,
                        )
                except (DiagnosticError, ApiError) as error:
                    self.errors.failed(("GitSource", name), error, raised=name in required.sources)
                    continue
                made = _Source(repository, trusts[name])
                self._sources.add(name, made, marks.sources[name], stack.pop_all())

    async def _open_sinks(self, marks: Fingerprints, required: Config) -> None:
        for name, sink in marks.config.sinks.items():
            if name in self._branches or self.errors.blocked(
                ("Sink", name), ("GitSource", written_to(sink))
            ):
                continue
            async with AsyncExitStack() as stack:
                try:
                    with self._containment.of(f"Sink {name}"):
                        made = await self._status_branch(name, sink, marks.config, stack)
                except (DiagnosticError, ApiError) as error:
                    self.errors.failed(("Sink", name), error, raised=name in required.sinks)
                    continue
                self._sink_crashed(name, None)
                jobs = [made.outbox.run] if made is not None else []
                self._branches.add(name, made, marks.sinks[name], stack.pop_all(), jobs)

    async def _status_branch(
        self, name: str, sink: Sink, config: Config, stack: AsyncExitStack
    ) -> _Branch | None:
        one = msgspec.structs.replace(config, sinks={name: sink})
        repositories = {n: s.repository for n, s in self._sources.items()}
        opened = await open_status_sinks(
            one, self._context.cluster, repositories, self._context.clock, stack,
            state_dir=self._deps.state_dir, sources=self._renewal, containment=self._containment,
        )  # fmt: skip
        if name not in opened.branches:
            return None
        branch, outbox = opened.branches[name], opened.outboxes[name]
        read = partial(BranchRecords.read, branch.files, config.units, self._context.cluster)
        records = await asyncio.to_thread(read)
        outbox.crashed = partial(self._sink_crashed, name)
        outbox.yields = lambda: self._context.authority.passive
        return _Branch(outbox, branch, records, opened.writers[name])

    # Units ----------------------------------------------------------------------------------

    def _guarded_start(self, name: str, marks: Fingerprints) -> None:
        """Start a unit if nothing is in its way; a crash gets a record that says so."""
        try:
            with self._containment.of(f"Unit {name}"):
                self._start_unit(name, marks)
        except Crashed as error:
            self.errors.failed(("Unit", name), error, raised=False)
        finding = self.errors.get(("Unit", name))
        if finding is not None and finding.concern is Concern.PROGRAM and name not in self.units:
            unit = marks.config.units[name]
            source = marks.config.sources[source_of(unit)]
            with suppress(Crashed), self._containment.of(f"Unit {name}"):
                reporter = self._reporter(unit, None, ref_of(source), sink_of(unit))
                reporter.crashed("start", finding)

    def _start_unit(self, name: str, marks: Fingerprints) -> None:
        unit = marks.config.units[name]
        source, sink = source_of(unit), sink_of(unit)
        if name in self.units or self.errors.blocked(
            ("Unit", name), ("GitSource", source), ("Sink", sink)
        ):
            return
        reader = self._reader(unit)
        assert reader is not None
        past = self._past.pop(name, None)
        reporter = self._reporter(unit, past, ref_of(marks.config.sources[source]), sink)
        sync = UnitReconciler(unit, reader, self._context, reporter)
        if past is not None:
            sync.pruning.inherit(past.pruning)
        self.reporters[name] = reporter
        self.units.add(name, sync, marks.units[name], AsyncExitStack(), [sync.run])

    def _reader(self, unit: Unit) -> Builder | None:
        """Return a builder for a unit; None while its source is not open."""
        name, made = source_of(unit), self._sources.get(source_of(unit))
        if made is None:
            return None
        return Builder(
            repository=made.repository,
            unit=unit,
            gates=self._context.gates,
            cache=self._deps.cache,
            trusted=made.trusted,
            ignore=self.config.sources[name].spec.ignored,
            shared=self._histories.setdefault(made.repository, PathHistory(made.repository)),
        )

    def _reporter(self, unit: Unit, past: RestoredState | None, source: str, sink: str) -> Reporter:
        """Create a reporter that continues from `past`, or from the unit's status branch."""
        around, branch = self._context, self._branches.get(sink)
        sinks = [*self._deps.listeners, self._offer]
        reporter = Reporter(
            unit, around.cluster, source, around.clock, sinks=sinks, containment=self._containment
        )
        if branch is not None:
            reporter.listen(branch.outbox.offer)
        if past is not None:
            reporter.resume(past.record, past.steps)
        elif branch is not None:
            reporter.resume(*branch.records.take(unit.id))
        return reporter

    # Crashes --------------------------------------------------------------------------------

    def _unit_crashed(self, name: str, finding: Finding | None) -> None:
        if name in self.reporters:
            self.reporters[name].crashed("loop", finding)

    def _sink_crashed(self, name: str, finding: Finding | None) -> None:
        """The records of a Sink's units say that it does not write, for as long as it crashes."""
        self._set_crash(("Sink", name), finding)
        self._remark_sink(name, finding)

    def _remark_sink(self, name: str, finding: Finding | None) -> None:
        """Set or remove the warning of a Sink in the records of its units."""
        remark = replace(finding, severity=Severity.WARNING) if finding is not None else None
        for unit, reporter in self.reporters.items():
            if (found := self.config.units.get(unit)) is not None and sink_of(found) == name:
                reporter.remark(f"Sink {name}", remark)

    def _receivers_crashed(self, _: str, finding: Finding | None) -> None:
        for name in self.config.receivers:
            self._receiver_crashed(name, finding)

    def _receiver_crashed(self, name: str, finding: Finding | None) -> None:
        self._set_crash(("Receiver", name), finding)

    def _set_crash(self, name: Name, finding: Finding | None) -> None:
        if self.crashes.get(name) == finding:
            return
        self.crashes.pop(name, None)
        if finding is not None:
            self.crashes[name] = finding
        self._deps.crashed(name)

    def _offer(self, record: UnitRecord) -> None:
        for notifications in self._notifications.values():
            notifications.offer(record)

    # Followers and notifications ------------------------------------------------------------

    def _outer(self, marks: Fingerprints) -> DerivedComponents:
        """Return the inputs of followers and notifications for the current units."""
        sources = {n: m for n, m in marks.sources.items() if self._sources.fits(n, m)}
        units = {n: m for n, m in marks.units.items() if self.units.fits(n, m)}
        return DerivedComponents.of(marks, sources, units)

    async def _open_outer(self, marks: Fingerprints, required: Config) -> None:
        outer = self._outer(marks)
        await self._receivers.keep(outer.endpoints)
        await self._notifications.keep(outer.notifications)
        await self._followers.keep(outer.follows)
        repositories = {n: s.repository for n, s in self._sources.items()}
        for repository in [r for r in self._histories if r not in repositories.values()]:
            del self._histories[repository]
        for place, made_of in outer.follows.items():
            if place not in self._followers:
                self._follow(place, made_of, marks.config)
        for name, made_of in outer.notifications.items():
            if not self.errors.blocked(("Sink", name)):
                await self._open_notifications(name, made_of, marks.config, required)
        if outer.endpoints:
            await self._open_receivers(outer.endpoints[ENDPOINTS], marks.config, required)

    def _follow(self, place: str, made_of: object, config: Config) -> None:
        mine = {n: s for n, s in config.sources.items() if place_of(s) == place}
        here = {n: s for n, s in mine.items() if n in self._sources}
        opened = {n: (self._sources[n].repository, self._sources[n].trusted) for n in here}
        followers = follow(here, opened, self.units, self._follower_deps)
        self._followers.add(place, followers, made_of, AsyncExitStack(), [followers.polling.run])

    async def _open_notifications(
        self, name: str, made_of: object, config: Config, required: Config
    ) -> None:
        running = msgspec.structs.replace(config, units={n: config.units[n] for n in self.units})
        repositories = {n: s.repository for n, s in self._sources.items()}
        units = {n: (u, self.reporters[n]) for n, u in self.units.items()}
        async with AsyncExitStack() as stack:
            try:
                with self._containment.of(f"Sink {name}"):
                    if name in self._notifications and await self._notifications[name].mended():
                        await self._notifications.drop(name)
                    if name not in self._notifications:
                        one = await open_notifications(
                            running, name, self._deps.state_dir, self._context, stack=stack,
                            repositories=repositories, units=units, shard=self._deps.shard,
                        )  # fmt: skip
                        self._remark_sink(name, None)
                        self._notifications.add(name, one, made_of, stack.pop_all(), one.jobs)
                    if self._notifications[name].unopened:
                        raise self._notifications[name].unopened[0].why
            except (DiagnosticError, ApiError) as error:
                found = self.errors.failed(("Sink", name), error, raised=name in required.sinks)
                self._remark_sink(name, replace(found, message=f"Sink {name}: {found.message}"))

    async def _open_receivers(self, made_of: object, config: Config, required: Config) -> None:
        """Serve the receivers that can be; one that could not be is tried again each time."""
        served = self._receivers[ENDPOINTS].urls if ENDPOINTS in self._receivers else {}
        good = {}
        for name, receiver in config.receivers.items():
            needs = [("GitSource", source) for source in listened_for(receiver)]
            if self.errors.blocked(("Receiver", name), *needs):
                continue
            try:
                with self._containment.of(f"Receiver {name}"):
                    if name not in served:
                        await receiver_keys(receiver, self._transport)
            except (DiagnosticError, ApiError) as error:
                self.errors.failed(("Receiver", name), error, raised=name in required.receivers)
                continue
            good[name] = receiver
        if ENDPOINTS in self._receivers and served.keys() == good.keys():
            return
        await self._receivers.keep({})
        here = {n: config.sources[n] for n in self._sources}
        effective = msgspec.structs.replace(config, receivers=good, sources=here)
        async with AsyncExitStack() as stack:
            try:
                with self._containment.of(f"Receivers {', '.join(good)}"):
                    receivers = await open_receivers(
                        effective, self.pollings, self._deps.hooks, self._transport,
                        self._context.clock, stack, pulls=self.notifications.calls(),
                        edge=(self._containment, self._receiver_crashed),
                    )  # fmt: skip
            except (DiagnosticError, ApiError) as error:
                for name in good:
                    wanted = name in required.receivers
                    self.errors.failed(("Receiver", name), error, raised=wanted, shared=True)
                return
            self._receivers_crashed(ENDPOINTS, None)
            jobs = [debounce.run for debounce in receivers.debounces]
            self._receivers.add(ENDPOINTS, receivers, made_of, stack.pop_all(), jobs)
