"""Commits that lead a Deployment over its canary, next to kube-controller-manager, on a node."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import Obj
from tests.kube.real.apiserver import talking
from tests.kube.real.commits import Commits, web
from tests.kube.real.shop import install_crds
from tests.node.cluster import Cluster
from tests.node.pods import namespace, pod_spec, ready, until

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]
SPACE = "deployed"


def app(image: str, canary: str) -> Obj:
    return web(image, canary, spec=pod_spec([{"name": "app"}]), replicas=4)


def live(node: Cluster) -> list[dict[str, Any]]:
    pods = node.ask(f"/api/v1/namespaces/{SPACE}/pods")["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def versions(node: Cluster) -> dict[str, int]:
    """Ready pods by the tag of their image."""
    tags = [p["spec"]["containers"][0]["image"].rpartition(":")[2] for p in live(node) if ready(p)]
    return dict(Counter(tags))


def test_a_canary_is_promoted_and_a_broken_one_rolled_back(node: Cluster, tmp_path: Path) -> None:
    namespace(node, SPACE)
    v1, v2 = node.image("deployed/app:v1"), node.image("deployed/app:v2")
    git = Commits(tmp_path, SPACE)

    async def play() -> None:
        async with talking(node.server) as transport:
            await install_crds(transport)
            first = git.write(app(v1, "1"), "First")
            async with git.followed(transport) as news:
                await news.settled(first)
                assert versions(node) == {"v1": 4}

                await news.settled(git.write(app(v2, "1"), "Canary"), State.HELD)
                assert versions(node) == {"v1": 3, "v2": 1}
                await news.settled(git.write(app(v2, "50%"), "More"), State.HELD)
                assert versions(node) == {"v1": 2, "v2": 2}
                await news.settled(git.write(app(v2, "100%"), "All"))
                assert versions(node) == {"v2": 4}

                broken = f"{node.registry.host}/deployed/app:missing"
                commit = git.write(app(broken, "1"), "Broken")
                await news.until(
                    lambda r: (
                        r.causal is not None and r.causal.id == commit and r.state is State.STUCK
                    )
                )
                assert versions(node)["v2"] >= 3
                await news.settled(git.write(app(v2, "1"), "Back"))
                assert versions(node) == {"v2": 4}

    try:
        asyncio.run(play())
    finally:  # else its pods come back for ever
        path = f"/apis/apps/v1/namespaces/{SPACE}/deployments/web"
        node.ask(path, "DELETE", {"propagationPolicy": "Foreground"})
        until(lambda: live(node), lambda found: not found)
