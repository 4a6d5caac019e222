"""Parts act on changes and when something is due; one that fails does not stop the others."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock

MAPS = ResourceRef("", "v1", "configmaps")


def create(name: str) -> ApiRequest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return ApiRequest(verb="create", resource=MAPS, namespace="default", body=body)


class Ticker:
    """Writes one ConfigMap every ten seconds."""

    def __init__(self) -> None:
        self.due: datetime | None = None
        self.at: list[float] = []

    def run(self, world: World, now: datetime) -> datetime | None:
        if self.due is None or now >= self.due:
            world.handle(create(f"tick-{len(self.at)}"), now)
            self.at.append(now.timestamp())
            self.due = now + timedelta(seconds=10)
        return self.due


class Broken:
    def __init__(self) -> None:
        self.calls = 0

    def run(self, world: World, now: datetime) -> datetime | None:
        self.calls += 1
        raise RuntimeError(f"{world} {now}")


class Watcher:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.versions: list[int] = []

    def run(self, world: World, now: datetime) -> datetime | None:
        del now
        self.versions.append(world.version)
        return None


def test_due_work_happens_when_it_is_due(clock: ManualClock, cluster: Cluster) -> None:
    ticker, broken = Ticker(), Broken()

    async def play() -> None:
        async with alongside(run_parts(cluster, [broken, ticker], clock)):
            await clock.sleep(35)

    clock.run(play())
    begin = ticker.at[0]
    assert [round(at - begin) for at in ticker.at] == [0, 10, 20, 30]
    assert cluster.version == cluster.world.version
    assert 6 <= broken.calls <= 8  # every five seconds, not at every change


def test_a_change_wakes_every_part(clock: ManualClock, cluster: Cluster) -> None:
    watcher = Watcher()

    async def play() -> None:
        async with alongside(run_parts(cluster, [watcher], clock)):
            await clock.sleep(1)
            quiet = len(watcher.versions)
            await cluster.handle(create("a"))
            await clock.sleep(1)
            assert len(watcher.versions) == quiet + 1
            assert watcher.versions[-1] == cluster.version

    clock.run(play())


def test_background_work_ends_with_its_block() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("yes")

    async def play() -> None:
        async with alongside(forever()):
            await asyncio.sleep(0)

    asyncio.run(play())
    assert ended == ["yes"]
