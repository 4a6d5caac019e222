"""Composition root: builds a running controller out of the rings, and takes it down again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitkruise.driving import drive
from gitkruise.errors import (
    ApiError,
    DiagnosticError,
    Finding,
    GitkruiseError,
    UsageProblem,
)
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.parsing.parse_cache_db import ParsedStore
from gitkruise.gitops.analysis.memory import ANALYSIS, AnalysisMemory
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.charts.fetcher import open_charts
from gitkruise.gitops.cluster.engine import (
    AUTO,
    KRUISE,
    LEASE_NAMESPACE,
    OWN,
    WORKLOADS_LEASE,
    ManagerWatch,
    choose_engine,
)
from gitkruise.gitops.cluster.hook_runs import HOOKS, HookRuns
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.live_cache import WATCHES, LiveView
from gitkruise.gitops.cluster.shard_leases import refuse_pass, refuse_shards
from gitkruise.gitops.cluster.shard_states import ShardStates
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.config.dependencies import UnitStates
from gitkruise.gitops.containment import Containment
from gitkruise.gitops.notify.factory import Notifications
from gitkruise.gitops.receiver.server import HookAddress
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.resources.controller import ResourceController
from gitkruise.gitops.resources.declared import ResourceReader, ResourceRules
from gitkruise.gitops.resources.expression_checks import ExpressionChecks
from gitkruise.gitops.resources.informers import CustomResources
from gitkruise.gitops.resources.status_writer import ProblemListener, StatusWriter
from gitkruise.gitops.runtime.components import ProcessDeps
from gitkruise.gitops.runtime.finalizer import UnitFinalizer
from gitkruise.gitops.runtime.removals import UNITS, Removals
from gitkruise.gitops.runtime.removed_units import end_removed
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.gitops.source.accepted_rewrites import REWRITES, AcceptedRewrites
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.rollout_annotation import Annotator
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.gitops.workers.pool import InProcess, WorkerPool
from gitkruise.kube.cache.leader_election import Lease, unique_identity
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.crash_reports import FOLDER, CrashReports
from gitkruise.kube.system.lease_terms import DURATION_S, EMBEDDED_HOLDER, SYNC_LEASE, LeaseName
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.kube.system.state_lock import state_locked
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.shards import WHOLE, Shard
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.webhook.service import WebhookOptions, serve_webhooks
from gitkruise.wire.primitives.log_line import log_line

if TYPE_CHECKING:  # imports prometheus_client
    from gitkruise.gitops.telemetry.server import Meter

log = logging.getLogger(__name__)
MEND_S: Final = 30.0  # before something that could not be started is tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one controller process. `cluster` names the status branch.

    `listeners` receive every new record, `problems` why an object of the cluster does not run;
    `identity` names the machine, and every process adds a part of its own. Processes with the same
    `lease` replace each other: one applies, the others take over `lease_s` after its last renewal.
    """

    config: Config
    cluster: str
    state_dir: Path
    identity: str
    lease: str = SYNC_LEASE
    lease_s: float = DURATION_S
    gates: Gates = field(default_factory=Gates)
    listeners: tuple[Callable[[UnitRecord], None], ...] = ()
    problems: ProblemListener = lambda *_: None
    listen: Listen = field(default_factory=Listen)  # for web hooks, where a Receiver wants them
    webhook: WebhookOptions | None = None  # admission, served next to everything else
    custom: ResourceRules | None = None  # also what objects of the cluster declare, by these rules
    acts: bool = True  # whether promotions go on; without, it is one pass a person asked for
    metrics: Listen | None = None  # for Prometheus, and probes
    processes: int = 0  # that read what repositories hold; 0: threads of this one do
    shard: Shard = WHOLE  # the part of the units and workloads that this program has


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningController:
    """A controller that is up: what drives each unit and writes each branch."""

    live: LiveView
    fleet: Supervisor
    engine: str
    standings: UnitStates
    custom: int | None  # units that are objects of the cluster at the start; None if not known
    metrics: str = ""  # where they are served

    @property
    def units(self) -> Mapping[str, UnitReconciler]:
        return self.fleet.units

    @property
    def reporters(self) -> Mapping[str, Reporter]:
        return self.fleet.reporters

    @property
    def pollings(self) -> Mapping[str, Polling]:
        """By source; sources of one repository share theirs."""
        return self.fleet.pollings

    @property
    def followers(self) -> Mapping[str, SourceFollower]:
        """By source."""
        return self.fleet.followers

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """By sink."""
        return self.fleet.outboxes

    @property
    def notifications(self) -> Notifications:
        return self.fleet.notifications

    @property
    def hooks(self) -> Mapping[str, str]:
        """URL of each Receiver."""
        return self.fleet.hooks


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """This process among others, and everything that exists once in it.

    `identity` names it in leases, `predecessor` is that of the process that had our state directory
    and has ended. `transport` counts requests where metrics are served.
    """

    options: RunOptions
    identity: str
    predecessor: str
    transport: Transport
    clock: Clock
    containment: Containment
    workers: Workers
    cache: ParseCache
    hooks: HookAddress
    meter: Meter | None

    def lease(self, name: str) -> LeaseName:
        return LeaseName(
            namespace=LEASE_NAMESPACE,
            name=name,
            identity=self.identity,
            predecessor=self.predecessor,
            duration_s=self.options.lease_s,
            keeper=EMBEDDED_HOLDER,
        )

    def sync_lease(self) -> Lease:
        """The lease of the process that applies. A pass that a person asked for skips the wait."""
        name = replace(
            self.lease(self.options.lease),
            rival=refuse_shards if self.options.acts else refuse_pass,
        )
        return Lease(name, self.transport, self.clock, urgent=not self.options.acts)


