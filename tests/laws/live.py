"""Live controllers over the embedded cluster, on a wire that fails as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from random import Random  # noqa: TID251  faults are drawn from the seed of a test
from typing import Any, Final, Protocol

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import Conflict, GatewayTimeout, Unavailable, WatchExpired
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.workload import Workload
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import ClusterLoop, run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.controllers.volumes import VolumeController
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import FAST
from tests.clock import ManualClock

SEND_FAULTS: Final = ("", "", "", "conflict", "lost", "down")
WATCH_FAULTS: Final = ("", "", "", "late", "twice", "ends", "expired")
LATE_S: Final = 15.0


def parts() -> list[ClusterLoop]:
    first: list[ClusterLoop] = [GarbageCollector(), VolumeController()]
    return [*first, Scheduler(events=False), Kubelet(FAST, events=False)]


class Judge(Protocol):
    """Looks at every write just before it takes effect, and counts them."""

    writes: list[str]

    def look(self, request: ApiRequest, now: datetime) -> None: ...


class Wire:
    """Implements kube.transport.Transport. Faults are drawn until `until`, by seed.

    From write number `stop_at` on nothing is sent: `stopped` tells, and nobody is answered.
    """

    def __init__(self, cluster: Cluster, clock: ManualClock, judge: Judge) -> None:
        self._inner, self._clock, self._judge = WorldTransport(cluster), clock, judge
        self.random: Random | None = None
        self.until: datetime | None = None
        self.stop_at = 0
        self.stopped = asyncio.Event()

    def _fault(self, kinds: tuple[str, ...]) -> str:
        if self.random is None or (self.until is not None and self._clock.now() >= self.until):
            return ""
        return self.random.choice(kinds)

    async def send(self, request: ApiRequest) -> ApiReply:
        writes = request.verb not in {"get", "list"} and request.resource.plural != "events"
        if writes and self.stop_at and len(self._judge.writes) + 1 >= self.stop_at:
            self.stopped.set()
            await asyncio.Event().wait()
        fault = self._fault(SEND_FAULTS)
        if fault == "conflict" and writes:
            raise Conflict("the object has been modified")
        if fault == "down":
            raise Unavailable("try again")
        self._judge.look(request, self._clock.now())
        reply = await self._inner.send(request)
        if fault == "lost":
            raise GatewayTimeout("the answer was lost")
        return reply

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        async with aclosing(self._inner.watch(request)) as events:
            async for event in events:
                fault = self._fault(WATCH_FAULTS)
                if fault == "late":
                    assert self.random is not None
                    await self._clock.sleep(self.random.uniform(0, LATE_S))
                if fault == "ends":
                    return
                if fault == "expired":
                    raise WatchExpired("too old resource version")
                yield event
                if fault == "twice":
                    yield event

    async def close(self) -> None:
        """Nothing to close."""


def play(
    world: World,
    now: datetime,
    write: ApiRequest,
    *,
    judge: Judge,
    seed: int | None = None,
    faults: timedelta = timedelta(minutes=2),
    stop_at: int = 0,
    lasts: timedelta = timedelta(minutes=20),
    after: Callable[[Controllers], None] = lambda _: None,
    workloads: Sequence[Workload[Any]] = (CLONESET,),
) -> None:
    """Live through `write` for `lasts`; `after` looks at the controllers at the end.

    `seed` draws faults for as long as `faults`. Before write number `stop_at` the controller is
    killed (whether it heard of the one before makes no difference then), and another takes over.
    """
    clock = ManualClock(now)
    cluster = Cluster(world, clock.now)

    def wire() -> Wire:
        made = Wire(cluster, clock, judge)
        if seed is not None:
            made.random, made.until = Random(seed), now + faults
        return made

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run_parts(cluster, parts(), clock))
            await WorldTransport(cluster).send(write)
            if stop_at:
                first = wire()
                first.stop_at = stop_at
                await _killed(group, first, clock, workloads)
            controllers = Controllers(workloads, wire(), load_catalog(), clock, ControllerOptions())
            task = group.create_task(controllers.run())
            await clock.sleep(lasts.total_seconds())
            after(controllers)
            task.cancel()
            running.cancel()

    clock.run(main())


async def _killed(
    group: asyncio.TaskGroup, wire: Wire, clock: ManualClock, workloads: Sequence[Workload[Any]]
) -> None:
    """Run controllers until their wire stops (or their work is done)."""
    controllers = Controllers(workloads, wire, load_catalog(), clock, ControllerOptions())
    task = group.create_task(controllers.run())
    try:
        async with clock.timeout(300):
            await wire.stopped.wait()
    except TimeoutError:
        pass
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
