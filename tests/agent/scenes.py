"""A model cluster with one node, its runtime in memory, and an agent between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitkruise.agent.recreate import REQUESTS
from gitkruise.agent.service import AgentOptions, agent
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import Clock, SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.agent.cri_server import MemoryRuntime, cri_server
from tests.worlds import SPACE, create

NODE = "worker-1"
EVENTS = ResourceRef("", "v1", "events")
HANG_S = 30.0  # a guard, not a measurement


def definition(kind: str, scope: str) -> Obj:
    """A CRD that takes every field."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.apps.kruise.io"},
        "spec": {"group": "apps.kruise.io", "scope": scope, "names": names, "versions": [version]},
    }


CRDS = (
    definition("ContainerRecreateRequest", "Namespaced"),
    definition("NodeImage", "Cluster"),
)


@dataclass
class Scene:
    """What a test acts on: the API server and the runtime."""

    transport: WorldTransport
    memory: MemoryRuntime
    socket: Path

    async def request(
        self, name: str, *containers: Obj, node: str = NODE, uid: str = "a", **spec: Any
    ) -> None:
        """Create a request as admission leaves it, with the runtime's containers as its context."""
        targets = []
        for target in containers:
            found = next(
                c for c in reversed(self.memory.containers)
                if (c.pod_uid, c.name) == (uid, target["name"])
            )  # fmt: skip
            context = {"containerID": f"memory://{found.id}", "restartCount": found.attempt}
            targets.append({**target, "statusContext": context})
        labels = {
            "crr.apps.kruise.io/node-name": node,
            "crr.apps.kruise.io/pod-uid": uid,
            "crr.apps.kruise.io/active": "true",
        }
        body = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "ContainerRecreateRequest",
            "metadata": {"name": name, "namespace": SPACE, "labels": labels},
            "spec": {"podName": "web", "containers": targets, **spec},
        }
        ask = ApiRequest(verb="create", resource=REQUESTS, namespace=SPACE, body=body)
        await self.transport.send(ask)

    async def read(self, name: str) -> Obj:
        ask = ApiRequest(verb="get", resource=REQUESTS, namespace=SPACE, name=name)
        return thaw((await self.transport.send(ask)).body)

    async def until(self, name: str, pleased: Callable[[Obj], object]) -> Obj:
        """The status of a request once it pleases."""
        clock = SystemClock()
        found: Obj = {}
        try:
            async with clock.timeout(HANG_S):
                while True:
                    found = (await self.read(name)).get("status", {})
                    if pleased(found):
                        return found
                    await clock.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"still waiting: {found}; {self.memory.asked}") from None

    async def completed(self, name: str) -> Obj:
        return await self.until(name, lambda status: status.get("phase") == "Completed")

    async def snapshot(self, name: str) -> None:
        """Write into a request what its controller sees in the pod's status: all of it ready."""
        entries = [
            {"name": c.name, "ready": True, "restartCount": c.attempt,
             "containerID": f"memory://{c.id}"}
            for c in self.memory.containers if c.state == 1 and c.attempt
        ]  # fmt: skip
        await self.patch(name, {"containerStatusSnapshot": entries})

    async def patch(self, name: str, status: Obj) -> None:
        ask = ApiRequest(
            verb="patch", resource=REQUESTS, namespace=SPACE, name=name, subresource="status",
            body={"status": status}, content_type=MERGE_PATCH,
        )  # fmt: skip
        await self.transport.send(ask)

    async def events(self, reason: str) -> list[Obj]:
        """Events of that reason, once there is one."""
        clock = SystemClock()
        async with clock.timeout(HANG_S):
            while True:
                ask = ApiRequest(verb="list", resource=EVENTS, namespace=SPACE)
                items = (await self.transport.send(ask)).body["items"]
                found = [e for e in map(thaw, items) if e["reason"] == reason]
                if found:
                    return found
                await clock.sleep(0.01)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        options = AgentOptions(node=NODE, socket=self.socket)
        async with agent(options, self.transport, SystemClock()):
            yield


async def api_server(clock: Clock) -> WorldTransport:
    """A cluster of the agent's kinds. Requests come as their admission leaves them, for pods that
    this cluster need not have."""
    world = World(load_catalog())
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    transport = WorldTransport(Cluster(world, clock.now))
    for obj in (space, *CRDS):
        await transport.send(create(world, obj))
    return transport


@asynccontextmanager
async def scene(folder: Path, memory: MemoryRuntime | None = None) -> AsyncIterator[Scene]:
    """A cluster and a runtime that answers; the test starts the agent when it wants one."""
    transport = await api_server(SystemClock())
    found = Scene(transport, memory or MemoryRuntime(), folder / "cri.sock")
    async with cri_server(found.socket, found.memory):
        yield found


def play(body: Callable[[], Any]) -> None:
    """Run a test's coroutine function."""
    asyncio.run(body())
