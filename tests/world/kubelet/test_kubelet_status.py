"""The phase and the conditions a kubelet reports for what runs on the node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitkruise.wire.primitives.paths import get, put
from gitkruise.world.kubelet.pod_actions import PodActions, pod_actions
from gitkruise.world.kubelet.runtime import (
    PodRuntime,
    PodSandbox,
    RuntimeContainer,
    RuntimeIdentity,
    RuntimeState,
    canonical_image,
    identity_of,
    image_id,
    matches_spec,
    runtime_of,
)
from gitkruise.world.kubelet.status import phase_of, pod_status

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
WHO = RuntimeIdentity(uid="u", ip="10.244.0.9")


def pod(policy: str = "Always", *, init: bool = False, gates: tuple[str, ...] = ()) -> Any:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 3},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": n, "image": f"{n}:v1"} for n in "ab"],
            **({"initContainers": [{"name": "i", "image": "i:v1"}]} if init else {}),
            "readinessGates": [{"conditionType": g} for g in gates],
        },
        "status": {"phase": "Pending"},
    }


def runtime(marks: str) -> PodRuntime:
    """`a+ b1`: a runs, b exited with 1; `b~1` waits to be restarted, `b~` for its first start."""
    made, waiting = {}, {}
    for mark in marks.split():
        name, how = mark[0], mark[1:]
        if how.startswith("~"):
            waiting[name] = ("CrashLoopBackOff", "back-off")
        if how == "+":
            made[name] = RuntimeContainer(name=name, image=f"{name}:v1", ready=True, started=NOW)
        elif how != "~":
            made[name] = RuntimeContainer(
                name=name,
                image=f"{name}:v1",
                run=RuntimeState.EXITED,
                exit_code=int(how.lstrip("~")),
            )
    return PodRuntime(sandbox=PodSandbox(), containers=made, waiting=waiting)


PHASES = {
    "PHASE-1 no statuses": (pod(), "", "Pending"),
    "PHASE-2 both running": (pod(), "a+ b+", "Running"),
    "PHASE-3 one without status": (pod(), "a+", "Pending"),
    "PHASE-4 one waits": (pod(), "a+ b~", "Pending"),
    "PHASE-5 one waits after a crash": (pod(), "a+ b~1", "Running"),
    "PHASE-6 both stopped, Always": (pod(), "a0 b1", "Running"),
    "PHASE-7 exited 0, deleted": (
        put(pod(), ("metadata", "deletionTimestamp"), "t"),
        "a0 b0",
        "Succeeded",
    ),
    "PHASE-8 one failed, deleted": (
        put(pod(), ("metadata", "deletionTimestamp"), "t"),
        "a0 b1",
        "Failed",
    ),
    "PHASE-9 exited 0, Never": (pod("Never"), "a0 b0", "Succeeded"),
    "PHASE-10 one failed, Never": (pod("Never"), "a0 b1", "Failed"),
    "PHASE-11 one failed, OnFailure": (pod("OnFailure"), "a0 b1", "Running"),
    "PHASE-12 init failed, Never": (pod("Never", init=True), "i1", "Failed"),
    "init failed, retried": (pod(init=True), "i1", "Pending"),
    "final": (put(pod(), ("status", "phase"), "Failed"), "a+ b+", "Failed"),
}


@pytest.mark.parametrize(("raw", "marks", "phase"), PHASES.values(), ids=PHASES)
def test_phase(raw: Any, marks: str, phase: str) -> None:
    assert phase_of(raw, runtime(marks)) == phase


def verdict(raw: Any, marks: str, type_: str) -> tuple[str, str, str]:
    status = pod_status(raw, runtime(marks), WHO, NOW)
    found = next(c for c in status["conditions"] if c["type"] == type_)
    return found["status"], found.get("reason", ""), found.get("message", "")


GATE = "the status of pod readiness gate"
MISSING = 'corresponding condition of pod readiness gate "g" does not exist.'
CONDITIONS = {
    "ready": (pod(), "a+ b+", "Ready", ("True", "", "")),
    "unready": (
        pod(),
        "a+ b1",
        "Ready",
        ("False", "ContainersNotReady", "containers with unready status: [b]"),
    ),
    "POD-9 gate never set": (
        pod(gates=("g",)),
        "a+ b+",
        "Ready",
        ("False", "ReadinessGatesNotReady", MISSING),
    ),
    "POD-9 containers are ready": (pod(gates=("g",)), "a+ b+", "ContainersReady", ("True", "", "")),
    "two gates": (
        put(
            pod(gates=("g", "h")),
            ("status", "conditions"),
            [{"type": "h", "status": "False", "lastTransitionTime": None}],
        ),
        "a+ b+",
        "Ready",
        ("False", "ReadinessGatesNotReady", f'{MISSING}, {GATE} "h" is not "True", but False'),
    ),
    "init incomplete": (
        pod(init=True),
        "",
        "Initialized",
        ("False", "ContainersNotInitialized", "containers with incomplete status: [i]"),
    ),
    "completed": (pod("Never"), "a0 b0", "Ready", ("False", "PodCompleted", "")),
    "failed": (pod("Never"), "a0 b2", "ContainersReady", ("False", "PodFailed", "")),
}


@pytest.mark.parametrize(("raw", "marks", "type_", "want"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(raw: Any, marks: str, type_: str, want: tuple[str, str, str]) -> None:
    assert verdict(raw, marks, type_) == want


def test_an_unchanged_pod_has_an_unchanged_status() -> None:
    raw = pod()
    raw = put(raw, ("status",), pod_status(raw, runtime("a+ b+"), WHO, NOW))
    later = NOW.replace(hour=11)
    assert pod_status(raw, runtime("a+ b+"), WHO, later) == raw["status"]


def running(*, gates: tuple[str, ...] = ()) -> Any:
    """A pod at rest, its gates open."""
    raw = pod(gates=gates)
    open_ = [{"type": gate, "status": "True", "lastTransitionTime": "x"} for gate in gates]
    raw = put(raw, ("status", "conditions"), open_)
    return put(raw, ("status",), pod_status(raw, runtime("a+ b+"), WHO, NOW))


@pytest.mark.parametrize("gates", [(), ("example.com/gate",)])
def test_a_kubelet_has_nothing_to_do_for_a_pod_that_matches_spec(gates: tuple[str, ...]) -> None:
    raw = running(gates=gates)
    assert matches_spec(raw)
    assert pod_actions(raw, runtime_of(raw)) == PodActions()
    assert pod_status(raw, runtime_of(raw), identity_of(raw), NOW.replace(hour=11)) == raw["status"]


UNLIKE: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "going": (("metadata", "deletionTimestamp"), "2026-11-21T10:00:00Z"),
    "another generation": (("metadata", "generation"), 4),
    "another image": (("spec", "containers", 1, "image"), "b:v2"),
    "init containers": (("spec", "initContainers"), [{"name": "i", "image": "i:v1"}]),
    "a container more": (("spec", "containers", 2), {"name": "c", "image": "c:v1"}),
    "a gate that is shut": (("spec", "readinessGates"), [{"conditionType": "example.com/gate"}]),
    "without address": (("status", "podIP"), ""),
    "ended": (("status", "phase"), "Failed"),
    "not ready": (("status", "containerStatuses", 0, "ready"), False),
    "not started": (("status", "containerStatuses", 0, "started"), False),
    "down": (("status", "containerStatuses", 0, "state"), {"terminated": {"exitCode": 1}}),
    "resized": (
        ("status", "containerStatuses", 0, "resources"),
        {"requests": {"cpu": "1"}},
    ),
}


@pytest.mark.parametrize("row", UNLIKE)
def test_a_pod_that_a_kubelet_must_look_at(row: str) -> None:
    path, value = UNLIKE[row]
    raw = running()
    if path[:2] == ("spec", "containers") and path[2] == 2:
        raw = put(raw, ("spec", "containers"), [*raw["spec"]["containers"], value])
    else:
        raw = put(raw, path, value)
    assert not matches_spec(raw)


def test_conditions_of_others_are_kept_and_transition_times_move_only_with_the_status() -> None:
    theirs = {"type": "InPlaceUpdateReady", "status": "False", "lastTransitionTime": "x"}
    raw = put(pod(), ("status",), pod_status(pod(), runtime("a+ b+"), WHO, NOW))
    raw = put(raw, ("status", "conditions"), [theirs, *raw["status"]["conditions"]])
    after = pod_status(raw, runtime("a+ b1"), WHO, NOW.replace(hour=11))
    moved = {c["type"]: c["lastTransitionTime"] for c in after["conditions"]}
    assert theirs in after["conditions"]
    assert moved["Ready"] == "2026-11-21T11:00:00Z"
    assert moved["Initialized"] == "2026-11-21T10:00:00Z"


def test_a_container_that_waits_to_be_restarted_shows_what_ended_before() -> None:
    status = pod_status(pod(), runtime("a+ b~7"), WHO, NOW)["containerStatuses"][1]
    assert get(status, "state", "waiting", "reason") == "CrashLoopBackOff"
    assert get(status, "lastState", "terminated", "exitCode") == 7


IMAGES = {
    "nginx": "docker.io/library/nginx:latest",
    "nginx:1.27": "docker.io/library/nginx:1.27",
    "shop/web:v1": "docker.io/shop/web:v1",
    "localhost:5000/web": "localhost:5000/web:latest",
    "r.example.com/a/b:v1@sha256:00": "r.example.com/a/b:v1@sha256:00",
}


@pytest.mark.parametrize(("short", "full"), IMAGES.items())
def test_images_are_spelled_as_a_runtime_spells_them(short: str, full: str) -> None:
    assert canonical_image(short) == full


def test_an_image_id_is_the_digest_it_names_or_one_of_its_name() -> None:
    assert (
        image_id("app:v1@sha256:00")
        == image_id("app:v2@sha256:00")
        == ("docker.io/library/app@sha256:00")
    )
    assert image_id("app:v1") != image_id("app:v2")
    assert image_id("nginx") == image_id("docker.io/library/nginx:latest")