@asynccontextmanager
async def controller(
    options: RunOptions, transport: Transport, clock: Clock
) -> AsyncIterator[RunningController]:
    """Everything that follows git and drives the cluster, while the body runs.

    Waits until it leads. Raises ClusterFailed, SourceFailed or ApiError when it cannot start; on
    the way out records not written yet are written once more.
    """
    async with process(options, transport, clock) as me:
        workloads = me.lease(WORKLOADS_LEASE)
        authority = WriteAuthority(me.sync_lease())
        async with program(me, me.options, authority, me.transport, workloads) as running:
            if me.meter is None:
                yield running
            else:
                me.meter.started(running.fleet)
                yield replace(running, metrics=me.meter.url)


@asynccontextmanager
async def process(
    options: RunOptions, transport: Transport, clock: Clock
) -> AsyncIterator[Process]:
    """A process that has its state directory alone. Raises ClusterFailed GK4118 or GK4111."""
    async with AsyncExitStack() as stack:
        identity = unique_identity(options.identity, clock.seed)
        predecessor = stack.enter_context(state_locked(options.state_dir, identity))
        meter = None
        if options.metrics is not None:
            from gitkruise.gitops.telemetry.server import metered  # noqa: PLC0415  prometheus_client

            public = not options.metrics.loopback
            metering = metered(options.metrics, transport, clock, public=public)
            meter = await stack.enter_async_context(metering)
            transport = meter.transport
            options = replace(options, listeners=(*options.listeners, meter.metrics.receive))
        workers, cache = _workers(options, stack), await _parse_cache(options, stack)
        if options.webhook is not None:
            serving = serve_webhooks(options.webhook, transport, load_catalog(), clock)
            await stack.enter_async_context(serving)
        containment = Containment(CrashReports(options.state_dir / FOLDER))
        yield Process(
            options=options, identity=identity, predecessor=predecessor, transport=transport,
            clock=clock, containment=containment, workers=workers, cache=cache, meter=meter,
            hooks=HookAddress(options.listen),
        )  # fmt: skip


@asynccontextmanager
async def program(
    me: Process, options: RunOptions, authority: WriteAuthority, transport: Transport,
    workloads: LeaseName, states: ShardStates | None = None,
) -> AsyncIterator[RunningController]:  # fmt: skip
    """Everything that follows git and drives the cluster for one shard, while the body runs.

    It writes through `transport` and while `authority` allows it; pods it drives under the lease
    `workloads` as well. Waits until it leads; raises what `controller` does.
    """
    live = LiveView(authority.fence(transport), me.clock, me.containment)
    await live.discover()
    failed: DiagnosticError | ApiError | None = None
    async with AsyncExitStack() as stack:
        async with asyncio.TaskGroup() as tasks:
            running = _Program(
                me, options, live=live, authority=authority, tasks=tasks, states=states
            )
            stack.push_async_callback(running.close)
            try:
                started = await running.start(transport, workloads)
            except (DiagnosticError, ApiError) as error:
                failed = error  # raised as it is, not in the group of the other tasks' errors
            else:
                yield started
            finally:
                await running.rest()
        if failed is not None:
            raise failed
        await _write_last(running.outboxes, me.containment)


