"""ContainerRecreateRequests from the API server to the runtime and back."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.agent.cri_server import MemoryRuntime
from tests.agent.scenes import play, scene

APP, LOG = {"name": "app"}, {"name": "log"}


def stops(memory: MemoryRuntime) -> list[tuple[object, ...]]:
    return [asked for asked in memory.asked if asked[0] == "stop"]


def test_a_container_is_stopped_and_its_successor_awaited(tmp_path: Path) -> None:
    async def body() -> None:
        async with scene(tmp_path) as here, here.agent():
            here.memory.create("a", "app")
            here.memory.create("a", "log")
            await here.request("once", APP, strategy={"terminationGracePeriodSeconds": 7})
            killed = [{"name": "app", "phase": "Recreating", "isKilled": True}]
            await here.until("once", lambda s: s.get("containerRecreateStates") == killed)
            await here.snapshot("once")
            status = await here.completed("once")
            assert status["containerRecreateStates"] == [
                {"name": "app", "phase": "Succeeded", "isKilled": True}
            ]
            assert status["completionTime"]
            assert "message" not in status
            assert stops(here.memory) == [("stop", "c-0", 7)]
            (event,) = await here.events("Killing")
            assert event["message"] == "Stopping container app by ContainerRecreateRequest once"
            assert event["involvedObject"]["fieldPath"] == "spec.containers{app}"
            assert event["source"] == {"component": "kruise-daemon-crr"}

    play(body)


def test_the_hook_runs_first_and_a_failing_one_does_not_prevent_the_stop(tmp_path: Path) -> None:
    async def body() -> None:
        async with scene(tmp_path, MemoryRuntime(exec_code=3)) as here, here.agent():
            here.memory.create("a", "app")
            hook = {"exec": {"command": ["/bin/drain", "all"]}}
            await here.request("hook", {**APP, "preStop": hook})
            await here.until("hook", lambda _: stops(here.memory))
            assert here.memory.asked == [
                ("exec", "c-0", "/bin/drain", "all"),
                ("stop", "c-0", 30),
            ]
            (event,) = await here.events("FailedPreStopHook")
            assert event["message"] == "command exited with 3: said why"

    play(body)


def test_requests_of_a_pod_follow_each_other(tmp_path: Path) -> None:
    """The second waits as Pending, and goes on when the first is over (F.1)."""

    async def body() -> None:
        async with scene(tmp_path) as here:
            here.memory.create("a", "app")
            here.memory.create("a", "log")
            await here.request("first", APP)
            await here.request("second", LOG)
            async with here.agent():
                await here.until("second", lambda s: s.get("phase") == "Pending")
                await here.until("first", lambda _: stops(here.memory))
                await here.snapshot("first")
                await here.completed("first")
                await here.until("second", lambda _: len(stops(here.memory)) == 2)
                await here.snapshot("second")
                await here.completed("second")
            assert stops(here.memory) == [("stop", "c-0", 30), ("stop", "c-1", 30)]

    play(body)


@pytest.mark.slow
def test_a_runtime_that_is_away_is_asked_again(tmp_path: Path) -> None:
    """An unanswered stop is no failure: the container is looked at, and stopped once."""

    async def body() -> None:
        async with scene(tmp_path) as here:
            here.memory.create("a", "app")
            await here.request("away", APP)
            here.memory.failing["StopContainer"] = (grpc.StatusCode.UNAVAILABLE, "away")
            async with here.agent():
                await here.events("Killing")
                here.memory.failing.clear()
                await here.until("away", lambda _: stops(here.memory))
                await here.snapshot("away")
                status = await here.completed("away")
            assert status["containerRecreateStates"][0]["phase"] == "Succeeded"
            assert len(stops(here.memory)) == 1

    play(body)


def test_a_stop_that_the_runtime_refuses_ends_the_request(tmp_path: Path) -> None:
    async def body() -> None:
        async with scene(tmp_path) as here:
            here.memory.create("a", "app")
            here.memory.create("a", "log")
            here.memory.failing["StopContainer"] = (grpc.StatusCode.INTERNAL, "no such cgroup")
            await here.request("refused", APP, LOG)
            async with here.agent():
                status = await here.completed("refused")
            app, log = status["containerRecreateStates"]
            assert app["phase"] == "Failed"
            assert app["message"] == "kill container error: StopContainer: no such cgroup"
            assert log["phase"] == "Pending"

    play(body)


def test_an_agent_that_starts_again_stops_no_successor(tmp_path: Path) -> None:
    """The agent ends between the stop and its report: its successor reports, and stops nothing."""

    async def body() -> None:
        async with scene(tmp_path) as here:
            here.memory.create("a", "app")
            await here.request("killed", APP, strategy={"forceRecreate": True})
            async with here.agent():
                await here.until("killed", lambda _: stops(here.memory))
            await here.patch("killed", {"containerRecreateStates": [
                {"name": "app", "phase": "Pending", "message": "stopping memory://c-0"}
            ]})  # fmt: skip
            async with here.agent():
                await here.snapshot("killed")
                status = await here.completed("killed")
            assert status["containerRecreateStates"] == [
                {"name": "app", "phase": "Succeeded", "isKilled": True}
            ]
            assert len(stops(here.memory)) == 1

    play(body)


def test_a_request_for_another_node_is_left_alone(tmp_path: Path) -> None:
    async def body() -> None:
        async with scene(tmp_path) as here, here.agent():
            here.memory.create("a", "app")
            await here.request("theirs", APP, node="worker-2")
            await here.request("mine", APP)
            await here.until("mine", lambda _: stops(here.memory))
            assert "status" not in await here.read("theirs")

    play(body)


def test_the_successor_of_a_pod_is_not_stopped(tmp_path: Path) -> None:
    """The pod was replaced by one of the same name before the agent looked."""

    async def body() -> None:
        async with scene(tmp_path) as here:
            here.memory.create("a", "app")
            await here.request("late", APP)
            here.memory.containers.clear()
            here.memory.create("b", "app")
            waits = {"name": "app", "phase": "Pending", "message": "not found container on Node"}
            async with here.agent():
                await here.until("late", lambda s: s.get("containerRecreateStates") == [waits])
            assert stops(here.memory) == []

    play(body)
