"""What containers were started with: the report on a pod, and the restart for new metadata."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import SystemClock
from gitkruise.planner.pods.container_hashes import environment_hash, plain_hash
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiRequest
from tests.agent.cri_server import MemoryRuntime
from tests.agent.scenes import HANG_S, NODE, Scene, play, scene
from tests.worlds import SPACE

META, STATE = "apps.kruise.io/runtime-containers-meta", "apps.kruise.io/inplace-update-state"
IMAGE = "registry.example.com/app:v1"
TIER = {
    "name": "TIER",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}},
}


async def pod(here: Scene, *, gate: bool = True) -> str:
    """Create the pod `web` with label tier=gold in its environment; returns its uid."""
    containers = [{"name": "app", "image": IMAGE, "env": [TIER]}]
    spec: dict[str, Any] = {"containers": containers, "nodeName": NODE}
    if gate:
        spec["readinessGates"] = [{"conditionType": "InPlaceUpdateReady"}]
    body = {"metadata": {"name": "web", "labels": {"tier": "gold"}}, "spec": spec}
    ask = ApiRequest(verb="create", resource=PODS, namespace=SPACE, body=body)
    uid = str((await here.transport.send(ask)).body["metadata"]["uid"])
    await patch(here, {"status": {"phase": "Running"}}, "status")
    return uid


async def patch(here: Scene, body: Obj, subresource: str = "") -> None:
    ask = ApiRequest(
        verb="patch", resource=PODS, namespace=SPACE, name="web", subresource=subresource,
        body=body, content_type=MERGE_PATCH,
    )  # fmt: skip
    await here.transport.send(ask)


async def report(here: Scene, pleased: Callable[[Obj], object]) -> Obj:
    """The only entry of the report, once it pleases."""
    clock = SystemClock()
    entry: Obj = {}
    try:
        async with clock.timeout(HANG_S):
            while True:
                ask = ApiRequest(verb="get", resource=PODS, namespace=SPACE, name="web")
                found = thaw((await here.transport.send(ask)).body)
                text = found["metadata"].get("annotations", {}).get(META)
                if text:
                    (entry,) = json.loads(text)["containers"]
                    if pleased(entry):
                        return entry
                await clock.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"still waiting: {entry}; {here.memory.asked}") from None


def run_container(memory: MemoryRuntime, uid: str, tier: str, attempt: int = 0) -> None:
    memory.create(uid, "app", attempt)
    memory.containers[-1].environment = (f"TIER={tier}", "PATH=/bin")
    memory.containers[-1].plain = plain_hash("app", IMAGE)


def hashes(tier: str) -> dict[str, int]:
    environment = environment_hash({"TIER": tier})
    return {"plainHash": plain_hash("app", IMAGE), "extractedEnvFromMetadataHash": environment}


def test_a_container_is_reported(tmp_path: Path) -> None:
    async def body() -> None:
        async with scene(tmp_path) as here, here.agent():
            uid = await pod(here)
            run_container(here.memory, uid, "gold")
            await patch(here, {"metadata": {"annotations": {"touched": "1"}}})
            entry = await report(here, lambda _: True)
            assert entry == {
                "name": "app",
                "containerID": "memory://c-0",
                "restartCount": 0,
                "hashes": hashes("gold"),
            }

    play(body)


@pytest.mark.slow
def test_an_environment_of_old_metadata_is_restarted_during_an_update(tmp_path: Path) -> None:
    """Not before the pod is out of service for it; once; and the new container is reported."""

    async def body() -> None:
        async with scene(tmp_path, MemoryRuntime(restarts=False)) as here, here.agent():
            uid = await pod(here)
            run_container(here.memory, uid, "gold")
            await patch(here, {"metadata": {"labels": {"tier": "silver"}}})
            await report(here, lambda entry: entry["hashes"] == hashes("gold"))
            assert here.memory.asked == []
            state = {
                "revision": "r2",
                "updateTimestamp": "2026-11-24T10:00:00Z",
                "lastContainerStatuses": None,
                "updateEnvFromMetadata": True,
            }
            await patch(here, {"metadata": {"annotations": {STATE: json.dumps(state)}}})
            condition = {"type": "InPlaceUpdateReady", "status": "False"}
            await patch(here, {"status": {"conditions": [condition]}}, "status")
            (event,) = await here.events("Killing")
            assert event["involvedObject"]["fieldPath"] == "spec.containers{app}"
            run_container(here.memory, uid, "silver", attempt=1)
            await patch(here, {"metadata": {"annotations": {"touched": "1"}}})
            entry = await report(here, lambda entry: entry["restartCount"] == 1)
            assert entry["hashes"] == hashes("silver")
            assert here.memory.asked == [("stop", "c-0", 30)]

    play(body)


def test_a_pod_that_is_not_updated_in_place_is_left_alone(tmp_path: Path) -> None:
    async def body() -> None:
        async with scene(tmp_path) as here, here.agent():
            uid = await pod(here, gate=False)
            run_container(here.memory, uid, "gold")
            await patch(here, {"metadata": {"labels": {"tier": "silver"}}})
            await here.request("after", {"name": "app"}, uid=uid)
            await here.until("after", lambda _: here.memory.asked)
            ask = ApiRequest(verb="get", resource=PODS, namespace=SPACE, name="web")
            found = (await here.transport.send(ask)).body
            assert META not in found["metadata"].get("annotations", {})

    play(body)
