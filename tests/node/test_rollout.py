"""Commits that change an image, carried out in place by a real kubelet and containerd."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gitkruise.model.gitops.unit_state import State
from tests.node.cluster import Cluster
from tests.node.pods import namespace, ready, status
from tests.node.repository import Repository, following

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]


def pods_of(node: Cluster, name: str) -> dict[str, dict[str, Any]]:
    """The pods by uid."""
    found = node.ask(f"/api/v1/namespaces/{name}/pods")["items"]
    return {pod["metadata"]["uid"]: pod for pod in found}


def images(pods: dict[str, dict[str, Any]]) -> list[tuple[str, int]]:
    """(what tells the image, restarts) of each pod's container, sorted."""
    tags = [(status(pod)["image"].rpartition(":")[2], status(pod)["restartCount"])
            for pod in pods.values()]  # fmt: skip
    return sorted(tags)


def test_a_canary_in_place_broken_and_rolled_back(node: Cluster, tmp_path: Path) -> None:
    """Held at the partition, promoted, Done; then a broken image is Stuck, and its revert Done."""
    namespace(node, "canary")
    v1, v2 = node.image("canary/app:v1"), node.image("canary/app:v2")
    repository = Repository(tmp_path, "canary")

    async def play() -> None:
        first = repository.write(v1)
        async with following(repository, node) as news:
            await news.settled(first)
            born = pods_of(node, "canary")
            assert images(born) == [("v1", 0)] * 3

            await news.settled(repository.write(v2, partition=2), State.HELD)
            held = pods_of(node, "canary")
            assert images(held) == [("v1", 0), ("v1", 0), ("v2", 1)]

            await news.settled(repository.write(v2))
            done = pods_of(node, "canary")
            assert images(done) == [("v2", 1)] * 3
            assert done.keys() == held.keys() == born.keys()
            for uid, pod in done.items():
                assert ready(pod)
                assert status(pod)["imageID"] != status(born[uid])["imageID"]

            broken = f"{node.registry.host}/canary/app:missing"
            commit = repository.write(broken)
            await news.until(
                lambda r: r.causal is not None and r.causal.id == commit and r.state is State.STUCK
            )
            stuck = pods_of(node, "canary")
            assert sum(map(ready, stuck.values())) == 2

            await news.settled(repository.write(v2))
            back = pods_of(node, "canary")
            assert all(map(ready, back.values()))
            assert back.keys() == born.keys()

    asyncio.run(play())
