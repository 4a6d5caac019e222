"""The agent on a real node: containers stopped over containerd's socket, restarted by kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gitkruise.agent.service import AgentOptions, agent
from gitkruise.errors import ClusterFailed
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import data_dir
from tests.kube.real.apiserver import talking
from tests.node.agents import acting
from tests.node.cluster import Cluster
from tests.node.pods import namespace, pod, pod_spec, ready, status, until

pytestmark = [pytest.mark.node, pytest.mark.slow]
RBAC = "rbac.authorization.k8s.io"
RIGHTS = data_dir("deploy") / "agent" / "rbac.yaml"
GROUP = "/apis/apps.kruise.io/v1beta1/namespaces"


class Requests:
    """ContainerRecreateRequests in a namespace, with the parts of admission and controller."""

    def __init__(self, node: Cluster, name: str) -> None:
        self.node, self.pods = node, f"{namespace(node, name)}/pods"
        self.path = f"{GROUP}/{name}/containerrecreaterequests"

    def create(self, name: str, *containers: dict[str, Any], **strategy: Any) -> None:
        """A request for containers of the pod `web`, as admission stores it."""
        found = self.web()
        context = [
            {**c, "statusContext": {key: status(found, c["name"])[key] for key in
                                    ("containerID", "restartCount")}}
            for c in containers
        ]  # fmt: skip
        labels = {
            "crr.apps.kruise.io/node-name": found["spec"]["nodeName"],
            "crr.apps.kruise.io/pod-uid": found["metadata"]["uid"],
            "crr.apps.kruise.io/active": "true",
        }
        spec = {"podName": "web", "containers": context, "strategy": strategy}
        body = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
                "metadata": {"name": name, "labels": labels}, "spec": spec}  # fmt: skip
        self.node.ask(self.path, "POST", body)

    def web(self) -> dict[str, Any]:
        found: dict[str, Any] = self.node.ask(f"{self.pods}/web")
        return found

    def finish(self, name: str) -> dict[str, Any]:
        """Report the pod's containers into the request until it completes; returns its status."""

        def look() -> dict[str, Any]:
            found = self.node.ask(f"{self.path}/{name}").get("status", {})
            seen = [
                {key: s[key] for key in ("name", "ready", "restartCount", "containerID")}
                for s in self.web()["status"]["containerStatuses"]
                if s["restartCount"] and "running" in s["state"]
            ]
            if seen and seen != found.get("containerStatusSnapshot"):
                report = {"status": {"containerStatusSnapshot": seen}}
                self.node.ask(f"{self.path}/{name}/status", "PATCH", report)
            return dict(found)

        found: dict[str, Any] = until(look, lambda s: s.get("phase") == "Completed")
        return found


def node_events(node: Cluster, requests: Requests) -> list[str]:
    """Messages of the events in the namespace."""
    base = requests.pods.removesuffix("/pods")
    return [event["message"] for event in node.ask(f"{base}/events")["items"]]


def test_a_container_is_recreated_with_its_hook(served: Cluster, tmp_path: Path) -> None:
    """The pod keeps its uid; the hook ran before the stop; the other container runs on."""
    requests = Requests(served, "recreate")
    tmp_path.chmod(0o777)
    image = served.image("recreate/app:v1")
    touch = {"exec": {"command": ["/app", "touch", "/shared/hook"]}}
    mount = [{"name": "shared", "mountPath": "/shared"}]
    app = {"name": "app", "image": image, "volumeMounts": mount, "lifecycle": {"preStop": touch}}
    other = {"name": "other", "image": image}
    volume = {"name": "shared", "hostPath": {"path": str(tmp_path)}}
    body = {"metadata": {"name": "web"}, "spec": pod_spec([app, other], volumes=[volume])}
    served.ask(requests.pods, "POST", body)
    before = until(requests.web, ready)

    async def play() -> dict[str, Any]:
        async with acting(served) as running:
            assert running.name == "containerd"
            target = {"name": "app", "preStop": touch}
            await asyncio.to_thread(requests.create, "one", target)
            return await asyncio.to_thread(requests.finish, "one")

    done = asyncio.run(play())
    assert done["containerRecreateStates"] == [
        {"name": "app", "phase": "Succeeded", "isKilled": True}
    ]
    events = node_events(served, requests)
    assert "Stopping container app by ContainerRecreateRequest one" in events
    after = requests.web()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert status(after)["restartCount"] == 1
    assert status(after)["containerID"] != status(before)["containerID"]
    assert status(after, "other") == status(before, "other")
    assert (tmp_path / "hook").exists()


def test_containerd_is_killed_before_the_request(served: Cluster) -> None:
    """The agent waits for the runtime to come back, and the container is recreated once."""
    requests = Requests(served, "outage")
    served.ask(requests.pods, "POST", pod("web", served.image("outage/app:v1")))
    until(requests.web, ready)
    worker = served.workers[0]

    async def play() -> dict[str, Any]:
        async with acting(served):
            worker.processes.kill("containerd")
            await asyncio.to_thread(requests.create, "one", {"name": "app"})
            await asyncio.to_thread(worker.start_containerd)
            return await asyncio.to_thread(requests.finish, "one")

    done = asyncio.run(play())
    assert [state["phase"] for state in done["containerRecreateStates"]] == ["Succeeded"]
    assert status(requests.web())["restartCount"] == 1


@pytest.mark.parametrize(
    ("socket", "code"), [("missing.sock", "GK5120"), ("containerd.sock.ttrpc", "GK5121")]
)
def test_an_agent_without_cri_says_so(node: Cluster, socket: str, code: str) -> None:
    """A socket that is missing, and containerd's other one, which does not speak CRI."""
    worker = node.workers[0]
    options = AgentOptions(node=worker.name, socket=worker.folder / socket)

    async def play() -> None:
        async with talking(node.server) as transport, agent(options, transport, SystemClock()):
            pytest.fail("connected")

    with pytest.raises(ClusterFailed) as caught:
        asyncio.run(play())
    assert [finding.code for finding in caught.value.findings] == [code]
