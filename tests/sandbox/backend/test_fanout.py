"""Many watches: each sees all that happens, in order, found and encoded once for those in step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from gitkruise.sandbox.backend.cluster import SERVE_NOW_MAX, SWEEP_EVERY, Cluster
from gitkruise.sandbox.backend.watch_fanout import EventBatch
from gitkruise.sandbox.handlers.watch import batches
from gitkruise.wire.primitives.names import GroupKind
from tests.clock import ManualClock
from tests.sandbox.backend.test_cluster import create, seen, watch

NAMES = [f"map-{number}" for number in range(5)]


async def followed(cluster: Cluster, *, watches: int) -> list[list[EventBatch]]:
    """Batches of each of many watches while maps are created one after the other."""
    got: list[list[EventBatch]] = [[] for _ in range(watches)]
    since = str(cluster.version)
    begun = asyncio.Event()

    async def follow(stretches: list[EventBatch], number: int) -> None:
        count = 0
        async with aclosing(batches(cluster, watch(resourceVersion=since))) as stream:
            async for stretch in stream:
                stretches.append(stretch)
                count += len(stretch.events)
                if number == watches - 1:
                    begun.set()
                if count == len(NAMES):
                    return

    async with asyncio.TaskGroup() as group:
        for number, stretches in enumerate(got):
            group.create_task(follow(stretches, number))
        await begun.wait()
        for name in NAMES:
            await cluster.handle(create(name))
            await asyncio.sleep(0)
    return got


def events_of(stretches: Sequence[EventBatch]) -> list[tuple[str, str]]:
    return [seen(event) for stretch in stretches for event in stretch.events]


@pytest.mark.parametrize("watches", [1, 2, SERVE_NOW_MAX * 2])
def test_each_watch_sees_everything_in_order(
    clock: ManualClock, cluster: Cluster, watches: int
) -> None:
    got = clock.run(followed(cluster, watches=watches))
    assert [events_of(stretches) for stretches in got] == [
        [("ADDED", name) for name in NAMES]
    ] * watches


def test_those_in_step_share_what_is_written(clock: ManualClock, cluster: Cluster) -> None:
    got = clock.run(followed(cluster, watches=SERVE_NOW_MAX * 2))
    written = [[s.chunks(cluster.encoder) for s in stretches if s.events] for stretches in got]
    assert len({tuple(id(chunks) for chunks in one) for one in written}) == 1


def test_many_are_notified_together(clock: ManualClock, cluster: Cluster) -> None:
    got = clock.run(followed(cluster, watches=SERVE_NOW_MAX * 2))
    assert [len(stretch.events) for stretch in got[0] if stretch.events] == [len(NAMES)]


def test_few_are_notified_immediately(clock: ManualClock, cluster: Cluster) -> None:
    (got,) = clock.run(followed(cluster, watches=1))
    assert [len(stretch.events) for stretch in got if stretch.events] == [1] * len(NAMES)


def test_a_watch_is_woken_by_its_kind_and_seldom_by_others(
    clock: ManualClock, cluster: Cluster
) -> None:
    """A silent watch must not stay so far behind that the World forgets what comes after it."""

    async def main() -> list[tuple[bool, bool]]:
        woken: list[tuple[bool, bool]] = []
        async with asyncio.TaskGroup() as group:
            since = cluster.version
            pods = group.create_task(cluster.gathered(since, GroupKind("", "Pod")))
            maps = group.create_task(cluster.gathered(since, GroupKind("", "ConfigMap")))
            await asyncio.sleep(0)
            for number in range(SWEEP_EVERY):
                await cluster.handle(create(f"map-{number}"))
                await asyncio.sleep(0)
                woken.append((maps.done(), pods.done()))
        return woken

    assert clock.run(main()) == [(True, False)] * (SWEEP_EVERY - 1) + [(True, True)]
