"""Updates of pods on a real kube-apiserver, while a node agent writes between any two writes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import Conflict, NotFound
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.workloads import CLONESET
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiReply, ApiRequest
from tests.controller.patch_tests import (
    NAMESPACES,
    TAKEN_WITH_STATUS,
    differences,
    taken_with_status,
)
from tests.controller.test_interleavings import POLICIES, WRITES, Write
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.shop import CLONESETS, HANG_S, install_crds, pods_run
from tests.worlds import START, cloneset, create, empty_world

pytestmark = [pytest.mark.kube, pytest.mark.slow]
REPLICAS: Final = 4


def test_a_real_server_answers_test_operations_as_the_rows_say(server: Apiserver) -> None:
    async def play() -> None:
        async with talking(server) as transport:
            assert await differences(transport) == []
            assert await taken_with_status(transport) == TAKEN_WITH_STATUS

    asyncio.run(play())


class Meddled(HttpTransport):
    """A transport to a server on which a node agent writes before each patch of a pod."""

    write: Write | None = None
    patches = 0

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.verb == "patch" and request.resource == PODS and self.write is not None:
            self.patches += 1
            await self._meddle(request)
        return await super().send(request)

    async def _meddle(self, request: ApiRequest) -> None:
        """One write, in the version that was read: the tests' kubelet writes as well."""
        assert self.write is not None
        read = ApiRequest(verb="get", resource=PODS, namespace=request.namespace, name=request.name)
        while True:
            try:
                pod = thaw((await super().send(read)).body)
                subresource, body = self.write(pod, self.patches, self._clock.now())
                version = {"resourceVersion": pod["metadata"]["resourceVersion"]}
                bound = {**body, "metadata": {**body.get("metadata", {}), **version}}
                patch = replace(read, verb="patch", subresource=subresource, body=bound)
                await super().send(replace(patch, content_type=MERGE_PATCH))
            except Conflict:
                continue
            except NotFound:
                pass
            return


class Scene:
    """CloneSet `web` in a namespace of its own, followed by a watch."""

    def __init__(self, transport: HttpTransport, space: str, policy: str) -> None:
        self.transport, self.space, self.policy = transport, space, policy
        self.left: Counter[str] = Counter()  # by uid, how often a pod went from Ready to NotReady

    async def create(self) -> None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space}}
        await self.transport.send(ApiRequest(verb="create", resource=NAMESPACES, body=space))
        web = cloneset(replicas=REPLICAS, maxUnavailable=2, podUpdatePolicy=self.policy)
        web["metadata"]["namespace"] = self.space
        world = empty_world()
        space["metadata"] = {"name": self.space}
        world.handle(create(world, space), START)
        admitted = world.handle(create(world, web), START).body
        body = {**web, "spec": admitted["spec"]}  # as a webhook completes it
        request = ApiRequest(verb="create", resource=CLONESETS, namespace=self.space, body=body)
        await self.transport.send(request)

    async def update(self) -> None:
        change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image",
                   "value": "app:v2"}]  # fmt: skip
        await self.transport.send(
            ApiRequest(
                verb="patch", resource=CLONESETS, namespace=self.space, name="web", body=change,
                content_type="application/json-patch+json",
            )
        )  # fmt: skip

    async def rolled(self) -> None:
        """Until the CloneSet reports that everything it asks for is there."""
        async with asyncio.timeout(HANG_S):
            async for web in self._versions(CLONESETS):
                status = web.get("status") or {}
                fresh = status.get("observedGeneration") == web["metadata"]["generation"]
                counts = [status.get(name) for name in ("replicas", "updatedAvailableReplicas")]
                if fresh and counts == [REPLICAS, REPLICAS]:
                    return

    async def count(self) -> None:
        """Until cancelled."""
        ready: dict[str, bool] = {}
        async for raw in self._versions(PODS):
            pod = pod_facts(raw)
            self.left[pod.uid] += ready.get(pod.uid, False) and not pod.ready
            ready[pod.uid] = pod.ready

    async def _versions(self, resource: Any) -> AsyncIterator[Obj]:
        which = {"resource": resource, "namespace": self.space}
        body = (await self.transport.send(ApiRequest(verb="list", **which))).body
        for item in body["items"]:
            yield thaw(item)
        params = {"resourceVersion": str(body["metadata"]["resourceVersion"])}
        stream: Any = self.transport.watch(ApiRequest(verb="watch", params=params, **which))
        async with aclosing(stream) as events:
            async for event in events:
                if event.type in {"ADDED", "MODIFIED", "DELETED"}:
                    obj = thaw(event.object)
                    yield {**obj, "status": {}} if event.type == "DELETED" else obj


@asynccontextmanager
async def _controlled(transport: HttpTransport) -> AsyncIterator[None]:
    running = Controllers([CLONESET], transport, load_catalog(), SystemClock(), ControllerOptions())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run())
        yield
        task.cancel()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_node_agent_that_writes_before_each_of_our_writes_delays_nothing(
    server: Apiserver, policy: str, write: Write
) -> None:
    space = f"meddled-{policy}-{write.__name__}".lower().replace("_", "-")

    async def play() -> tuple[Meddled, Counter[str]]:
        async with talking(server) as plain, pods_run(plain), asyncio.TaskGroup() as group:
            await install_crds(plain)
            ours = Meddled(server.connection(), SystemClock())
            scene = Scene(plain, space, policy)
            await scene.create()
            async with _controlled(ours):
                await scene.rolled()
                counting = group.create_task(scene.count())
                ours.write = write
                await scene.update()
                await scene.rolled()
            counting.cancel()
            await ours.close()
            await plain.send(ApiRequest(verb="delete", resource=CLONESETS, namespace=space,
                                        name="web"))  # fmt: skip
        return ours, scene.left

    ours, left = asyncio.run(play())
    gone = [count for count in left.values() if count]
    assert gone == [1] * REPLICAS
    assert ours.patches >= (REPLICAS * 2 if policy != "ReCreate" else 0)
