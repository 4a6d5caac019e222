"""Live controllers that are far from their API server, whose node agents are close to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import ApiError, Conflict, GatewayTimeout, InvalidObject
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import ClusterLoop
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock
from tests.laws.live import parts
from tests.worlds import PODS

ANSWERS_S: Final = 0.001  # after which a node agent has seen a change and written what follows
_READS: Final = frozenset({"get", "list", "watch"})
Meddling = Callable[[World, ApiRequest, int, datetime], None]


@dataclass
class Count:
    """Cost of a rollout. `left` counts by uid how often a pod went from Ready to NotReady."""

    writes: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    reads: int = 0
    left: Counter[str] = field(default_factory=Counter)
    most_down: int = 0
    ended: datetime | None = None


class Distant:
    """Implements kube.transport.Transport; each direction takes `one_way_s`.

    `meddle` acts on the cluster just before write number n (from 1) takes effect, or raises what
    is answered instead; the answer to write number `lost` never arrives.
    """

    def __init__(
        self, cluster: Cluster, clock: ManualClock, one_way_s: float, count: Count
    ) -> None:
        self._inner, self._cluster, self._clock = WorldTransport(cluster), cluster, clock
        self._one_way_s, self._count = one_way_s, count
        self.meddle: Meddling | None = None
        self.lost = 0
        self.background: asyncio.TaskGroup | None = None  # where watches read ahead

    async def send(self, request: ApiRequest) -> ApiReply:
        await self._clock.sleep(self._one_way_s)
        try:
            turn = self._note(request)
            reply = await self._inner.send(request)
        except (Conflict, InvalidObject) as error:
            if request.verb not in _READS:
                self._count.conflicts.append(f"{request.verb} {request.name}: {error}")
            raise
        else:
            if turn and turn == self.lost:
                raise GatewayTimeout("the answer was lost")
            return reply
        finally:
            await self._clock.sleep(self._one_way_s)

    def _note(self, request: ApiRequest) -> int:
        """The number of the write; 0 of what is none, events included."""
        if request.resource.plural == "events":
            return 0
        if request.verb in _READS:
            self._count.reads += 1
            return 0
        self._count.writes.append(f"{request.verb} {request.resource.plural} {request.name}")
        if self.meddle is not None:
            self.meddle(self._cluster.world, request, len(self._count.writes), self._clock.now())
            self._cluster.publish()
        return len(self._count.writes)

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        """Events in their order, each as much later as the way is long."""
        on_the_way: asyncio.Queue[tuple[float, WatchEvent | ApiError | None]] = asyncio.Queue()
        assert self.background is not None
        reader = self.background.create_task(self._read(request, on_the_way))
        try:
            while True:
                arrives, event = await on_the_way.get()
                await self._clock.sleep(arrives - self._clock.monotonic())
                if event is None:
                    return
                if isinstance(event, ApiError):
                    raise event
                yield event
        finally:
            reader.cancel()

    async def _read(
        self, request: ApiRequest, on_the_way: asyncio.Queue[tuple[float, Any]]
    ) -> None:
        await self._clock.sleep(self._one_way_s)
        last: ApiError | None = None
        try:
            async with aclosing(self._inner.watch(request)) as events:
                async for event in events:
                    on_the_way.put_nowait((self._clock.monotonic() + self._one_way_s, event))
        except ApiError as error:
            last = error
        on_the_way.put_nowait((self._clock.monotonic() + self._one_way_s, last))

    async def close(self) -> None:
        """Nothing to close."""


def roll(
    world: World,
    start: datetime,
    change: ApiRequest,
    *,
    one_way_s: float = 0.0,
    meddle: Meddling | None = None,
    lost: int = 0,
    workloads: Sequence[Workload[Any]] = (CLONESET,),
    done: Callable[[World], bool],
    within: timedelta = timedelta(minutes=20),
) -> Count:
    """Live through `change` until `done` for two seconds, or `within` is over (`ended` None)."""
    clock, count = ManualClock(start), Count()
    cluster = Cluster(world, clock.now)
    wire = Distant(cluster, clock, one_way_s, count)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            wire.background = group
            agents = group.create_task(_nodes(cluster, clock, count))
            controllers = Controllers(workloads, wire, load_catalog(), clock, ControllerOptions())
            running = group.create_task(controllers.run())
            await clock.sleep(5 + 10 * one_way_s)  # lists are in, nothing is left to do
            count.writes.clear()
            count.conflicts.clear()
            count.left.clear()
            wire.meddle, wire.lost = meddle, lost
            begun = clock.now()
            await WorldTransport(cluster).send(change)
            since: datetime | None = None
            while clock.now() - begun < within:
                await clock.sleep(0.05)
                since = (since or clock.now()) if done(world) else None
                if since and clock.now() - since > timedelta(seconds=2 + 4 * one_way_s):
                    count.ended = since
                    break
            running.cancel()
            agents.cancel()
        count.ended = count.ended and start + (count.ended - begun)

    clock.run(main())
    return count


async def _nodes(cluster: Cluster, clock: ManualClock, count: Count) -> None:
    """Scheduler and node agents, which answer every change within a millisecond."""
    acting: list[ClusterLoop] = parts()
    world, version = cluster.world, cluster.world.version
    while True:
        seen = world.version
        dues = [due for part in acting if (due := part.run(world, clock.now())) is not None]
        version = _watched(world, version, count)
        cluster.publish()
        if world.version != seen:
            continue
        pause = (min(dues) - clock.now()).total_seconds() if dues else 60.0
        try:
            async with clock.timeout(pause):
                await cluster.changed(seen)
        except TimeoutError:
            continue
        await clock.sleep(ANSWERS_S)


def _watched(world: World, version: int, count: Count) -> int:
    for record in world.records_since(version):
        if record.key[:2] != PODS:
            continue
        before = pod_facts(record.before) if record.before else None
        after = pod_facts(record.after) if record.after else None
        if before and before.ready and not (after and after.ready):
            count.left[before.uid] += 1
    pods: list[PodFacts] = [pod_facts(raw) for raw in world.objects(PODS)]
    count.most_down = max(count.most_down, sum(not pod.ready for pod in pods))
    return world.version


def rolled(key: ObjectKey) -> Callable[[World], bool]:
    """The CloneSet reports that everything it asks for is there."""

    def done(world: World) -> bool:
        owner = world.get(key)
        assert owner is not None
        status, replicas = owner.get("status") or {}, owner["spec"]["replicas"]
        counted = [status.get(name) for name in ("replicas", "updatedAvailableReplicas")]
        fresh = status.get("observedGeneration") == owner["metadata"]["generation"]
        return fresh and counted == [replicas, replicas]

    return done
