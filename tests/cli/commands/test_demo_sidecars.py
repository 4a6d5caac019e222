"""The demo shows a hot sidecar in one pod, each state once."""

from __future__ import annotations

import asyncio
from typing import Any

from gitkruise.cli.commands.cluster.demo_sidecars import Pair
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock

EMPTY = "r.io/empty:v1"


def pod(first: str, second: str, working: int, *, name: str = "a", late: str = "") -> Obj:
    """A pod by the images of its pair; the container `late` still runs something else."""
    containers = [
        {"name": f"proxy-{at}", "image": image} for at, image in enumerate((first, second), 1)
    ]
    statuses: list[dict[str, Any]] = [
        {**c, "image": "old" if c["name"] == late else c["image"], "ready": c["name"] != late}
        for c in containers
    ]
    key = "kruise.io/sidecarset-working-hotupgrade-container"
    notes = {key: f'{{"proxy":"proxy-{working}"}}'}
    return {
        "metadata": {"name": name, "annotations": notes},
        "spec": {"containers": containers},
        "status": {"containerStatuses": statuses},
    }


def facts(*raw: Obj) -> list[PodFacts]:
    return [pod_facts(one) for one in raw]


def test_one_pod_is_followed_and_each_state_printed_once() -> None:
    lines: list[str] = []
    clock = ManualClock()
    pair = Pair(WorldTransport(Cluster(World(load_catalog()), clock.now)), clock, lines.append)
    rest = pod("r.io/p:v1", EMPTY, 1)
    other = pod("r.io/p:v1", EMPTY, 1, name="b")
    for seen in (
        facts(rest, other),
        facts(pod("r.io/p:v1", "r.io/p:v2", 2, late="proxy-2"), other),
        facts(pod("r.io/p:v1", "r.io/p:v2", 2, late="proxy-2"), pod("r.io/p:v1", "x", 2, name="b")),
        facts(pod("r.io/p:v1", "r.io/p:v2", 2)),
        facts(pod(EMPTY, "r.io/p:v2", 2)),
        facts(),
    ):
        pair.look(seen)
    assert [line.strip() for line in lines] == [
        "a  proxy-1 v1 serves · proxy-2 waits",
        "a  proxy-1 v1 still serves · proxy-2 v2 starts",
        "a  proxy-1 v1 still serves · proxy-2 v2 serves",
        "a  proxy-1 waits · proxy-2 v2 serves",
    ]


def test_it_asks_the_cluster_until_it_is_cancelled() -> None:
    clock = ManualClock()
    transport = WorldTransport(Cluster(World(load_catalog()), clock.now))
    lines: list[str] = []

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(Pair(transport, clock, lines.append).follow(1.0))
            await clock.sleep(1)
            task.cancel()

    clock.run(main())
    assert lines == [], "no pod has the label"
