"""Sidecars of real pods: injected by the webhook, started in order, updated in place and hot."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitkruise.wire.primitives.times import parse_time
from tests.kube.real.test_webhook import hook_options
from tests.node.cluster import Cluster
from tests.node.pods import namespace, pod_spec, ready, status
from tests.node.repository import Repository, following
from tests.node.test_requests import started
from tests.node.test_rollout import pods_of

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
    # An API server may call again while the webhook goes: the loop ends with that connection open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NAME = "sidecars"
READY_AFTER_S = 2


def cloneset(image: str) -> dict[str, Any]:
    """Two pods whose second container is to start first, and is ready after a while."""
    labels = {"app": NAME}
    probe = {"exec": {"command": ["/app", "touch", "/tmp/ready"]},
             "initialDelaySeconds": READY_AFTER_S}  # fmt: skip
    containers: list[dict[str, Any]] = [
        {"name": "app", "image": image},
        {"name": "first", "image": image, "readinessProbe": probe,
         "env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "5"}]},
    ]  # fmt: skip
    template = {"metadata": {"labels": labels}, "spec": pod_spec(containers)}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": NAME, "namespace": NAME},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def sidecarset(log: str, mesh: str, placeholder: str) -> dict[str, Any]:
    """A sidecar `log`, and a pair `mesh` that takes turns."""
    hot = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": placeholder}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": NAME},
        "spec": {
            "selector": {"matchLabels": {"app": NAME}},
            "containers": [
                {"name": "log", "image": log},
                {"name": "mesh", "image": mesh, "upgradeStrategy": hot},
            ],
        },
    }


def running(pod: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """(tag of the image, restarts) of each container."""
    return {s["name"]: (s["image"].rpartition("/")[2], s["restartCount"])
            for s in pod["status"]["containerStatuses"]}  # fmt: skip


def ended(pod: dict[str, Any], container: str) -> datetime:
    at = parse_time(status(pod, container)["lastState"]["terminated"]["finishedAt"])
    assert at is not None
    return at


def test_sidecars_start_in_order_and_are_updated_in_place_and_hot(
    node: Cluster, tmp_path: Path
) -> None:
    """Pods stay; only the changed sidecar restarts; of a hot pair one always runs."""
    namespace(node, NAME)
    one, two, wait = (node.image(f"{NAME}/side:{tag}") for tag in ("v1", "v2", "wait"))
    app = node.image(f"{NAME}/app:v1")
    repository = Repository(tmp_path, NAME)
    began = {"app": ("app:v1", 0), "first": ("app:v1", 0), "log": ("side:v1", 0),
             "mesh-1": ("side:v1", 0), "mesh-2": ("side:wait", 0)}  # fmt: skip
    stages = (
        ((one, one), began),
        ((two, one), began | {"log": ("side:v2", 1)}),
        ((two, two), began | {"log": ("side:v2", 1), "mesh-1": ("side:wait", 1),
                              "mesh-2": ("side:v2", 1)}),
    )  # fmt: skip

    async def play() -> list[dict[str, dict[str, Any]]]:
        seen = []
        async with following(repository, node, hook_options(tmp_path)) as news:
            for (log, mesh), _ in stages:
                objects = (sidecarset(log, mesh, wait), cloneset(app))
                await news.settled(repository.commit(*objects, message=f"{log} {mesh}"))
                seen.append(pods_of(node, NAME))
        return seen

    found = asyncio.run(play())
    for pods, (_, expected) in zip(found, stages, strict=True):
        assert [running(pod) for pod in pods.values()] == [expected] * 2
        assert all(map(ready, pods.values()))
        assert pods.keys() == found[0].keys()
    for pod in found[0].values():
        assert started(pod, "app") >= started(pod, "first") + timedelta(seconds=READY_AFTER_S)
    for pod in found[-1].values():
        assert started(pod, "mesh-2") <= ended(pod, "mesh-1")
