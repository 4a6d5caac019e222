"""Composition root: builds a running controller out of the rings, and takes it down again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gitkruise.controller.controllers import Controllers
from gitkruise.controller.controllers import Options as ControllerOptions
from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Finding,
    NotFound,
    Reported,
    SourceFailed,
    UsageProblem,
)
from gitkruise.git.manifests import ParseCache
from gitkruise.git.parsed_store import ParsedStore
from gitkruise.gitops.annotate import Annotator
from gitkruise.gitops.custom.declared import Reading, Rules
from gitkruise.gitops.custom.keeper import Keeper
from gitkruise.gitops.custom.steward import Steward
from gitkruise.gitops.custom.watching import CustomResources
from gitkruise.gitops.engine import AUTO, KRUISE, OWN, choose_engine
from gitkruise.gitops.farewell import Departed, Farewell
from gitkruise.gitops.fleet import Fleet, Home
from gitkruise.gitops.gate import Standings
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.polling import Polling
from gitkruise.gitops.reporter import Reporter
from gitkruise.gitops.resume import departed
from gitkruise.gitops.source import SourceFollower
from gitkruise.gitops.sync import Surroundings, UnitSync
from gitkruise.gitops.telling.assembly import Telling
from gitkruise.gitops.writeback import Outbox
from gitkruise.kube.clock import Clock
from gitkruise.kube.data import load_catalog
from gitkruise.kube.lease import LEASES, Lease, LeaseName
from gitkruise.kube.listening import Listen
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Config
from gitkruise.model.record import UnitRecord
from gitkruise.model.settings import Gates
from gitkruise.model.workload import Workload
from gitkruise.planner.workloads import CLONESET, EMBEDDED, WORKLOADS
from gitkruise.webhook.service import WebhookOptions, serve_webhooks
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.paths import get
from gitkruise.wire.request import APPLY_PATCH, ApiRequest, ResourceRef
from gitkruise.wire.times import format_micro_time

log = logging.getLogger(__name__)
LEASE_NAMESPACE, LEASE_NAME = "kube-system", "gitkruise-workloads"
_SECRETS = ResourceRef("", "v1", "secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What one controller process does. `cluster` names the status branch; `listeners` hear
    every new record; `identity` tells replicas apart."""

    config: Config
    cluster: str
    state_dir: Path
    identity: str
    gates: Gates = field(default_factory=Gates)
    listeners: tuple[Callable[[UnitRecord], None], ...] = ()
    listen: Listen = field(default_factory=Listen)  # for web hooks, where a Receiver wants them
    webhook: WebhookOptions | None = None  # admission, served beside everything else
    custom: Rules | None = None  # also what objects of the cluster declare, by these rules
    acts: bool = True  # whether promotions go on; without, it is one pass a person asked for
    metrics: Listen | None = None  # for Prometheus, and probes


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A controller that is up: what drives each unit and writes each branch."""

    live: LiveView
    fleet: Fleet
    engine: str
    standings: Standings
    custom: bool  # whether objects of the cluster are followed as well
    metrics: str = ""  # where they are served

    @property
    def units(self) -> Mapping[str, UnitSync]:
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
    def telling(self) -> Telling:
        return self.fleet.telling

    @property
    def hooks(self) -> Mapping[str, str]:
        """Where each Receiver listens."""
        return self.fleet.hooks


@asynccontextmanager
async def controller(
    options: RunOptions, transport: Transport, clock: Clock
) -> AsyncIterator[Running]:
    """Everything that follows git and drives the cluster, while the body runs.

    Raises ClusterFailed, SourceFailed or ApiError when it cannot start; on the way out records
    not written yet are written once more.
    """
    async with AsyncExitStack() as stack:
        meter = None
        if options.metrics is not None:
            from gitkruise.gitops.scraping import metered  # noqa: PLC0415  prometheus_client

            public = not options.metrics.loopback
            metering = metered(options.metrics, transport, clock, public=public)
            meter = await stack.enter_async_context(metering)
            transport = meter.transport
            options = replace(options, listeners=(*options.listeners, meter.metrics.hear))
        live = LiveView(transport, clock)
        await live.discover()
        store = await asyncio.to_thread(ParsedStore, options.state_dir / "parsed.sqlite")
        stack.callback(store.close)
        if options.webhook is not None:
            serving = serve_webhooks(options.webhook, transport, load_catalog(), clock)
            await stack.enter_async_context(serving)
        failed: Reported | ApiError | None = None
        async with asyncio.TaskGroup() as tasks:
            program = _Program(options, live, clock, tasks)
            stack.push_async_callback(program.close)
            try:
                running = await program.start(transport, ParseCache(store=store))
                if meter is not None:
                    meter.started(running.fleet)
                    running = replace(running, metrics=meter.url)
            except (Reported, ApiError) as error:
                failed = error  # told as it is, not as that of one task among others
            else:
                yield running
            finally:
                await program.rest()
        if failed is not None:
            raise failed
        for outbox in program.outboxes.values():
            try:
                await outbox.flush()
            except SourceFailed as error:
                log.warning("the last records are not in git: %s", error)


class _Program:
    """One controller from its start to its end. What it does runs in `tasks`."""

    def __init__(
        self, options: RunOptions, live: LiveView, clock: Clock, tasks: asyncio.TaskGroup
    ) -> None:
        self._options, self._live, self._clock, self._tasks = options, live, clock, tasks
        self._jobs: list[asyncio.Task[None]] = []
        self._fleet: Fleet | None = None

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        return self._fleet.outboxes if self._fleet is not None else {}

    async def start(self, transport: Transport, cache: ParseCache) -> Running:
        """Everything up and running. Raises Reported or ApiError when it cannot start."""
        options, live, clock = self._options, self._live, self._clock
        resources = CustomResources(live, clock)
        keeper = Keeper(resources, clock)
        steward = None
        if options.custom is not None:
            reading = Reading(options.config, options.custom)
            steward = Steward(options.config, resources, reading, keeper, clock)
            await self._listed(resources)
        config = options.config if steward is None else steward.begin()
        engine = await choose_engine(live.transport, _engines(config, options), clock.now())
        around = Surroundings(
            live=live, clock=clock, cluster=options.cluster, gates=options.gates, engine=engine,
            by_hand=not options.acts,
        )  # fmt: skip
        annotator = Annotator(live)
        home = Home(
            state_dir=options.state_dir,
            listen=options.listen,
            cache=cache,
            listeners=(*options.listeners, annotator.offer, keeper.hear),
            moved=keeper.moved,
            acts=options.acts,
        )
        fleet = self._fleet = Fleet(home, around, self._tasks)
        self._run(live.run(), annotator.run())
        await fleet.become(config, sure=options.config)
        if engine == OWN:
            self._run(_drive(options, live, transport, clock))
        farewell = _farewell(options, fleet, around)
        self._run(farewell.run())
        if steward is not None:
            self._run(keeper.run(), steward.run(fleet, farewell, engine))
        return Running(
            live=live,
            fleet=fleet,
            engine=engine,
            standings=around.standings,
            custom=resources.served,
        )

    async def _listed(self, resources: CustomResources) -> None:
        """Follow the objects of the cluster, and know them all where it serves them."""
        if not resources.look_for() and not self._options.config.units:
            raise UsageProblem(_NOTHING_TO_FOLLOW)
        self._run(resources.run())
        await resources.listed()

    def _run(self, *jobs: Coroutine[Any, Any, None]) -> None:
        self._jobs += [self._tasks.create_task(job) for job in jobs]

    async def rest(self) -> None:
        """Stop whatever runs."""
        for job in self._jobs:
            job.cancel()
        if self._fleet is not None:
            await self._fleet.rest()

    async def close(self) -> None:
        """Let go of what is open."""
        if self._fleet is not None:
            await self._fleet.close()


def _engines(config: Config, options: RunOptions) -> set[str]:
    """Those that units ask for. Objects do not keep a process from starting: theirs counts when
    it can be had, and the others are told that it cannot."""
    units = options.config.units or config.units
    wishes: set[str] = {unit.spec.workloads.engine for unit in units.values()}
    if options.custom is None or options.config.units:
        return wishes or {OWN}
    return {KRUISE} if wishes - {AUTO} == {KRUISE} else {AUTO}


_NOTHING_TO_FOLLOW: Final = Finding(
    code="GK7001",
    message="there is no configuration, and this cluster does not serve gitkruise's kinds",
    notes=(
        ("next", "name a file: --config gitkruise.yaml"),
        ("or", "gitkruise install --crds, and kubectl apply your GitSource and Unit"),
    ),
)


def _farewell(options: RunOptions, fleet: Fleet, around: Surroundings) -> Farewell:
    """The end of units that the branches know and the configuration does not."""
    left = [
        Departed(record=record, offer=outbox.offer, forget=outbox.forget)
        for sink, outbox in fleet.outboxes.items()
        for record in departed(fleet.told[sink], fleet.config.units, options.cluster)
    ]
    return Farewell(
        left, lambda: [unit.pruning for unit in fleet.units.values()], around, options.listeners
    )


def driven(catalog: Catalog) -> tuple[Workload[Any], ...]:
    """The workloads we drive in a cluster: CloneSets, and of the others those it serves."""
    return tuple(w for w in WORKLOADS if w is CLONESET or catalog.stored(w.kind) is not None)


async def _drive(options: RunOptions, live: LiveView, transport: Transport, clock: Clock) -> None:
    """Run our workload controllers while we hold the lease; wait for it otherwise."""
    while True:
        name = LeaseName(namespace=LEASE_NAMESPACE, name=LEASE_NAME, identity=options.identity)
        lease = Lease(name, transport, clock)
        try:
            async with lease.held():
                workloads = Controllers(
                    driven(live.catalog),
                    transport,
                    live.catalog,
                    clock,
                    ControllerOptions(gates=options.gates, may_write=lease.check),
                )
                await workloads.run()
        except* (ClusterFailed, ApiError) as lost:
            log.warning("workload controllers stopped: %s", lost.exceptions[0])
        await clock.sleep(1.0)


async def sandbox_controllers(transport: Transport, clock: Clock, gates: Gates) -> None:
    """OpenKruise's controllers and Kubernetes' own inside an embedded cluster, until cancelled."""
    await _drive_inside(EMBEDDED, transport, clock, gates)


async def kruise_controllers(transport: Transport, clock: Clock, gates: Gates) -> None:
    """OpenKruise's controllers alone: Kubernetes' own are the outside's, as its nodes are."""
    await _drive_inside(WORKLOADS, transport, clock, gates)


