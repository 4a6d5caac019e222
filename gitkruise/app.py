"""Composition root: builds a running controller out of the rings, and takes it down again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Concern,
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
    BY_CONTROLLER,
    EMBEDDED_HOLDER,
    HEEDS_CANARIES,
    KRUISE,
    LEASE_NAMESPACE,
    OWN,
    STEERED,
    WORKLOADS_LEASE,
    choose_engine,
    hold_workloads,
)
from gitkruise.gitops.cluster.hook_runs import HOOKS, HookRuns
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.config.dependencies import UnitStates
from gitkruise.gitops.containment import Containment
from gitkruise.gitops.notify.factory import Notifications
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.resources.controller import ResourceController
from gitkruise.gitops.resources.declared import ResourceReader, ResourceRules
from gitkruise.gitops.resources.expression_checks import ExpressionChecks
from gitkruise.gitops.resources.informers import CustomResources
from gitkruise.gitops.resources.status_writer import ProblemListener, StatusWriter
from gitkruise.gitops.runtime.removals import UNITS, Removals
from gitkruise.gitops.runtime.removed_units import farewell_of
from gitkruise.gitops.runtime.supervisor import ProcessDeps, Supervisor
from gitkruise.gitops.source.accepted_rewrites import REWRITES, AcceptedRewrites
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.rollout_annotation import Annotator
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.gitops.workers.pool import InProcess, WorkerPool
from gitkruise.kube.cache.leader_election import (
    FencedTransport,
    Lease,
    LeaseName,
    unique_identity,
)
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.crash_reports import FOLDER, CrashReports
from gitkruise.kube.system.lease_terms import DURATION_S, SYNC_LEASE
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.kube.system.state_lock import state_locked
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.planning.unavailable_budget import BUDGET
from gitkruise.model.planning.workload import Workload
from gitkruise.model.planning.workload_spread import SPREAD
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.canary_steering import CANARY_STEERING
from gitkruise.planner.workloads import CLONESET, EMBEDDED, WORKLOADS, node_workloads
from gitkruise.webhook.service import WebhookOptions, serve_webhooks
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import ResourceRef

log = logging.getLogger(__name__)
MEND_S: Final = 30.0  # before something that crashed at its start is started again
_SECRETS = ResourceRef("", "v1", "secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one controller process. `cluster` names the status branch.

    `listeners` hear every new record, `problems` why an object of the cluster does not run;
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


@asynccontextmanager
async def controller(
    options: RunOptions, transport: Transport, clock: Clock
) -> AsyncIterator[RunningController]:
    """Everything that follows git and drives the cluster, while the body runs.

    Waits until it leads. Raises ClusterFailed, SourceFailed or ApiError when it cannot start; on
    the way out records not written yet are written once more.
    """
    async with AsyncExitStack() as stack:
        me = stack.enter_context(_alone(options, clock))
        meter = None
        if options.metrics is not None:
            from gitkruise.gitops.telemetry.server import metered  # noqa: PLC0415  prometheus_client

            public = not options.metrics.loopback
            metering = metered(options.metrics, transport, clock, public=public)
            meter = await stack.enter_async_context(metering)
            transport = meter.transport
            options = replace(options, listeners=(*options.listeners, meter.metrics.hear))
        me.options = options
        authority = WriteAuthority(me.sync_lease(transport, clock))
        workers, cache = _workers(options, stack), await _parse_cache(options, stack)
        containment = Containment(CrashReports(options.state_dir / FOLDER))
        live = LiveView(authority.fence(transport), clock, containment)
        await live.discover()
        if options.webhook is not None:
            serving = serve_webhooks(options.webhook, transport, load_catalog(), clock)
            await stack.enter_async_context(serving)
        failed: DiagnosticError | ApiError | None = None
        async with asyncio.TaskGroup() as tasks:
            program = _Program(
                me, live=live, authority=authority, clock=clock, containment=containment,
                tasks=tasks, workers=workers,
            )  # fmt: skip
            stack.push_async_callback(program.close)
            try:
                running = await program.start(transport, cache)
                if meter is not None:
                    meter.started(running.fleet)
                    running = replace(running, metrics=meter.url)
            except (DiagnosticError, ApiError) as error:
                failed = error  # raised as it is, not in the group of the other tasks' errors
            else:
                yield running
            finally:
                await program.rest()
        if failed is not None:
            raise failed
        await _write_last(program.outboxes, containment)


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


@dataclass(slots=True)
class _Process:
    """This process among others: its options, and the identity by which leases name it."""

    options: RunOptions
    identity: str
    predecessor: str = ""  # that of the process that had our state directory, and has ended

    def sync_lease(self, transport: Transport, clock: Clock) -> Lease:
        """The lease of the process that applies. A pass that a person asked for skips the wait."""
        urgent = not self.options.acts
        return Lease(self.lease(self.options.lease), transport, clock, urgent=urgent)

    def lease(self, name: str) -> LeaseName:
        return LeaseName(
            namespace=LEASE_NAMESPACE,
            name=name,
            identity=self.identity,
            predecessor=self.predecessor,
            duration_s=self.options.lease_s,
            keeper=EMBEDDED_HOLDER,
        )


@contextmanager
def _alone(options: RunOptions, clock: Clock) -> Iterator[_Process]:
    """A process that has its state directory alone. Raises ClusterFailed GK4118 or GK4111."""
    identity = unique_identity(options.identity, clock.seed)
    with state_locked(options.state_dir, identity) as predecessor:
        yield _Process(options, identity, predecessor)


class _Program:
    """One controller from its start to its end. What it does runs in `tasks`."""

    def __init__(
        self, me: _Process, *, live: LiveView, authority: WriteAuthority, clock: Clock,
        containment: Containment, tasks: asyncio.TaskGroup, workers: Workers,
    ) -> None:  # fmt: skip
        self._me, self._options, self._tasks = me, me.options, tasks
        self._live, self._authority = live, authority
        self._clock, self._containment = clock, containment
        self._workers = workers
        self._jobs: list[asyncio.Task[None]] = []
        self._leading: list[asyncio.Task[None]] = []
        self._fleet: Supervisor | None = None

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        return self._fleet.outboxes if self._fleet is not None else {}

    async def start(self, transport: Transport, cache: ParseCache) -> RunningController:
        """Start everything. Raises DiagnosticError or ApiError when it cannot start."""
        options, live = self._options, self._live
        clock, containment = self._clock, self._containment
        workloads = await self._begun(transport)
        resources = CustomResources(live, clock)
        status_writer = StatusWriter(resources, clock, containment, options.problems)
        resource_controller, config = None, options.config
        if options.custom is not None:
            checks, base = ExpressionChecks(self._workers), options.config
            reading = ResourceReader(base, options.custom, checks, containment)
            around = (status_writer, clock, containment)
            resource_controller = ResourceController(base, resources, reading, *around)
            await self._listed(resources)
            config = await resource_controller.begin()
        engine = await choose_engine(live.transport, _engines(config, options), clock.now())
        context = UnitContext(
            live=live, clock=clock, cluster=options.cluster, gates=options.gates, engine=engine,
            by_hand=not options.acts, containment=containment, authority=self._authority,
            workers=self._workers, hooks=HookRuns(self._remembered(HOOKS), self._authority),
            analysis=AnalysisMemory(self._remembered(ANALYSIS, "analysis"), self._authority),
            charts=open_charts(options.state_dir, clock),
        )  # fmt: skip
        annotator = Annotator(live)
        deps = ProcessDeps(
            state_dir=options.state_dir, listen=options.listen, cache=cache,
            rewrites=AcceptedRewrites(self._remembered(REWRITES)),
            listeners=(*options.listeners, annotator.offer, status_writer.hear),
            moved=status_writer.moved, crashed=status_writer.crashed, acts=options.acts,
        )  # fmt: skip
        fleet = self._fleet = Supervisor(deps, context, self._tasks)
        self._run(("the watches", live.run), ("annotations", annotator.run))
        await fleet.reconcile(config, required=options.config)
        if engine == OWN:
            drive = partial(_drive, options.gates, workloads, live, transport, clock)
            self._run(("the workload controllers", drive))
        removals = Removals(self._remembered(UNITS), options.config.origin)
        finalizer = await farewell_of(
            options.config.units, fleet, context, options.listeners, removals
        )
        self._run(("units that left", finalizer.run))
        if resource_controller is not None:
            follow = partial(resource_controller.run, fleet, finalizer, engine)
            self._run(("statuses", status_writer.run), ("custom resources", follow))
        else:
            self._run(("the configuration", partial(_mend, fleet, config, clock)))
        return RunningController(
            live=live, fleet=fleet, engine=engine, standings=context.standings,
            custom=resources.units(),
        )  # fmt: skip

    async def _begun(self, transport: Transport) -> Lease:
        """Wait until this process leads; return the lease of the workloads, followed until then."""
        leading = ("the lease", partial(self._authority.run, self._clock), self._clock)
        keeping = self._containment.keep(*leading, lambda _: None)
        self._leading.append(self._tasks.create_task(keeping))
        workloads = Lease(self._me.lease(WORKLOADS_LEASE), transport, self._clock)
        self._run(("the lease of the workloads", workloads.observe))
        await self._authority.leading()
        self._jobs.pop().cancel()
        return workloads

    def _remembered(self, annotation: str, lease: str = "units") -> LeaseAnnotation:
        """A memory of units, which later processes with the same lease share."""
        return LeaseAnnotation(
            transport=self._live.transport,
            namespace=LEASE_NAMESPACE,
            name=f"{self._options.lease}-{lease}",
            annotation=annotation,
            cluster=self._options.cluster,
        )

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

    async def rest(self) -> None:
        """Stop all jobs."""
        for job in self._jobs:
            job.cancel()
        if self._fleet is not None:
            await self._fleet.rest()
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


async def _mend(fleet: Supervisor, config: Config, clock: Clock) -> None:
    """Try again, for ever, to start what crashed when it was started."""
    while True:
        await clock.sleep(MEND_S)
        if any(finding.concern is Concern.PROGRAM for finding in fleet.errors.values()):
            await fleet.reconcile(config)


def driven(catalog: Catalog, gates: Gates) -> tuple[Workload[Any], ...]:
    """The workloads we drive in a cluster: CloneSets, and of the others those it serves.

    Deployments are driven by the cluster's own controller, which we lead to their canaries.
    Requests to node agents are among them: the cluster has no OpenKruise where we drive.
    """

    def served(kind: GroupKind) -> bool:
        return catalog.stored(kind) is not None

    def watching(workload: Workload[Any]) -> Workload[Any]:
        kept = {kind: find for kind, find in workload.watches.items() if served(kind)}
        return workload if len(kept) == len(workload.watches) else replace(workload, watches=kept)

    gated = {BUDGET: gates.budgets_pods, SPREAD: gates.workload_spread}
    wanted = (w for w in WORKLOADS if gated.get(w.kind, True))
    pods = tuple(watching(w) for w in wanted if w is CLONESET or served(w.kind))
    canaries = (CANARY_STEERING,) if served(CANARY_STEERING.kind) else ()
    nodes = (w for w in node_workloads(gates) if all(map(served, (w.kind, *w.owns, *w.watches))))
    return (*pods, *canaries, *nodes)


async def _drive(
    gates: Gates, lease: Lease, live: LiveView, transport: Transport, clock: Clock
) -> None:
    """Run our workload controllers while we hold `lease`, which fences all that they write."""
    while True:
        able = {HEEDS_CANARIES: STEERED} if live.catalog.stored(CLONESET.kind) else {}
        try:
            async with lease.held(able):
                workloads = Controllers(
                    driven(live.catalog, gates), FencedTransport(transport, lease),
                    live.catalog, clock, ControllerOptions(gates=gates),
                    live.share_workloads(),
                )  # fmt: skip
                await workloads.run()
        except* (ClusterFailed, ApiError) as lost:
            log.warning(log_line("controllers-stopped", error=lost.exceptions[0]))
        await clock.sleep(1.0)


async def sandbox_controllers(transport: Transport, clock: Clock, gates: Gates) -> None:
    """OpenKruise's controllers and Kubernetes' own inside an embedded cluster, until cancelled."""
    await _drive_inside(EMBEDDED, transport, clock, gates, {HEEDS_CANARIES: BY_CONTROLLER})


async def kruise_controllers(transport: Transport, clock: Clock, gates: Gates) -> None:
    """OpenKruise's controllers alone: Kubernetes' own are the outside's, as its nodes are."""
    await _drive_inside((*WORKLOADS, *node_workloads(gates)), transport, clock, gates, {})


async def _drive_inside(
    workloads: Sequence[Workload[Any]], transport: Transport, clock: Clock, gates: Gates,
    marks: Mapping[str, str],
) -> None:  # fmt: skip
    """Drive `workloads` of an embedded cluster; `marks` say what they can do.

    They hold the workloads lease for good (no process can take it over), so that a
    `gitkruise run` on this cluster sees who drives its pods and does not drive them too.
    """
    await hold_workloads(transport, clock.now(), marks)
    controllers = Controllers(
        workloads, transport, load_catalog(), clock, ControllerOptions(gates=gates)
    )
    await controllers.run()
