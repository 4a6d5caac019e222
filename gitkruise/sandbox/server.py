"""A running sandbox: everything is up when `serve` yields and gone when it exits."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from aiohttp import web

from gitkruise.admission.chain import admit
from gitkruise.kube.serve.certificates import server_context, show
from gitkruise.kube.serve.connection_limits import BoundedServer, bound
from gitkruise.kube.system.clock import Clock, SystemClock
from gitkruise.kube.system.package_data import embedded_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.backend.encoding import Encoder
from gitkruise.sandbox.backend.group_commit import GroupCommit
from gitkruise.sandbox.backend.sqlite import SqliteStore
from gitkruise.sandbox.backend.state_dir import (
    SandboxIdentity,
    StateDir,
    failed,
    new_identity,
    renewed,
    stored_identity,
)
from gitkruise.sandbox.controllers import ClusterLoop, alongside, object_failed, run_parts
from gitkruise.sandbox.discovery.discovery import Discovery
from gitkruise.sandbox.discovery.openapi_v2 import OpenApiV2
from gitkruise.sandbox.discovery.openapi_v3 import CRD, OpenApiV3
from gitkruise.sandbox.handlers.app import SERVER_ARGS, App
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.handlers.resources import Objects
from gitkruise.sandbox.handlers.watch import broadcast
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.sandbox.kubeconfig import kubeconfig_text, written
from gitkruise.sandbox.tables.tables import Shaper
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.endpoints import EndpointsController
from gitkruise.world.controllers.event_ttl import EventExpiry
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.namespace import NamespaceController
from gitkruise.world.controllers.node_leases import NodeLeases
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.controllers.volumes import VolumeController
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import PROFILES
from gitkruise.world.node_agent.agent import NodeAgents

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_6: Final = "::1"
RENEWAL_CHECK_S: Final = 3600.0
STOP_WITHIN_S: Final = 3.0

# Runs controllers over a transport until it is cancelled; given by the composition root, because
# the sandbox and the controllers do not know each other.
Controllers: TypeAlias = Callable[[WorldTransport, Clock, Gates], Coroutine[Any, Any, None]]
# Serves a dashboard of the cluster while its block runs, and gives the address; given by it, too.
Dashboard: TypeAlias = Callable[[WorldTransport], AbstractAsyncContextManager[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """Options of one sandbox. `state_dir` None (or `ephemeral`) keeps nothing on disk.

    `port` 0 takes the last one again or a free one. `profile` (a name of PROFILES) has the delays
    and failures of the simulated kubelet, `speed` divides the former. `kubeconfig` is written once
    the server answers and removed at the end. `kubelet` False leaves to the outside what
    Kubernetes itself does: scheduling and running pods, binding claims, collecting what the gone
    owned, and (see app) its own workloads.
    """

    state_dir: Path | None = None
    ephemeral: bool = False
    port: int = 0
    kubelet: bool = True
    controllers: bool = True
    gates: Gates = field(default_factory=Gates)
    nodes: int = 5
    profile: str = "general"
    speed: float = 1.0
    seed: int = 0
    kubeconfig: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxServer:
    """A sandbox that answers. `ca` is the PEM of its authority, `kubeconfig` complete YAML."""

    url: str
    token: str
    ca: str
    kubeconfig: str
    cluster: Cluster
    dashboard: str = ""


@asynccontextmanager
async def serve(
    options: SandboxOptions, *, controllers: Controllers | None = None, clock: Clock | None = None,
    dashboard: Dashboard | None = None,
) -> AsyncIterator[SandboxServer]:  # fmt: skip
    """Start a sandbox, yield it once it answers, stop everything on exit.

    `controllers` run inside unless the options say otherwise. Raises ClusterFailed when the port
    (GK4110), the state directory (GK4111 to GK4115) or the store (GK4121, GK4122) cannot be used.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        state = _claim_state(stack, options)
        identity = stored_identity(state, clock.now()) if state else new_identity(clock.now())
        cluster = await _open_cluster(stack, options, state, clock)
        stack.push_async_callback(cluster.webhooks.close)
        bootstrap(cluster.world, clock.now(), nodes=options.nodes if options.kubelet else 0)
        cluster.publish()
        context = server_context(identity.server)
        work = [
            run_parts(cluster, parts_of(options), clock),
            _renew(context, state, identity, clock),
            broadcast(cluster),
        ]
        if controllers and options.controllers:
            work.append(controllers(WorldTransport(cluster), clock, options.gates))
        await stack.enter_async_context(alongside(*work))
        app = _application(cluster, identity.token)
        port = await stack.enter_async_context(
            listening(app, context, port=options.port or _last_port(state))
        )
        stack.callback(cluster.close)
        url, ca = f"https://{LOOPBACK}:{port}", identity.authority.certificate.decode()
        text = kubeconfig_text(url, ca, identity.token)
        if state:
            state.remember_port(port)
            stack.enter_context(written(state.kubeconfig, text))
        if options.kubeconfig:
            stack.enter_context(written(options.kubeconfig, text))
        pages = ""
        if dashboard:
            pages = await stack.enter_async_context(dashboard(WorldTransport(cluster)))
        if state:  # last: who waits for it finds all there
            stack.enter_context(state.announced(url, pages))
        yield SandboxServer(
            url=url, token=identity.token, ca=ca, kubeconfig=text, cluster=cluster, dashboard=pages
        )


