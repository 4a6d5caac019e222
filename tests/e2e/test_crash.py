"""kill -9 in the middle of a rollout: the next process finishes it, and no pod restarts twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Pod, sandbox
from tests.e2e.program import eventually, gitkruise, started
from tests.e2e.shop import CHECKOUT, Shop, create

pytestmark = pytest.mark.e2e

NEW = "registry.example.com/checkout:v2.4.1"
DEPLOYMENT = "apps/storefront"  # a cluster without controllers has nobody who drives it
RUN = ("run", "--config", "gitkruise.yaml", "--sandbox", "--cluster", "sandbox")


def updated(pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.image == NEW]


def test_killed_in_the_middle_of_an_in_place_update(tmp_path: Path) -> None:
    with sandbox(tmp_path / "state", "--no-controllers") as cluster:
        shop = create(tmp_path, cluster.env, without=DEPLOYMENT)
        with started(gitkruise(*RUN), cluster.env, shop.clone) as first:
            first.until(r"unit shop/shop state=Done")
            before = cluster.pods("checkout")
            assert [p.ready for p in before] == [True] * 10
            shop.edit(CHECKOUT, "checkout:v2.4.0", "checkout:v2.4.1")
            commit = shop.push("checkout v2.4.1")
            eventually(lambda: len(updated(cluster.pods("checkout"))) >= 4)
            first.signal(signal.SIGKILL)
            first.ends()
        halfway = cluster.pods("checkout")
        assert 4 <= len(updated(halfway)) < 10
        finish(cluster, shop, commit)
        after = cluster.pods("checkout")
        assert [(p.name, p.uid) for p in after] == [(p.name, p.uid) for p in before]
        assert [p.restarts for p in after] == [p.restarts + 1 for p in before]


def finish(cluster: Cluster, shop: Shop, commit: str) -> None:
    """Start again and see the rollout through, in the cluster and on the status branch."""
    with started(gitkruise(*RUN), cluster.env, shop.clone) as second:
        second.until(rf"cloneset/checkout .*state=Done new=10 .*commit={commit[:7]}")
        eventually(lambda: recorded_done(shop, commit))
        second.signal(signal.SIGTERM)
        assert second.ends() == 0
    assert [p.ready for p in cluster.pods("checkout")] == [True] * 10


def recorded_done(shop: Shop, commit: str) -> bool:
    shop.git("fetch", "-q", "origin")
    words = ["--all-match", f"--grep=Gitkruise-Causal: {commit}", "--grep=Gitkruise-Phase: Done"]
    return bool(shop.git("log", *words, "--format=%h", "origin/gitkruise/status/sandbox"))
