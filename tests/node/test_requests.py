"""Requests on a real node without OpenKruise: our controllers, the agent as a process, crashes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitkruise.wire.primitives.times import parse_time
from tests.node.cluster import Cluster
from tests.node.engine import AgentProcess, agent_process, driving, install_pull_jobs
from tests.node.pods import pod, pod_spec, ready, status, until
from tests.node.test_recreate import Requests, node_events

pytestmark = [pytest.mark.node, pytest.mark.slow]
TOUCH = {"exec": {"command": ["/app", "touch", "/shared/hook"]}}
GATE = "KruisePodReady"


def started(found: dict[str, Any], container: str) -> datetime:
    at = parse_time(status(found, container)["state"]["running"]["startedAt"])
    assert at is not None
    return at


def completed(requests: Requests, name: str = "one") -> dict[str, Any]:
    """The status of a request once the controllers and the agent completed it."""
    found: dict[str, Any] = until(
        lambda: requests.node.ask(f"{requests.path}/{name}").get("status", {}),
        lambda s: s.get("phase") == "Completed",
    )
    return found


def kruise_ready(found: dict[str, Any]) -> dict[str, Any]:
    conditions = found["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == GATE), {})


def test_containers_are_recreated_in_order_out_of_service(served: Cluster, tmp_path: Path) -> None:
    """Drained, then the hook, then one after the other once the first ran for long enough."""
    requests = Requests(served, "ordered")
    tmp_path.chmod(0o777)
    image = served.image("ordered/app:v1")
    mount = [{"name": "shared", "mountPath": "/shared"}]
    app = {"name": "app", "image": image, "volumeMounts": mount, "lifecycle": {"preStop": TOUCH}}
    other = {"name": "other", "image": image}
    volume = {"name": "shared", "hostPath": {"path": str(tmp_path)}}
    spec = pod_spec([app, other], volumes=[volume], readinessGates=[{"conditionType": GATE}])
    served.ask(requests.pods, "POST", {"metadata": {"name": "web"}, "spec": spec})
    until(requests.web, lambda found: status(found).get("ready"))
    good = {"type": GATE, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [*requests.web()["status"]["conditions"], good]
    served.ask(f"{requests.pods}/web/status", "PATCH", {"status": {"conditions": conditions}})
    until(requests.web, ready)

    async def play() -> dict[str, Any]:
        async with driving(served), agent_process(served):
            await asyncio.to_thread(
                requests.create, "one", {"name": "app", "preStop": TOUCH}, {"name": "other"},
                orderedRecreate=True, unreadyGracePeriodSeconds=1, minStartedSeconds=2,
            )  # fmt: skip
            drained = await asyncio.to_thread(until, requests.web, not_in_service)
            assert kruise_ready(drained)["message"] == (
                '[{"userAgent":"ContainerRecreateRequest","key":"ordered/one"}]'
            )
            done = await asyncio.to_thread(completed, requests)
            await asyncio.to_thread(until, requests.web, ready)
            return done

    done = asyncio.run(play())
    assert [state["phase"] for state in done["containerRecreateStates"]] == ["Succeeded"] * 2
    drain = parse_time(done["conditions"][0]["lastTransitionTime"])
    hook = parse_time((tmp_path / "hook").read_text().strip())
    assert drain is not None
    assert hook is not None
    assert hook >= drain + timedelta(seconds=1)
    after = requests.web()
    assert started(after, "other") >= started(after, "app") + timedelta(seconds=2)
    assert [status(after, name)["restartCount"] for name in ("app", "other")] == [1, 1]
    assert kruise_ready(after)["message"] == "[]"


def not_in_service(found: dict[str, Any]) -> bool:
    return kruise_ready(found).get("status") == "False"


def kill_agent(agent: AgentProcess) -> None:
    agent.kill()
    agent.start()


def kill_kubelet(agent: AgentProcess) -> None:
    agent.worker.processes.kill("kubelet")
    agent.worker.start_kubelet()


def kill_containerd(agent: AgentProcess) -> None:
    agent.worker.processes.kill("containerd")
    agent.worker.start_containerd()


@pytest.mark.parametrize("crash", [kill_agent, kill_kubelet, kill_containerd])
def test_a_crash_in_the_middle_of_a_stop_recreates_once(
    served: Cluster, crash: Callable[[AgentProcess], None]
) -> None:
    """The container stops slowly; whatever is killed meanwhile, it is recreated exactly once."""
    requests = Requests(served, crash.__name__.replace("_", "-"))
    slow = {"env": [{"name": "STOP_TAKES", "value": "2s"}]}
    body = pod("web", served.image("crash/app:v1"), container=slow,
               terminationGracePeriodSeconds=20)  # fmt: skip
    served.ask(requests.pods, "POST", body)
    until(requests.web, ready)

    async def play() -> dict[str, Any]:
        async with driving(served), agent_process(served) as agent:
            await asyncio.to_thread(requests.create, "one", {"name": "app"})
            await asyncio.to_thread(
                until,
                lambda: node_events(served, requests),
                lambda seen: "Stopping container app by ContainerRecreateRequest one" in seen,
            )
            await asyncio.to_thread(crash, agent)
            return await asyncio.to_thread(completed, requests)

    done = asyncio.run(play())
    assert [state["phase"] for state in done["containerRecreateStates"]] == ["Succeeded"]
    assert status(requests.web())["restartCount"] == 1


def test_jobs_pull_with_a_login_and_name_what_fails(served: Cluster) -> None:
    """A private image with the right secret is pulled; a wrong secret and a missing tag fail."""
    install_pull_jobs(served)
    requests = Requests(served, "pulls")
    base = requests.pods.removesuffix("/pods")
    for name, login in (("good", served.registry.login), ("bad", "puller:wrong")):
        username, _, password = login.partition(":")
        auths = {served.registry.host: {"username": username, "password": password}}
        text = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
        body = {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
                "data": {".dockerconfigjson": text}}  # fmt: skip
        served.ask(f"{base}/secrets", "POST", body)
    good, bad = served.image("private/job:v1"), served.image("private/other:v1")
    wanted = {"good": (good, "good"), "bad": (bad, "bad"), "missing": (f"{good}0", "good")}
    jobs = requests.path.replace("containerrecreaterequests", "imagepulljobs")

    async def play() -> dict[str, Any]:
        async with driving(served), agent_process(served):
            for name, (image, secret) in wanted.items():
                spec = {"image": image, "pullSecrets": [secret],
                        "pullPolicy": {"backoffLimit": 0},
                        "completionPolicy": {"type": "Always"}}  # fmt: skip
                body = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                        "metadata": {"name": name}, "spec": spec}  # fmt: skip
                await asyncio.to_thread(served.ask, jobs, "POST", body)
            return await asyncio.to_thread(
                until,
                lambda: {
                    one["metadata"]["name"]: one.get("status", {})
                    for one in served.ask(jobs)["items"]
                },
                lambda seen: all("completionTime" in s for s in seen.values()),
            )

    found = asyncio.run(play())
    counts = {name: (s["succeeded"], s["failed"]) for name, s in found.items()}
    assert counts == {"good": (1, 0), "bad": (0, 1), "missing": (0, 1)}
    assert good in served.workers[0].ctr("images", "list", "-q").stdout
