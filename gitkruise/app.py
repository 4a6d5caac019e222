"""Composition root: builds a running controller out of the rings, and takes it down again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gitkruise.controller.controllers import Controllers
from gitkruise.controller.controllers import Options as ControllerOptions
from gitkruise.errors import ApiError, ClusterFailed, Finding, NotFound, SourceFailed
from gitkruise.git.manifests import ParseCache
from gitkruise.git.parsed_store import ParsedStore
from gitkruise.git.repo import Repository
from gitkruise.git.status_branch import Identity, Notes, StatusBranch
from gitkruise.gitops.annotate import Annotator
from gitkruise.gitops.engine import OWN, choose_engine
from gitkruise.gitops.farewell import Departed, Farewell
from gitkruise.gitops.gate import Standings
from gitkruise.gitops.intake import Reader
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.memory import Memory
from gitkruise.gitops.polling import Polling
from gitkruise.gitops.receiver import Listen, open_receivers
from gitkruise.gitops.reporter import Reporter
from gitkruise.gitops.resume import departed, resumed
from gitkruise.gitops.source import SourceFollower, Terms
from gitkruise.gitops.sources import Renewal, open_sources, trust_sources
from gitkruise.gitops.sync import Surroundings, UnitSync
from gitkruise.gitops.target import ref_of
from gitkruise.gitops.telling.assembly import Surroundings as ToldOf
from gitkruise.gitops.telling.assembly import Telling, open_telling
from gitkruise.gitops.writeback import Outbox
from gitkruise.kube.clock import Clock
from gitkruise.kube.data import load_catalog
from gitkruise.kube.lease import LEASES, Lease, LeaseName
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Config, GitSource, Sink, Unit, duration
from gitkruise.model.config import resolve_reference as resolve
from gitkruise.model.record import UnitRecord
from gitkruise.model.settings import Gates
from gitkruise.model.workload import Workload
from gitkruise.planner.workloads import CLONESET, EMBEDDED, WORKLOADS
from gitkruise.wire.paths import get
from gitkruise.wire.request import APPLY_PATCH, ApiRequest, ResourceRef
from gitkruise.wire.times import format_micro_time

log = logging.getLogger(__name__)
LEASE_NAMESPACE, LEASE_NAME = "kube-system", "gitkruise-workloads"
BOT = Identity(name="gitkruise", email="gitkruise@localhost")
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
    outboxes, branches = _outboxes(options, repositories, clock)
    around = Surroundings(
        live=live, clock=clock, cluster=options.cluster, gates=options.gates, engine=engine
    )
    store = await asyncio.to_thread(ParsedStore, options.state_dir / "parsed.sqlite")
    stack.callback(store.close)
    cache = ParseCache(store=store)
    units: dict[str, UnitSync] = {}
    reporters: dict[str, Reporter] = {}
    told = {sink: await asyncio.to_thread(branches[sink].files) for sink in branches}
    for name, unit in config.units.items():
        source_name = resolve(unit.spec.source_ref, unit.namespace)
        reporter = _reporter(options, unit, ref_of(config.sources[source_name]), clock)
        sink = resolve(unit.spec.sink_ref, unit.namespace) if unit.spec.sink_ref else ""
        if sink in outboxes:
            reporter.listen(outboxes[sink].offer)
            reporter.resume(*resumed(told[sink], unit.id, options.cluster))
        reader = Reader(
            repository=repositories[source_name],
            unit=unit,
            gates=options.gates,
            cache=cache,
            trusted=trusts[source_name],
            ignore=tuple(config.sources[source_name].spec.ignore.splitlines()),
        )
        units[name], reporters[name] = UnitSync(unit, reader, around, reporter), reporter
    followers = {}
    for name, source in config.sources.items():
        memory = Memory(options.state_dir, source, options.cluster)
        renew = partial(renewal.signers, name, source)
        terms = Terms(trusts[name], memory=memory, renew=renew)
        followers[name] = _follower(source, repositories[name], units, terms)
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
        telling=await _telling(options, live, (repositories, units, reporters), clock, stack),
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


async def _telling(
    options: RunOptions,
    live: LiveView,
    parts: tuple[Mapping[str, Repository], Mapping[str, UnitSync], Mapping[str, Reporter]],
    clock: Clock,
    stack: AsyncExitStack,
) -> Telling:
    """Who tells forges and chats; they hear every record, and first what is known already."""
    repositories, units, reporters = parts
    around = ToldOf(
        config=options.config,
        cluster=options.cluster,
        state_dir=options.state_dir,
        live=live,
        repositories=repositories,
        tips={name: partial(getattr, unit, "live_commit") for name, unit in units.items()},
        gates=options.gates,
        clock=clock,
    )
    telling = await open_telling(around, stack)
    for reporter in reporters.values():
        reporter.listen(telling.offer)
        telling.offer(reporter.record)
    return telling


def _reporter(options: RunOptions, unit: Unit, source: str, clock: Clock) -> Reporter:
    return Reporter(
        unit,
        options.cluster,
        source,
        clock,
        sinks=list(options.listeners),
    )


def _outboxes(
    options: RunOptions, repositories: Mapping[str, Repository], clock: Clock
) -> tuple[dict[str, Outbox], dict[str, StatusBranch]]:
    outboxes, branches = {}, {}
    for name, sink in options.config.sinks.items():
        if sink.spec.git is None:
            continue
        branches[name] = _branch(sink, options, repositories)
        notes = Notes(
            _repository_of(sink, repositories),
            sink.spec.git.notes.format(cluster=options.cluster),
            identity=BOT,
            sleep=time.sleep,
        )
        outboxes[name] = Outbox(
            branches[name], notes, clock, coalesce=duration(sink.spec.git.coalesce)
        )
    return outboxes, branches


def _branch(
    sink: Sink, options: RunOptions, repositories: Mapping[str, Repository]
) -> StatusBranch:
    assert sink.spec.git is not None
    source = options.config.sources[resolve(sink.spec.git.source_ref, sink.namespace)]
    return StatusBranch(
        _repository_of(sink, repositories),
        sink.spec.git.branch.format(cluster=options.cluster),
        source_branch=source.spec.ref.branch,
        identity=BOT,
        sleep=time.sleep,
    )


def _repository_of(sink: Sink, repositories: Mapping[str, Repository]) -> Repository:
    assert sink.spec.git is not None
    return repositories[resolve(sink.spec.git.source_ref, sink.namespace)]


def _follower(
    source: GitSource, repository: Repository, units: Mapping[str, UnitSync], terms: Terms
) -> SourceFollower:
    name = f"{source.namespace}/{source.name}"
    mine = [u for u in units.values() if resolve(u.unit.spec.source_ref, u.unit.namespace) == name]

    def on_commit(commit: str) -> None:
        for unit in mine:
            unit.offer(commit)

    def on_problem(problem: Finding | None) -> None:
        for unit in mine:
            unit.source_problem(problem)

    return SourceFollower(
        source,
        repository,
        on_commit=on_commit,
        on_problem=on_problem,
        live=lambda: [commit for unit in mine if (commit := unit.live_commit)],
        terms=replace(terms, paths=tuple(unit.unit.spec.path for unit in mine)),
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


async def _drive(options: RunOptions, live: LiveView, transport: Transport, clock: Clock) -> None:
    """Run our workload controllers while we hold the lease; wait for it otherwise."""
    while True:
        name = LeaseName(namespace=LEASE_NAMESPACE, name=LEASE_NAME, identity=options.identity)
        lease = Lease(name, transport, clock)
        try:
            async with lease.held():
                workloads = Controllers(
                    (CLONESET,),
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
