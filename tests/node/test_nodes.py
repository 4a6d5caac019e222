"""Three nodes with an agent each: requests and pulls reach the node that they are about."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from tests.node.agents import acting
from tests.node.cluster import NAMES, Cluster, joined
from tests.node.engine import driving, install_pull_jobs
from tests.node.pods import pod, ready, status, until
from tests.node.test_recreate import Requests
from tests.node.test_requests import completed

pytestmark = [pytest.mark.node, pytest.mark.slow]


def finished(job: dict[str, Any]) -> bool:
    return "completionTime" in job.get("status", {})


def test_agents_of_three_nodes_keep_to_their_own(served: Cluster) -> None:
    """A pod of the third node is recreated there; a job pulls everywhere, one node at a time."""
    requests = Requests(served, "nodes")
    with joined(served, *NAMES[1:]) as others:
        install_pull_jobs(served)
        body = pod("web", served.image("nodes/app:v1"), nodeName=others[-1].name)
        served.ask(requests.pods, "POST", body)
        until(requests.web, ready)
        image = served.image("nodes/pulled:v1")
        spec = {"image": image, "parallelism": 1, "completionPolicy": {"type": "Always"}}
        job = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
               "metadata": {"name": "everywhere"}, "spec": spec}  # fmt: skip
        jobs = requests.path.replace("containerrecreaterequests", "imagepulljobs")

        async def play() -> dict[str, Any]:
            async with AsyncExitStack() as running, driving(served):
                for worker in served.workers:
                    await running.enter_async_context(acting(served, worker))
                await asyncio.to_thread(requests.create, "one", {"name": "app"})
                await asyncio.to_thread(served.ask, jobs, "POST", job)
                await asyncio.to_thread(completed, requests)
                look = partial(served.ask, f"{jobs}/everywhere")
                found = await asyncio.to_thread(until, look, finished)
                return dict(found["status"])

        pulled = asyncio.run(play())
        assert status(requests.web())["restartCount"] == 1
        assert (pulled["desired"], pulled["succeeded"], pulled["failed"]) == (3, 3, 0)
        for worker in served.workers:
            assert image in worker.ctr("images", "list", "-q").stdout
