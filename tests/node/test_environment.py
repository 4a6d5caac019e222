"""Environment from a label, updated in place: by the agent alone, and with a new image."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.node.agents import acting
from tests.node.cluster import Cluster
from tests.node.pods import namespace, status
from tests.node.repository import Repository, following
from tests.node.test_rollout import images, pods_of

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]


def test_a_label_in_the_environment_is_updated_in_place(served: Cluster, tmp_path: Path) -> None:
    """Each commit restarts a container once, and the rollout is Done; the pods stay."""
    namespace(served, "tiers")
    v1, v2 = served.image("tiers/app:v1"), served.image("tiers/app:v2")
    repository = Repository(tmp_path, "tiers", replicas=2)

    async def play() -> None:
        first = repository.write(v1, tier="gold")
        async with acting(served), following(repository, served) as news:
            await news.settled(first)
            born = pods_of(served, "tiers")
            await news.settled(repository.write(v1, tier="silver"))
            relabelled = pods_of(served, "tiers")
            assert relabelled.keys() == born.keys()
            assert images(relabelled) == [("v1", 1)] * 2
            await news.settled(repository.write(v2, tier="iron"))
            both = pods_of(served, "tiers")
            assert both.keys() == born.keys()
            assert images(both) == [("v2", 2)] * 2
            for pod in both.values():
                bare = status(pod)["containerID"].rpartition("/")[2]
                output = served.workers[0].ctr("containers", "info", bare).stdout
                assert '"TIER=iron"' in output

    asyncio.run(play())
