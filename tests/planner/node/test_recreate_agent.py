"""Requests to recreate containers on a node: RECREATE-9 to RECREATE-16, CRR-40 to CRR-46."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.node.containers import ContainerPhase, NodeContainer, newest_by_name
from gitkruise.model.node.recreate_request import recreate_request
from gitkruise.planner.node.recreate_agent import (
    StopContainer,
    Wait,
    WriteStatus,
    after_stop,
    next_step,
    pick,
    rest_of_grace,
)
from gitkruise.wire.primitives.times import format_time
from tests.planner.node.requests import RUNTIMES, Node, container, request
from tests.pods import NOW


def node(raw: dict[str, Any], **changes: Any) -> Node:
    names = [c["name"] for c in raw["spec"]["containers"]]
    made = Node(raw=raw, containers={name: container(name) for name in names})
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def after(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


ENDS: dict[str, tuple[Node, list[str], list[tuple[str, float]], str]] = {
    # what happens → states, stops (container, second), phase
    "one container": (node(request("app")), ["app Succeeded*"], [("app", 0)], "Completed"),
    "RECREATE-10: without order, one stop after the other": (
        node(request("app", "sidecar"), ready_s={"app": 5, "sidecar": 5}),
        ["app Succeeded*", "sidecar Succeeded*"],
        [("app", 0), ("sidecar", 0)],
        "Completed",
    ),
    "RECREATE-12: ordered": (
        node(request("app", "sidecar", orderedRecreate=True), ready_s={"app": 5}),
        ["app Succeeded*", "sidecar Succeeded*"],
        [("app", 0), ("sidecar", 6)],
        "Completed",
    ),
    "CRR-45: the hook delays the next stop": (
        node(request("app", "sidecar"), hook_s={"app": 8}),
        ["app Succeeded*", "sidecar Succeeded*"],
        [("app", 8), ("sidecar", 8)],
        "Completed",
    ),
    "RECREATE-16: a stop fails": (
        node(request("app", "sidecar"), fails=frozenset({"app"})),
        ["app Failed", "sidecar Pending"],
        [],
        "Completed",
    ),
    "RECREATE-16: a stop fails and is ignored": (
        node(request("app", "sidecar", failurePolicy="Ignore"), fails=frozenset({"app"})),
        ["app Failed", "sidecar Succeeded*"],
        [("sidecar", 0)],
        "Completed",
    ),
    "RECREATE-14: restarted on its own": (
        node(request("app"), containers={"app": container("app", 1, started=1)}, now=after(2)),
        ["app Succeeded"],
        [],
        "Completed",
    ),
    "RECREATE-14: the same with forceRecreate": (
        node(
            request("app", forceRecreate=True),
            containers={"app": container("app", 1, started=1)},
            now=after(2),
        ),
        ["app Succeeded*"],
        [("app", 2)],
        "Completed",
    ),
    "CRR-43: not in the runtime": (
        node(request("app"), containers={}),
        ["app Pending"],
        [],
        "Recreating",
    ),
}


@pytest.mark.parametrize("row", ENDS)
def test_a_request_ends(row: str) -> None:
    made, states, stops, phase = ENDS[row]
    made.run()
    assert made.states == states
    assert made.stops == stops
    assert made.facts.status.phase == phase


def test_recreate_9_minimum_time_is_exceeded_strictly() -> None:
    made = node(request("app", minStartedSeconds=5))
    made.run()
    assert made.states == ["app Succeeded*"]
    assert (made.now - NOW).total_seconds() == pytest.approx(1 + 5 + 0.1)


def test_a_crash_begins_the_minimum_time_again() -> None:
    made = node(request("app", minStartedSeconds=10))
    made.run(until_s=3)
    made.containers["app"] = container("app", 2, started=6)  # crashed at 5 s
    made.now = after(6)
    made.run()
    assert (made.now - NOW).total_seconds() == pytest.approx(6 + 10 + 0.1)


def test_recreate_11_a_stop_in_progress_ends_after_the_deadline() -> None:
    made = node(request("app", "sidecar", activeDeadlineSeconds=3), hook_s={"app": 8})
    step = next_step(made.facts, made.containers, made.now, runtimes=RUNTIMES)
    assert isinstance(step, WriteStatus)
    made.write(step.status)
    assert made.states == ["app Pending", "sidecar Pending"]
    step = next_step(made.facts, made.containers, made.now, runtimes=RUNTIMES)
    assert isinstance(step, StopContainer)
    made.write({"phase": "Completed", "completionTime": format_time(after(3))})  # the manager's
    made.write(after_stop(made.facts, "app", made.stop(step)))
    assert made.states == ["app Recreating*", "sidecar Pending"]
    assert isinstance(next_step(made.facts, made.containers, after(9), runtimes=RUNTIMES), Wait)


DRAINS = {
    "no condition yet": (None, 0.0, Wait()),
    "just begun": (0, 0.0, Wait(until=after(1.1))),
    "about to end": (0, 0.9, Wait(until=after(1.1))),
}


@pytest.mark.parametrize("row", DRAINS)
def test_recreate_13_waits_for_the_drain(row: str) -> None:
    began, now, expected = DRAINS[row]
    made = node(request("app", unreadyGracePeriodSeconds=1))
    if began is not None:
        made.write(drained(began))
    assert next_step(made.facts, made.containers, after(now), runtimes=RUNTIMES) == expected


def test_recreate_13_stops_when_the_drain_is_over() -> None:
    made = node(request("app", unreadyGracePeriodSeconds=1))
    made.write(drained(0))
    made.run()
    assert made.stops == [("app", 1.1)]


def drained(began: float) -> dict[str, Any]:
    at = format_time(after(began))
    condition = {"type": "PreRecreateGrace", "status": "True", "lastTransitionTime": at}
    return {"conditions": [condition]}


GRACES = {
    "the request's": ({"terminationGracePeriodSeconds": 7}, 7),
    "none given": ({"terminationGracePeriodSeconds": None}, 30),
    "no time at all": ({"terminationGracePeriodSeconds": 0}, 0),
}


@pytest.mark.parametrize("row", GRACES)
def test_the_grace_of_a_stop(row: str) -> None:
    spec, seconds = GRACES[row]
    raw = request("app", status={"containerRecreateStates": [{"name": "app", "phase": "Pending"}]})
    raw["spec"]["strategy"] |= spec
    raw["spec"]["containers"][0]["preStop"] = {"exec": {"command": ["sleep", "1"]}}
    step = next_step(recreate_request(raw), {"app": container("app")}, NOW, runtimes=RUNTIMES)
    assert isinstance(step, StopContainer)
    assert step.grace_s == seconds
    assert step.hook == ({"exec": {"command": ["sleep", "1"]}} if seconds else None)
    message = "Stopping container app by ContainerRecreateRequest again"
    assert (step.event.reason, step.event.message) == ("Killing", message)


def test_the_rest_of_a_grace_counts_whole_seconds() -> None:
    rows = [(30, 8.9), (30, 30), (3, 0), (0, 0)]
    assert [rest_of_grace(grace, spent) for grace, spent in rows] == [22, 2, 3, 2]


RUNTIME_PROBLEMS = {
    "no id": ([("app", "")], "no statusContext or empty containerID in app container"),
    "no scheme": ([("app", "abc")], "container id 'abc' names no runtime"),
    "two": (
        [("app", "docker://a"), ("b", "containerd://b")],
        "has different runtime types containerd, docker in Pod",
    ),
    "unknown": ([("app", "cri-o://a")], "not found runtime service for cri-o in daemon"),
}


@pytest.mark.parametrize("row", RUNTIME_PROBLEMS)
def test_a_runtime_that_cannot_be_reached_ends_the_request(row: str) -> None:
    targets, problem = RUNTIME_PROBLEMS[row]
    raw = request()
    raw["spec"]["containers"] = [
        {"name": name, "statusContext": {"containerID": id_}} for name, id_ in targets
    ]
    step = next_step(recreate_request(raw), {}, NOW, runtimes=RUNTIMES)
    assert isinstance(step, WriteStatus)
    assert step.status["phase"] == "Completed"
    assert step.status["message"] == f"failed to find runtime service: {problem}"


def test_recreate_15_the_second_request_of_a_pod_waits() -> None:
    rows = [("b", 1, ""), ("a", 2, ""), ("c", 3, "Pending"), ("d", 4, "Completed")]
    requests = [recreate_request(named(*row)) for row in rows]
    picked = pick(requests)
    assert picked.current is requests[2]
    assert picked.to_pending == (requests[0], requests[1])
    running = recreate_request(named("e", 5, "Recreating"))
    assert pick([*requests, running]).current is running
    assert pick([requests[3]]).current is None


def named(name: str, created: int, phase: str) -> dict[str, Any]:
    over = {"completionTime": format_time(NOW)} if phase == "Completed" else None
    raw = request("app", phase=phase, status=over)
    raw["metadata"] |= {"name": name, "creationTimestamp": format_time(after(created))}
    return raw


def test_the_newest_container_of_a_name_counts() -> None:
    old = container("app", 3, started=-9)
    new = replace(old, id="containerd://x", attempt=0, created=NOW)
    assert newest_by_name([new, old]) == {"app": new}


@given(force=st.booleans(), ordered=st.booleans(), cuts=st.lists(st.integers(0, 5), max_size=8))
def test_a_container_is_stopped_once_whenever_the_agent_is_killed(
    force: bool, ordered: bool, cuts: list[int]
) -> None:
    """Each cut: the agent dies before (odd) or after (even) a stop, and nothing is reported."""
    made = node(request("app", "sidecar", forceRecreate=force, orderedRecreate=ordered))
    pending = [*cuts]
    write = made.write

    def dying(status: Any) -> None:
        reports = any(s.get("isKilled") for s in status.get("containerRecreateStates", ()))
        if pending and reports and made.due and pending.pop(0) % 2 == 0:
            return  # dead between the stop and its report
        write(status)

    made.write = dying  # type: ignore[method-assign]
    made.run()
    assert sorted(name for name, _ in made.stops) == ["app", "sidecar"]
    assert made.facts.status.phase == "Completed"


def test_an_exited_container_is_not_stopped_again() -> None:
    exited = replace(container("app"), phase=ContainerPhase.EXITED)
    seen: dict[str, NodeContainer] = {"app": exited}
    step = next_step(recreate_request(request("app")), seen, NOW, runtimes=RUNTIMES)
    assert isinstance(step, WriteStatus)
    assert step.status["containerRecreateStates"] == [{"name": "app", "phase": "Recreating"}]
