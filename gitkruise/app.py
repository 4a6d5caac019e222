"""Composition root: builds a running controller out of the rings, and takes it down again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gitkruise.controller.controllers import Controllers
from gitkruise.controller.controllers import Options as ControllerOptions
from gitkruise.errors import ApiError, ClusterFailed, Finding, NotFound, SourceFailed
from gitkruise.git.history import History
from gitkruise.git.manifests import ParseCache
from gitkruise.git.parsed_store import ParsedStore
from gitkruise.git.repo import Repository
from gitkruise.gitops.annotate import Annotator
from gitkruise.gitops.engine import OWN, choose_engine
from gitkruise.gitops.farewell import Departed, Farewell
from gitkruise.gitops.gate import Standings
from gitkruise.gitops.intake import Reader
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.memory import Memory
from gitkruise.gitops.polling import Polling
from gitkruise.gitops.receiver import open_receivers
from gitkruise.gitops.reporter import Reporter
from gitkruise.gitops.resume import by_unit, departed, resumed
from gitkruise.gitops.source import SourceFollower, Terms
from gitkruise.gitops.sources import Renewal, open_sources, trust_sources
from gitkruise.gitops.spreading import Spread
from gitkruise.gitops.status_sinks import open_status_sinks
from gitkruise.gitops.sync import Surroundings, UnitSync
from gitkruise.gitops.target import ref_of
from gitkruise.gitops.telling.assembly import Telling, open_telling
from gitkruise.gitops.trust import Trusted
from gitkruise.gitops.writeback import Outbox
from gitkruise.kube.clock import Clock
from gitkruise.kube.data import load_catalog
from gitkruise.kube.lease import LEASES, Lease, LeaseName
from gitkruise.kube.listening import Listen
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Config, GitSource, Unit
from gitkruise.model.config import resolve_reference as resolve
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A controller that is up: what drives each unit and writes each branch."""

    live: LiveView
    units: Mapping[str, UnitSync]
    pollings: Mapping[str, Polling]  # by source; sources of one repository share theirs
    outboxes: Mapping[str, Outbox]
    reporters: Mapping[str, Reporter]
    engine: str
    farewell: Farewell
    followers: Mapping[str, SourceFollower]  # by source
    standings: Standings
    telling: Telling
    hooks: Mapping[str, str] = field(default_factory=dict)  # where each Receiver listens


@asynccontextmanager
async def controller(
    options: RunOptions, transport: Transport, clock: Clock
) -> AsyncIterator[Running]:
    """Everything that follows git and drives the cluster, while the body runs.

    Raises ClusterFailed, SourceFailed or ApiError when it cannot start; on the way out records
    not written yet are written once more.
    """
    async with AsyncExitStack() as stack:
        running = await _assemble(options, transport, clock, stack)
        if options.webhook is not None:
            serving = serve_webhooks(options.webhook, transport, load_catalog(), clock)
            await stack.enter_async_context(serving)
        heard = await open_receivers(
            options.config,
            running.pollings,
            options.listen,
            (transport, clock),
            stack,
            running.telling.calls(),
        )
        annotator = Annotator(running.live)
        for reporter in running.reporters.values():
            reporter.listen(annotator.offer)
        async with asyncio.TaskGroup() as tasks:
            jobs = [tasks.create_task(running.live.run()), tasks.create_task(annotator.run())]
            if running.engine == OWN:
                jobs.append(tasks.create_task(_drive(options, running.live, transport, clock)))
            jobs += [tasks.create_task(unit.run()) for unit in running.units.values()]
            jobs += [tasks.create_task(polling.run()) for polling in set(running.pollings.values())]
            jobs += [tasks.create_task(outbox.run()) for outbox in running.outboxes.values()]
            jobs += [tasks.create_task(bell.run()) for bell in heard.bells]
            jobs.append(tasks.create_task(running.farewell.run()))
            jobs += [tasks.create_task(job()) for job in running.telling.jobs]
            try:
                yield replace(running, hooks=heard.urls)
            finally:
                for job in jobs:
                    job.cancel()
        for outbox in running.outboxes.values():
            try:
                await outbox.flush()
            except SourceFailed as error:
                log.warning("the last records are not in git: %s", error)


