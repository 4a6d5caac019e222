"""The agent as the DaemonSet of deploy/agent: in a container, with the rights of its manifests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from gitkruise.kube.system.package_data import data_dir
from tests.node.agents import HOME
from tests.node.cluster import Cluster
from tests.node.engine import driving, install_pull_jobs
from tests.node.pods import pod, ready, status, until
from tests.node.python_image import gitkruise_image
from tests.node.test_recreate import Requests

pytestmark = [pytest.mark.node, pytest.mark.slow]
DAEMONSETS = f"/apis/apps/v1/namespaces/{HOME}/daemonsets"
PODS = f"/api/v1/namespaces/{HOME}/pods"


def manifest(node: Cluster) -> dict[str, Any]:
    """The DaemonSet with what its comments tell to patch: the image, and the runtime's folder.

    This cluster has no pod network, so pods reach the API server at the node's own address.
    """
    found: dict[str, Any] = yaml.safe_load(
        (data_dir("deploy") / "agent" / "daemonset.yaml").read_text()
    )
    spec = found["spec"]["template"]["spec"]
    spec["hostNetwork"] = True
    (container,) = spec["containers"]
    container["image"] = node.registry.add("gitkruise/gitkruise:v1", gitkruise_image())
    host, _, port = node.server.url.removeprefix("https://").partition(":")
    container["env"] += [
        {"name": "KUBERNETES_SERVICE_HOST", "value": host},
        {"name": "KUBERNETES_SERVICE_PORT", "value": port},
    ]
    next(v for v in spec["volumes"] if v["name"] == "runtime")["hostPath"]["path"] = str(
        node.workers[0].socket.parent
    )
    return found


def test_the_daemonset_carries_out_a_recreation(served: Cluster) -> None:
    """Root without capabilities, a read-only file system, and RBAC suffice."""
    install_pull_jobs(served)
    requests = Requests(served, "daemon")
    served.ask(requests.pods, "POST", pod("web", served.image("daemon/app:v1")))
    before = until(requests.web, ready)
    served.ask(DAEMONSETS, "POST", manifest(served))
    try:
        until(lambda: served.ask(PODS)["items"], lambda found: found and all(map(ready, found)))

        async def play() -> dict[str, Any]:
            async with driving(served):
                await asyncio.to_thread(requests.create, "one", {"name": "app"})
                return await asyncio.to_thread(requests.finish, "one")

        done = asyncio.run(play())
        assert [s["phase"] for s in done.get("containerRecreateStates", [done])] == ["Succeeded"]
        after = until(requests.web, ready)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert status(after)["restartCount"] == 1
        (agent,) = served.ask(PODS)["items"]
        assert status(agent, "agent")["restartCount"] == 0
    finally:
        served.ask(f"{DAEMONSETS}/gitkruise-agent", "DELETE")
        until(lambda: served.ask(PODS)["items"], lambda left: not left)
