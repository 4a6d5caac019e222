"""Requests that a real API server refuses through the webhook, and one that it completes."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.webhook.service import serve_webhooks
from tests.kube.real.apiserver import talking
from tests.kube.real.shop import install_crds
from tests.kube.real.test_webhook import hook_options
from tests.node.cluster import Cluster
from tests.node.engine import agent_process, driving
from tests.node.pods import pod, ready, until
from tests.node.repository import admitting
from tests.node.test_recreate import Requests
from tests.node.test_requests import completed

pytestmark = [
    pytest.mark.node,
    pytest.mark.slow,
    # An API server may call again while the webhook goes: the loop ends with that connection open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_bad_requests_are_refused_and_the_rest_goes_on(served: Cluster, tmp_path: Path) -> None:
    """The API server refuses what cannot be carried out, and the agent completes the good one."""
    requests = Requests(served, "bad")
    image = served.image("bad/app:v1")
    once = pod("over", image, restartPolicy="Never",
               container={"command": ["/app", "touch", "/tmp/done"]})  # fmt: skip
    served.ask(requests.pods, "POST", pod("web", image))
    served.ask(requests.pods, "POST", once)
    until(requests.web, ready)
    until(partial(served.ask, f"{requests.pods}/over"), is_over)
    rows = {
        ("nobody", "app"): "no found Pod named nobody",
        ("web", "nothing"): "container nothing not found in Pod",
        ("over", "app"): "not allowed to recreate containers in an inactive Pod",
    }

    def ask(name: str, pod_name: str, container: str) -> None:
        spec = {"podName": pod_name, "containers": [{"name": container}]}
        body = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
                "metadata": {"name": name}, "spec": spec}  # fmt: skip
        served.ask(requests.path, "POST", body)

    def play_rows() -> dict[str, Any]:
        for named, problem in rows.items():
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask("bad", *named)
            assert refused.value.code == 400
            assert problem in json.load(refused.value)["message"]
        ask("one", "web", "app")
        return completed(requests)

    async def play() -> dict[str, Any]:
        hooks, clock = hook_options(tmp_path), SystemClock()
        async with talking(served.server) as transport:
            await install_crds(transport)
            async with (
                serve_webhooks(hooks, transport, load_catalog(), clock),
                admitting(transport, hooks),
                driving(served),
                agent_process(served),
            ):
                return await asyncio.to_thread(play_rows)

    done = asyncio.run(play())
    assert [state["phase"] for state in done["containerRecreateStates"]] == ["Succeeded"]
    labels = served.ask(f"{requests.path}/one")["metadata"]["labels"]
    assert labels["crr.apps.kruise.io/node-name"] == served.workers[0].name


def is_over(found: dict[str, Any]) -> bool:
    return bool(found["status"].get("phase") == "Succeeded")