async def _drive_inside(
    workloads: Sequence[Workload[Any]], transport: Transport, clock: Clock, gates: Gates
) -> None:
    """Drive `workloads` of an embedded cluster.

    They hold the workloads lease for good (there is nobody to fail over to), so that a
    `gitkruise run` on this cluster sees who drives its pods and does not drive them too.
    """
    await _hold_for_good(transport, clock)
    controllers = Controllers(
        workloads, transport, load_catalog(), clock, ControllerOptions(gates=gates)
    )
    await controllers.run()


async def _hold_for_good(transport: Transport, clock: Clock) -> None:
    now = format_micro_time(clock.now())
    spec = {
        "holderIdentity": "sandbox",
        "leaseDurationSeconds": 10 * 365 * 24 * 3600,
        "acquireTime": now,
        "renewTime": now,
    }
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": LEASE_NAMESPACE, "name": LEASE_NAME},
        "spec": spec,
    }
    request = ApiRequest(
        verb="patch",
        resource=LEASES,
        namespace=LEASE_NAMESPACE,
        name=LEASE_NAME,
        body=body,
        content_type=APPLY_PATCH,
        params={"fieldManager": "gitkruise-sandbox", "force": "true"},
    )
    await transport.send(request)


async def release_workloads(transport: Transport) -> None:
    """Undo what an earlier run with controllers inside left: the lease held for good."""
    request = ApiRequest(verb="get", resource=LEASES, namespace=LEASE_NAMESPACE, name=LEASE_NAME)
    try:
        lease = (await transport.send(request)).body
    except NotFound:
        return
    if get(lease, "spec", "holderIdentity") == "sandbox":
        await transport.send(replace(request, verb="delete"))