def _claim_state(stack: AsyncExitStack, options: SandboxOptions) -> StateDir | None:
    if options.ephemeral or options.state_dir is None:
        return None
    state = StateDir(options.state_dir)
    state.prepare()
    stack.enter_context(state.locked())
    return state


def _last_port(state: StateDir | None) -> int:
    return -state.last_port() if state else 0


async def _open_cluster(
    stack: AsyncExitStack, options: SandboxOptions, state: StateDir | None, clock: Clock
) -> Cluster:
    """The World as it was left, with its journal running."""
    gates = options.gates
    world = World(
        embedded_catalog(),
        admit=lambda request: admit(request, gates),
        gates=gates,
        seed=options.seed,
        start=clock.now(),
    )
    encoder = Encoder()
    if state is None:
        return Cluster(world, clock.now, encoder=encoder)
    store = SqliteStore(state.store)
    stack.callback(store.close)
    objects, version = store.load()
    if version:
        world.restore(objects, version)
        world.add_namespaces(clock.now())  # a reset leaves none
    journal = GroupCommit(store, encoder, version)
    await stack.enter_async_context(journal.running())
    return Cluster(world, clock.now, journal=journal, encoder=encoder)


def parts_of(options: SandboxOptions) -> list[ClusterLoop]:
    """Return the controllers to run. Without kubelets only those of an API server are left.

    Garbage collection is a controller of Kubernetes: the player of the others (the conformance
    runner) decides when a deleted pod's claims go.
    """
    report = object_failed
    parts: list[ClusterLoop] = [NamespaceController(report=report), EventExpiry(report=report)]
    if options.kubelet:
        profile = PROFILES[options.profile].faster(options.speed)
        parts += [GarbageCollector(report), VolumeController(report), Scheduler(report=report)]
        kubelet = Kubelet(profile, report=report)
        parts += [NodeAgents(kubelet, report), kubelet, EndpointsController(report)]
        parts.append(NodeLeases(report))
    return parts


def _application(cluster: Cluster, token: str) -> App:
    catalog = cluster.world.catalog
    v3 = OpenApiV3(catalog, lambda: cluster.world.objects(CRD))
    tokens = Tokens(cluster, token)
    return App(
        cluster=cluster,
        objects=Objects(cluster, Shaper(cluster.now), tokens),
        discovery=Discovery(catalog),
        openapi_v2=OpenApiV2(v3),
        openapi_v3=v3,
        tokens=tokens,
    )


@asynccontextmanager
async def listening(app: App, context: ssl.SSLContext, *, port: int) -> AsyncIterator[int]:
    """Serve `app` on loopback and yield the port.

    A negative port is preferred but not required; 0 is any free one.
    """
    server = BoundedServer(
        app.handle, log_as="gitkruise.sandbox.http", handler_cancellation=True, **SERVER_ARGS
    )
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=STOP_WITHIN_S)
    await runner.setup()
    try:
        listeners = _bound(port)
        number: int = listeners[0].getsockname()[1]
        async with server.accepting(listeners, context):
            app.hosts = frozenset(f"{name}:{number}" for name in (LOOPBACK, "localhost", "[::1]"))
            app.ready = True
            yield number
    finally:
        app.ready = False
        await runner.cleanup()


def _bound(port: int) -> list[socket.socket]:
    """Sockets at the loopback addresses; the first is 127.0.0.1's."""
    listeners: list[socket.socket] = []
    for candidate in (abs(port), 0) if port < 0 else (port,):
        try:
            listeners = bound(LOOPBACK, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port < 0 and candidate:
                continue
            raise failed(
                "GK4110",
                f"cannot listen on {LOOPBACK}:{candidate}: {error.strerror}",
                next="choose another port with --port, or let --port 0 find a free one",
            ) from error
        break
    try:
        return [*listeners, *bound(LOOPBACK_6, listeners[0].getsockname()[1])]
    except OSError:
        return listeners  # no IPv6, or another program's port: kubeconfigs name 127.0.0.1


async def _renew(
    context: ssl.SSLContext, state: StateDir | None, identity: SandboxIdentity, clock: Clock
) -> None:
    """Show a new certificate to new connections when the old one nears its end; for ever."""
    while True:
        await asyncio.sleep(RENEWAL_CHECK_S)
        fresh = renewed(state, identity, clock.now())
        if fresh is not identity:
            show(context, fresh.server)
            identity = fresh
