"""A running agent: follows what the API asks of its node, and acts on the node's runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gitkruise.agent.container_meta import ContainerMetaAgent, pods_feed
from gitkruise.agent.cri.runtime import Runtime, connected_runtime
from gitkruise.agent.pull import PullAgent, node_image_feed
from gitkruise.agent.recreate import RecreateAgent, requests_feed
from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.events import Recorder
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """`node` is the name of the Node; `socket` the runtime's.

    `max_pulls` limits the images that are pulled at the same time; 0 does not.
    """

    node: str
    socket: Path
    max_pulls: int = 0


@asynccontextmanager
async def agent(
    options: AgentOptions, transport: Transport, clock: Clock
) -> AsyncIterator[Runtime]:
    """Act while the body runs, on the runtime at the socket.

    Raises ClusterFailed GK5120, GK5121, GK5122 before it begins.
    """
    async with (
        connected_runtime(options.socket) as runtime,
        acting(options, runtime, transport, clock),
    ):
        yield runtime


@asynccontextmanager
async def acting(
    options: AgentOptions, runtime: Runtime, transport: Transport, clock: Clock
) -> AsyncIterator[None]:
    """Act on the containers of `runtime` while the body runs."""
    store, recorder = InformerCache(), Recorder(transport, clock)
    node = options.node
    feeds = (requests_feed(node), node_image_feed(node), pods_feed(node))
    outages = WatchOutages()
    informers = tuple(Informer(feed, transport, store, clock, outages=outages) for feed in feeds)
    async with asyncio.TaskGroup() as tasks:
        recreating = RecreateAgent(store, transport, runtime, recorder, clock)
        reporting = ContainerMetaAgent(store, transport, runtime, recorder, clock)
        pulling = PullAgent(
            node, store, transport, runtime, recorder, clock, most=options.max_pulls
        )
        acting = (recorder.run(), recreating.run(), pulling.run(), reporting.run())
        parts = (*(informer.run() for informer in informers), *acting)
        running = [tasks.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
