"""Controllers over HTTPS whose packets take their time, against a served sandbox."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import Conflict, InvalidObject
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.server import SandboxOptions, serve
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.controller.distance import rolled
from tests.kube.server import connection_to
from tests.laws.foretell import CLONESETS, WEB, Case, change
from tests.worlds import PODS, SPACE, cloneset

REPLICAS: Final = 10
POLICIES: Final = {"in place": "InPlaceIfPossible", "recreate": "ReCreate"}
NAMESPACES: Final = CLONESETS._replace(group="", version="v1", plural="namespaces")
LIMIT_S: Final = 300.0  # ends a test that would never end


class Counting(HttpTransport):
    """An HTTP transport that counts writes and those that met something else than expected."""

    writes = 0
    conflicts = 0
    took_s = 0.0  # by the rollout

    async def send(self, request: ApiRequest) -> ApiReply:
        counts = request.verb not in {"get", "list"} and request.resource.plural != "events"
        self.writes += counts
        try:
            return await super().send(request)
        except (Conflict, InvalidObject):
            self.conflicts += counts
            raise


@asynccontextmanager
async def delayed(port: int, one_way_s: float) -> AsyncIterator[int]:
    """The port of a door to `port` behind which each direction takes `one_way_s`."""
    loop = asyncio.get_running_loop()
    writers: list[asyncio.StreamWriter] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                loop.call_later(one_way_s, writer.write, data)
        loop.call_later(one_way_s, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as ways:
            ways.create_task(carry(reader, far_writer))
            ways.create_task(carry(far_reader, writer))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for writer in writers:
            writer.transport.abort()
        for writer in writers:
            with suppress(ConnectionError):
                await writer.wait_closed()


def left_service(cluster: Cluster, since: int) -> tuple[int, Counter[str]]:
    """Count by uid how often pods went from Ready to NotReady; and up to which version."""
    found: Counter[str] = Counter()
    for record in cluster.world.records_since(since):
        if record.key[:2] != PODS or record.before is None:
            continue
        before = pod_facts(record.before)
        if before.ready and not (record.after and pod_facts(record.after).ready):
            found[before.uid] += 1
    return cluster.world.version, found


async def until(cluster: Cluster, left: Counter[str]) -> None:
    """Until the rollout is done, counting along."""
    seen, done = cluster.world.version, rolled(WEB)
    async with asyncio.timeout(LIMIT_S):
        while not done(cluster.world):
            await cluster.changed(seen)
            seen, found = left_service(cluster, seen)
            left.update(found)


async def played(policy: str, one_way_s: float) -> tuple[Counting, Counter[str]]:
    options = SandboxOptions(ephemeral=True, profile="fast", speed=5.0, controllers=False)
    clock, left = SystemClock(), Counter[str]()
    async with serve(options) as sandbox:
        port = int(sandbox.url.rpartition(":")[2])
        local = WorldTransport(sandbox.cluster)
        await _create(local, "Namespace", {"name": SPACE})
        web: dict[str, Any] = cloneset(replicas=REPLICAS)
        body = {**web, "metadata": {**web["metadata"], "namespace": SPACE}}
        await local.send(ApiRequest(verb="create", resource=CLONESETS, namespace=SPACE, body=body))
        async with delayed(port, one_way_s) as far:
            connection = connection_to(
                f"https://127.0.0.1:{far}", token=sandbox.token, ca_pem=sandbox.ca
            )
            wire = Counting(connection, clock)
            wire.session().headers["Host"] = f"127.0.0.1:{port}"  # the only one it answers to
            running = Controllers([CLONESET], wire, load_catalog(), clock, ControllerOptions())
            async with asyncio.TaskGroup() as group:
                group.create_task(running.run())
                await until(sandbox.cluster, Counter())
                left.clear()
                wire.writes = wire.conflicts = 0
                rolling = {"podUpdatePolicy": policy, "maxUnavailable": 3}
                await local.send(change(Case(replicas=REPLICAS, rolling=rolling)))
                begun = clock.monotonic()
                await until(sandbox.cluster, left)
                wire.took_s = clock.monotonic() - begun
                running.stop()
            await wire.close()
    return wire, left


async def _create(local: WorldTransport, kind: str, meta: Mapping[str, Any]) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": meta}
    await local.send(ApiRequest(verb="create", resource=NAMESPACES, body=body))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_pod_leaves_service_once_however_far_the_server_is(policy: str) -> None:
    """Conflicts are below 1 % of the writes at all distances, some 200."""
    writes = conflicts = 0
    for one_way_ms in (0, 10, 25):
        wire, left = asyncio.run(played(policy, one_way_ms / 1000))
        assert len(left) == REPLICAS, one_way_ms
        assert set(left.values()) == {1}, one_way_ms
        writes, conflicts = writes + wire.writes, conflicts + wire.conflicts
    assert conflicts * 100 < writes