async def _write_last(outboxes: Mapping[str, Outbox], containment: Containment) -> None:
    """Write the pending records, as far as possible."""
    for outbox in outboxes.values():
        try:
            with containment.of("the last records"):
                await outbox.flush()
        except GitkruiseError as error:
            log.warning(log_line("records-not-written", error=error))


async def _parse_cache(options: RunOptions, stack: AsyncExitStack) -> ParseCache:
    store = await asyncio.to_thread(ParsedStore, options.state_dir / "parsed.sqlite")
    stack.callback(store.close)
    return ParseCache(store=store)


def _workers(options: RunOptions, stack: AsyncExitStack) -> Workers:
    """Workers that read the content of repositories; processes end with `stack`."""
    if not options.processes:
        return InProcess()
    pool = WorkerPool(options.state_dir, options.processes)
    stack.callback(pool.close)
    pool.start()
    return pool


class _Program:
    """One controller from its start to its end. What it does runs in `tasks`."""

    def __init__(
        self, me: Process, options: RunOptions, *, live: LiveView, authority: WriteAuthority,
        tasks: asyncio.TaskGroup, states: ShardStates | None,
    ) -> None:  # fmt: skip
        self._options, self._tasks, self._states = options, tasks, states
        self._live, self._authority = live, authority
        self._clock, self._containment = me.clock, me.containment
        self._workers, self._cache, self._transport = me.workers, me.cache, me.transport
        self._hooks = me.hooks
        self._jobs: list[asyncio.Task[None]] = []
        self._leading: list[asyncio.Task[None]] = []
        self._fleet: Supervisor | None = None

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        return self._fleet.outboxes if self._fleet is not None else {}

    async def start(self, transport: Transport, lease: LeaseName) -> RunningController:
        """Start everything. Raises DiagnosticError or ApiError when it cannot start."""
        options, live = self._options, self._live
        clock, containment = self._clock, self._containment
        workloads = await self._begun(lease)
        resources = CustomResources(live, clock)
        status_writer = StatusWriter(resources, clock, containment, options.problems, options.shard)
        resource_controller, config = None, options.config
        if options.custom is not None:
            checks, base = ExpressionChecks(self._workers), options.config
            reading = ResourceReader(base, options.custom, checks, containment)
            around = (status_writer, clock, containment)
            resource_controller = ResourceController(
                base, resources, reading, *around, shard=options.shard
            )
            await self._listed(resources)
            config = await resource_controller.begin()
        engine = await choose_engine(live.transport, _engines(config, options), clock)
        context = UnitContext(
            live=live, clock=clock, cluster=options.cluster, gates=options.gates, engine=engine,
            by_hand=not options.acts, containment=containment, authority=self._authority,
            workers=self._workers, hooks=HookRuns(self._remembered(HOOKS), self._authority),
            analysis=AnalysisMemory(self._remembered(ANALYSIS, "analysis"), self._authority),
            charts=open_charts(options.state_dir, clock),
        )  # fmt: skip
        annotator = Annotator(live, clock)
        deps = ProcessDeps(
            state_dir=options.state_dir, hooks=self._hooks, cache=self._cache,
            rewrites=AcceptedRewrites(self._remembered(REWRITES)),
            listeners=(*options.listeners, annotator.offer, status_writer.receive),
            shard=options.shard, states=self._states,
            moved=status_writer.moved, crashed=status_writer.crashed, acts=options.acts,
        )  # fmt: skip
        fleet = self._fleet = Supervisor(deps, context, self._tasks)
        self._run(("the watches", live.run), ("annotations", annotator.run))
        await fleet.reconcile(config, required=options.config)
        if self._states is not None:
            self._run(("units of other shards", fleet.foreign.run))
        driving = partial(
            drive, options.gates, workloads, live, self._driving(transport), clock,
            shard=options.shard, engine=engine,
        )  # fmt: skip
        watch = partial(
            ManagerWatch(engine, transport, clock).run, partial(_changed, live, resources)
        )
        self._run(("the engine", watch), ("the workload controllers", driving))
        finalizer = self._ending(fleet, context)
        if resource_controller is not None:
            follow = partial(resource_controller.run, fleet, finalizer, engine)
            self._run(("statuses", status_writer.run), ("custom resources", follow))
        else:
            self._run(("the configuration", partial(_mend, fleet, config, clock)))
        return RunningController(
            live=live, fleet=fleet, engine=engine.name, standings=context.standings,
            custom=resources.units(),
        )  # fmt: skip

    def _ending(self, supervisor: Supervisor, context: UnitContext) -> UnitFinalizer:
        """Start the work that ends units: those that left, and those removed before the start."""
        options = self._options
        removals = Removals(self._remembered(UNITS), options.config.origin, shard=options.shard)
        finalizer = UnitFinalizer(
            lambda: [unit.pruning for unit in supervisor.units.values()],
            context, options.listeners, supervisor.foreign.known, supervisor.promotions.left,
        )  # fmt: skip
        units = options.config.units
        recall = partial(end_removed, units, supervisor, context, removals, finalizer)
        self._run(
            ("units that left", finalizer.run),
            ("removed units, which keep their objects until then", recall),
        )
        return finalizer

    async def _begun(self, lease: LeaseName) -> Lease:
        """Wait until this process leads; return the lease of the workloads, followed until then."""
        leading = ("the lease", partial(self._authority.run, self._clock), self._clock)
        keeping = self._containment.keep(*leading, lambda _: None)
        self._leading.append(self._tasks.create_task(keeping))
        workloads = Lease(lease, self._transport, self._clock)
        self._run(("the lease of the workloads", workloads.observe))
        await self._authority.leading()
        self._jobs.pop().cancel()
        return workloads

    def _remembered(self, annotation: str, lease: str = "units") -> LeaseAnnotation:
        """A memory of units, which later processes with the same lease share."""
        return LeaseAnnotation(
            transport=self._live.transport, namespace=LEASE_NAMESPACE,
            name=f"{self._options.lease}-{lease}", annotation=annotation,
            cluster=self._options.cluster,
        )  # fmt: skip

    async def _listed(self, resources: CustomResources) -> None:
        """Follow the objects of the cluster, and know them all where it serves them."""
        if not resources.look_for() and not self._options.config.units:
            raise UsageProblem(_NOTHING_TO_FOLLOW)
        self._run(("custom resources", resources.run))
        await resources.listed()

    def _run(self, *jobs: tuple[str, Callable[[], Awaitable[None]]]) -> None:
        """Run jobs; one that crashes is run again."""
        keep = self._containment.keep
        for subject, job in jobs:
            task = self._tasks.create_task(keep(subject, job, self._clock, lambda _: None))
            self._jobs.append(task)

    def _driving(self, transport: Transport) -> Transport:
        """The way to the cluster of the workload controllers: without other shards, the lease of
        the workloads is all that fences it."""
        return transport if self._options.shard.is_whole else self._authority.fence(transport)

    async def rest(self) -> None:
        """Stop all jobs. A shard is handed back between two writes, and with its records written:
        those of the next holder must be newer."""
        if not self._options.shard.is_whole:
            await self._authority.drain()
        for job in self._jobs:
            job.cancel()
        if self._fleet is not None:
            await self._fleet.rest()
        if not self._options.shard.is_whole:
            await _write_last(self.outboxes, self._containment)
        for job in self._leading:  # the last: the next leader finds no write of ours on its way
            job.cancel()

    async def close(self) -> None:
        """Close what is open."""
        if self._fleet is not None:
            await self._fleet.close()


