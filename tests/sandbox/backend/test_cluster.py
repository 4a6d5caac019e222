"""Nothing leaves a cluster before it is durable; watches follow changes in order."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import Unavailable, WatchExpired
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.backend.encoding import Encoder
from gitkruise.sandbox.backend.group_commit import GroupCommit
from gitkruise.sandbox.backend.sqlite import CommitBatch, SqliteStore, StoreFailed, StoreFull
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, WatchEvent
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock

MAPS = ResourceRef("", "v1", "configmaps")


def create(name: str, **labels: str) -> ApiRequest:
    meta = {"name": name, "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    return ApiRequest(verb="create", resource=MAPS, namespace="default", body=body)


def read(name: str) -> ApiRequest:
    return ApiRequest(verb="get", resource=MAPS, namespace="default", name=name)


def watch(**params: str) -> ApiRequest:
    return ApiRequest(verb="watch", resource=MAPS, namespace="default", params=params)


def seen(event: WatchEvent) -> tuple[str, str]:
    return event.type, event.object["metadata"].get("name", "")


def test_a_watch_gives_what_is_there_and_what_comes(clock: ManualClock, cluster: Cluster) -> None:
    async def play() -> list[tuple[str, str]]:
        transport = WorldTransport(cluster)
        await transport.send(create("a"))
        got: list[tuple[str, str]] = []
        async with aclosing(transport.watch(watch())) as events:
            async for event in events:
                got.append(seen(event))
                if len(got) == 1:
                    await transport.send(create("b"))
                if len(got) == 2:
                    return got
        return got

    assert clock.run(play()) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_silent_watch_sends_bookmarks_and_ends_in_time(
    clock: ManualClock, cluster: Cluster
) -> None:
    terms = {"resourceVersion": str(cluster.version), "timeoutSeconds": "150"}

    async def events(**more: str) -> list[tuple[str, str]]:
        return [
            seen(event) async for event in WorldTransport(cluster).watch(watch(**terms, **more))
        ]

    async def play() -> None:
        assert await events(allowWatchBookmarks="true") == [("BOOKMARK", "")] * 2
        assert await events() == []

    clock.run(play())
    assert clock.monotonic() == pytest.approx(300)


def test_a_watch_too_far_behind_expires(
    clock: ManualClock, cluster: Cluster
) -> None:  # WATCH-6, WATCH-8
    cluster.world.state.journal.limit = 4

    async def play() -> None:
        async with aclosing(WorldTransport(cluster).watch(watch(resourceVersion="1"))) as events:
            for name in "abcdefghij":
                await cluster.handle(create(name))
            async for _ in events:
                pass

    with pytest.raises(WatchExpired):
        clock.run(play())


def test_closing_ends_watches(clock: ManualClock, cluster: Cluster) -> None:
    async def play() -> int:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(count())
            await asyncio.sleep(1)
            cluster.close()
        return task.result()

    async def count() -> int:
        events = WorldTransport(cluster).watch(watch(resourceVersion=str(cluster.version)))
        return len([event async for event in events])

    assert clock.run(play()) == 0


class Disk:
    """A store whose writes happen when the test says so."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.batches: list[CommitBatch] = []

    def write(self, batch: CommitBatch) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.batches.append(batch)


def on_disk(disk: Any) -> tuple[Cluster, GroupCommit]:
    encoder = Encoder()
    world = World(load_catalog())
    journal = GroupCommit(disk, encoder, world.version)
    return Cluster(world, ManualClock().now, journal=journal, encoder=encoder), journal


def test_a_reply_waits_for_the_disk_and_writes_gather() -> None:  # STORE-4
    disk = Disk()

    async def play() -> None:
        cluster, journal = on_disk(disk)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cluster.handle(create(f"c{n}"))) for n in range(50)]
            await asyncio.sleep(0)
            assert not any(task.done() for task in tasks)
            async with journal.running():
                await asyncio.wait(tasks)
        assert len({key.name for batch in disk.batches for key in batch.changes}) == 50
        assert len(disk.batches) <= 3

    asyncio.run(play())


def test_nothing_is_accepted_after_a_failed_commit() -> None:  # STORE-12
    async def play() -> None:
        cluster, journal = on_disk(Disk(None, StoreFailed("EIO")))
        async with journal.running():
            await cluster.handle(create("a"))
            for name in ("b", "c"):
                with pytest.raises(Unavailable, match="EIO"):
                    await cluster.handle(create(name))
            assert (await cluster.handle(read("a"))).status == 200
            assert cluster.world.version == int(
                (await cluster.handle(read("b"))).body["metadata"]["resourceVersion"]
            )

    asyncio.run(play())


def test_a_full_disk_refuses_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # STORE-13
    monkeypatch.setattr("gitkruise.sandbox.backend.group_commit.RETRY_FULL_S", 0.01)

    async def play() -> None:
        disk = Disk(None, StoreFull("no room"), StoreFull("no room"))
        cluster, journal = on_disk(disk)
        async with journal.running():
            await cluster.handle(create("a"))
            with pytest.raises(Unavailable, match="no room"):
                await cluster.handle(create("b"))
            assert (await cluster.handle(read("a"))).status == 200
            with pytest.raises(Unavailable, match="no room"):
                await cluster.handle(create("c"))
            await cluster.durable(cluster.version)
            await cluster.handle(create("c"))
        assert {key.name for batch in disk.batches for key in batch.changes} == {"a", "b", "c"}

    asyncio.run(play())


def test_a_world_comes_back_as_it_was(tmp_path: Path) -> None:
    async def write() -> tuple[int, Any]:
        store = SqliteStore(tmp_path / "db")
        cluster, journal = on_disk(store)
        async with journal.running():
            reply = await cluster.handle(create("kept", a="b"))
        store.close()
        return cluster.version, reply.body

    version, body = asyncio.run(write())
    store = SqliteStore(tmp_path / "db")
    objects, restored = store.load()
    store.close()
    world = World(load_catalog())
    world.restore(objects, restored)
    assert world.version > version
    cluster = Cluster(world, ManualClock().now)
    assert asyncio.run(cluster.handle(read("kept"))).body == body
