"""Watches that keep step are written to by one loop; who does not is left to a task of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gitkruise.errors import Unavailable
from gitkruise.sandbox.backend.cluster import SERVE_NOW_MAX, Cluster
from gitkruise.sandbox.backend.sqlite import StoreFailed
from gitkruise.sandbox.backend.watch_fanout import CHUNK_BYTES, EventBatch
from gitkruise.sandbox.handlers.watch import batches, broadcast
from tests.clock import ManualClock
from tests.sandbox.backend.test_cluster import Disk, create, on_disk, seen, watch

NAMES = [f"map-{number}" for number in range(20)]
MANY = SERVE_NOW_MAX * 3


@dataclass(eq=False)
class Far:
    """A reader with room for so many writes; its own task waits until there is room again."""

    room: int = 1_000
    direct: list[bytes] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)

    @property
    def keeps_up(self) -> bool:
        return self.room > 0

    def let_go(self) -> None: ...

    def take(self, data: bytes) -> None:
        self.room -= 1
        self.direct.append(data)
        frames = b"".join(data.split(b"\r\n")[1::2])
        self.events += [frame(line) for line in frames.splitlines()]


def frame(line: bytes) -> tuple[str, str]:
    event = json.loads(line)
    return event["type"], event["object"]["metadata"].get("name", "")


def stream(cluster: Cluster, far: Far, **more: str) -> AsyncGenerator[EventBatch]:
    asked = watch(resourceVersion=str(cluster.version), **more)
    return batches(cluster, asked, reader=far)


async def follow(stretches: AsyncGenerator[EventBatch], far: Far, count: int) -> int:
    """Count the events from the watch's own task, of `count` in all."""
    own = 0
    async with aclosing(stretches):
        async for stretch in stretches:
            far.events += map(seen, stretch.events)
            own += len(stretch.events)
            far.room += bool(stretch.events)
            if len(far.events) >= count:
                break
    return own


@asynccontextmanager
async def telling(cluster: Cluster) -> AsyncIterator[asyncio.TaskGroup]:
    """The tasks of a server; closes the cluster at the end."""
    async with asyncio.TaskGroup() as group:
        group.create_task(broadcast(cluster))
        yield group
        cluster.close()


async def played(cluster: Cluster, fars: list[Far], pause_s: float = 0.01) -> list[int]:
    async with telling(cluster) as group:
        tasks = [group.create_task(follow(stream(cluster, f), f, len(NAMES) + 1)) for f in fars]
        await asyncio.sleep(0.01)
        for name in NAMES:
            await cluster.handle(create(name))
            await asyncio.sleep(pause_s)
        await asyncio.sleep(1)
    return [task.result() for task in tasks]


@pytest.mark.parametrize("watches", [1, MANY])
@pytest.mark.parametrize("room", [1_000, 3, 1])
def test_each_sees_everything_once_and_in_order(
    clock: ManualClock, cluster: Cluster, watches: int, room: int
) -> None:
    fars = [Far(room) for _ in range(watches)]
    own = clock.run(played(cluster, fars))
    assert [far.events for far in fars] == [[("ADDED", name) for name in NAMES]] * watches
    assert all(bool(count) == (room < 1_000) for count in own if watches == 1)


def test_who_keeps_step_shares_what_is_written(clock: ManualClock, cluster: Cluster) -> None:
    fars = [Far() for _ in range(MANY)]
    assert clock.run(played(cluster, fars)) == [0] * MANY
    assert len({tuple(map(id, far.direct)) for far in fars}) == 1
    assert len(fars[0].direct) < len(NAMES)  # many are served together


def test_one_that_is_full_does_not_hold_up_the_others(clock: ManualClock, cluster: Cluster) -> None:
    fars = [Far(room=1), *(Far() for _ in range(MANY))]
    clock.run(played(cluster, fars))
    assert len({tuple(map(id, far.direct)) for far in fars[1:]}) == 1


def test_more_than_one_write_is_left_to_each_ones_own_task(
    clock: ManualClock, cluster: Cluster
) -> None:
    far = Far()

    async def play() -> int:
        async with telling(cluster) as group:
            task = group.create_task(follow(stream(cluster, far), far, 2))
            await asyncio.sleep(1)
            for name in ("big", "bigger"):
                asked = create(name)
                body = {**asked.body, "data": {"text": "x" * (CHUNK_BYTES * 2 // 3)}}
                cluster.world.handle(replace(asked, body=body), clock.now())
            cluster.publish()
            await asyncio.sleep(1)
        return task.result()

    assert clock.run(play()) == 2
    assert far.events == [("ADDED", "big"), ("ADDED", "bigger")]


def test_bookmarks_come_after_a_silence_only(clock: ManualClock, cluster: Cluster) -> None:
    far = Far()

    async def play() -> None:
        terms = {"allowWatchBookmarks": "true", "timeoutSeconds": "160"}
        async with telling(cluster) as group:
            group.create_task(follow(stream(cluster, far, **terms), far, 9))
            await asyncio.sleep(50)
            await cluster.handle(create("late"))
            await asyncio.sleep(125)

    clock.run(play())
    assert far.events == [("ADDED", "late"), ("BOOKMARK", "")]


async def turns() -> None:
    """Everybody who can go on does."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_nothing_is_sent_before_it_is_durable() -> None:
    far = Far()

    async def play() -> None:
        cluster, journal = on_disk(Disk())
        async with telling(cluster) as group:
            group.create_task(follow(stream(cluster, far), far, 1))
            written = group.create_task(cluster.handle(create("a")))
            await turns()
            assert far.events == []
            async with journal.running():
                await written
                await turns()
        assert far.events == [("ADDED", "a")]

    asyncio.run(play())


def test_what_never_gets_durable_is_sent_to_no_watch() -> None:
    far = Far()

    async def play() -> None:
        cluster, journal = on_disk(Disk(StoreFailed("EIO")))
        async with telling(cluster), journal.running():
            stretches = stream(cluster, far)
            await anext(stretches)
            cluster.world.handle(create("a"), ManualClock().now())
            cluster.publish()
            with pytest.raises(Unavailable, match="EIO"):
                await anext(stretches)
        assert far.events == []

    asyncio.run(play())