async def _assemble(
    options: RunOptions, transport: Transport, clock: Clock, stack: AsyncExitStack
) -> Running:
    config = options.config
    live = LiveView(transport, clock)
    await live.discover()
    engine = await choose_engine(transport, _engines(config), clock.now())
    renewal = Renewal(transport)
    repositories = await open_sources(config.sources, options.state_dir, transport, stack, renewal)
    trusts = await trust_sources(
        config.sources, repositories, options.state_dir, transport, clock, renewal
    )
    sinks = await open_status_sinks(
        config, options.cluster, repositories, (options.state_dir, transport), clock, stack
    )
    outboxes = sinks.outboxes
    around = Surroundings(
        live=live, clock=clock, cluster=options.cluster, gates=options.gates, engine=engine
    )
    store = await asyncio.to_thread(ParsedStore, options.state_dir / "parsed.sqlite")
    stack.callback(store.close)
    cache = ParseCache(store=store)
    histories: dict[Repository, History] = {}
    told = {s: await asyncio.to_thread(branch.files) for s, branch in sinks.branches.items()}
    before = ({sink: by_unit(files) for sink, files in told.items()}, outboxes)
    reporters = {n: _reporter(options, unit, before, clock) for n, unit in config.units.items()}
    units: dict[str, UnitSync] = {}
    for name, unit in config.units.items():
        source_name = resolve(unit.spec.source_ref, unit.namespace)
        repository = repositories[source_name]
        reader = Reader(
            repository=repository,
            unit=unit,
            gates=options.gates,
            cache=cache,
            trusted=trusts[source_name],
            ignore=tuple(config.sources[source_name].spec.ignore.splitlines()),
            shared=histories.setdefault(repository, History(repository)),
        )
        units[name] = UnitSync(unit, reader, around, reporters[name])
    followers = _followers(options, repositories, units, (trusts, renewal))
    return Running(
        live=live,
        units=units,
        pollings=_pollings(followers, clock, renewal),
        outboxes=outboxes,
        reporters=reporters,
        engine=engine,
        farewell=_farewell(told, outboxes, options, units, around),
        followers=followers,
        standings=around.standings,
        telling=await open_telling(
            (config, options.cluster, options.state_dir),
            around,
            repositories,
            {name: (unit, reporters[name]) for name, unit in units.items()},
            stack,
        ),
    )


def _engines(config: Config) -> set[str]:
    """Those that units ask for."""
    wishes: set[str] = {unit.spec.workloads.engine for unit in config.units.values()}
    return wishes or {OWN}


def _farewell(
    told: Mapping[str, Mapping[str, bytes]],
    outboxes: Mapping[str, Outbox],
    options: RunOptions,
    units: Mapping[str, UnitSync],
    around: Surroundings,
) -> Farewell:
    """The end of units that the branches know and the configuration does not."""
    left = [
        Departed(record=record, outbox=outboxes[sink])
        for sink, files in told.items()
        for record in departed(files, options.config.units, options.cluster)
    ]
    remaining = [unit.pruning for unit in units.values()]
    return Farewell(left, remaining, around, options.listeners)


def _reporter(
    options: RunOptions,
    unit: Unit,
    before: tuple[Mapping[str, Mapping[str, Mapping[str, bytes]]], Mapping[str, Outbox]],
    clock: Clock,
) -> Reporter:
    """Goes on from what the unit's status branch tells, where it has one."""
    told, outboxes = before
    source = ref_of(options.config.source_of(unit))
    reporter = Reporter(unit, options.cluster, source, clock, sinks=list(options.listeners))
    sink = resolve(unit.spec.sink_ref, unit.namespace) if unit.spec.sink_ref else ""
    if sink in outboxes:
        reporter.listen(outboxes[sink].offer)
        files = told[sink].get(unit.id, {})
        reporter.resume(*resumed(files, unit.id, options.cluster))
    return reporter


def _followers(
    options: RunOptions,
    repositories: Mapping[str, Repository],
    units: Mapping[str, UnitSync],
    trust: tuple[Mapping[str, Trusted], Renewal],
) -> dict[str, SourceFollower]:
    trusts, renewal = trust
    followers = {}
    for name, source in options.config.sources.items():
        memory = Memory(options.state_dir, source, options.cluster)
        renew = partial(renewal.signers, name, source)
        terms = Terms(trusts[name], memory=memory, renew=renew)
        followers[name] = _follower(source, repositories[name], units, terms)
    return followers


def _follower(
    source: GitSource, repository: Repository, units: Mapping[str, UnitSync], terms: Terms
) -> SourceFollower:
    name = f"{source.namespace}/{source.name}"
    mine = [u for u in units.values() if resolve(u.unit.spec.source_ref, u.unit.namespace) == name]
    spread = Spread(mine)

    def on_problem(problem: Finding | None) -> None:
        for unit in mine:
            unit.source_problem(problem)

    return SourceFollower(
        source,
        repository,
        on_commit=spread.offer,
        on_problem=on_problem,
        live=lambda: [commit for unit in mine if (commit := unit.live_commit)],
        terms=replace(terms, paths=tuple(unit.unit.spec.path for unit in mine), sift=spread.sift),
    )


def _pollings(
    followers: Mapping[str, SourceFollower], clock: Clock, renewal: Renewal
) -> dict[str, Polling]:
    """One for each repository, under the name of each of its sources."""
    shared: dict[Repository, dict[str, SourceFollower]] = {}
    for name, follower in followers.items():
        shared.setdefault(follower.repository, {})[name] = follower
    made: dict[Repository, Polling] = {}
    for repository, mine in shared.items():
        first, follower = next(iter(mine.items()))
        renew = partial(renewal.credentials, first, follower.source)
        made[repository] = Polling(repository, list(mine.values()), clock, renew)
    return {name: made[follower.repository] for name, follower in followers.items()}


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