def _engines(config: Config, options: RunOptions) -> set[str]:
    """Return the engines that units ask for.

    Objects of the cluster do not keep a process from starting: their engine is used when it is
    available, and units that ask for another report that it is not.
    """
    units = options.config.units or config.units
    engines: set[str] = {unit.spec.workloads.engine for unit in units.values()}
    if options.custom is None or options.config.units:
        return engines or {OWN}
    return {KRUISE} if engines - {AUTO} == {KRUISE} else {AUTO}


_NOTHING_TO_FOLLOW: Final = Finding(
    code="GK7001",
    message="there is no configuration, and this cluster does not serve gitkruise's kinds",
    notes=(
        ("next", "name a file: --config gitkruise.yaml"),
        ("or", "gitkruise install --crds, and kubectl apply your GitSource and Unit"),
    ),
)


def _changed(live: LiveView, resources: CustomResources) -> None:
    """Have everything look again: another engine drives the pods."""
    live.changes.notify((WATCHES,))
    resources.changed.set()


async def _mend(supervisor: Supervisor, config: Config, clock: Clock) -> None:
    """Try again, for ever, to start what could not be started."""
    while True:
        supervisor.errors.log_waiting(supervisor.hooks)
        await clock.sleep(MEND_S)
        if supervisor.errors:
            await supervisor.reconcile(config)
