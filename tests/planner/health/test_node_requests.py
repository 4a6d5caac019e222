"""Health of requests to node agents: only one that did what it asks for is Current."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.planner.health.health import Phase, health
from gitkruise.planner.health.node_requests import pulls_nowhere
from gitkruise.wire.primitives.names import ObjectKey
from tests.planner.node.requests import request

ENDED = {"completionTime": "2026-07-02T10:01:00Z"}


def recreate(*states: dict[str, Any], phase: str = "Recreating", **status: Any) -> dict[str, Any]:
    whole = {"containerRecreateStates": list(states), **status}
    return request("app", "log", phase=phase, status=whole)


def state(name: str, phase: str, message: str = "") -> dict[str, Any]:
    return {"name": name, "phase": phase, "message": message}


def job(spec: Any = None, kind: str = "ImagePullJob", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "pull", "namespace": "shop"},
        "spec": {"image": "app:v2", **(spec or {})},
        "status": status,
    }


def node(*phases: str) -> dict[str, Any]:
    tags = [
        {"tag": f"v{n}", "version": 0, "createdAt": "2026-07-02T10:00:00Z"}
        for n in range(len(phases))
    ]
    listed = [
        {"tag": f"v{n}", "version": 0, "phase": phase} for n, phase in enumerate(phases) if phase
    ]
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "NodeImage",
        "metadata": {"name": "n1"},
        "spec": {"images": {"app": {"tags": tags}}},
        "status": {"imageStatuses": {"app": {"tags": listed}}},
    }


BEGAN = {"startTime": "2026-07-02T10:00:00Z"}
NEVER = {"completionPolicy": {"type": "Never"}}
DONE = (state("app", "Succeeded"), state("log", "Succeeded"))
HALF = "1 of 2 containers of pod web-0 restarted"
ROWS: dict[str, tuple[Any, Phase, str]] = {
    "not-begun": (recreate(phase=""), Phase.IN_PROGRESS, "waits for the agent of node n1"),
    "queued": (
        recreate(phase="Pending"), Phase.IN_PROGRESS, "waits for another request for pod web-0"
    ),
    "half": (
        recreate(state("app", "Succeeded"), state("log", "Recreating")), Phase.IN_PROGRESS,
        f"{HALF}; log is not ready yet",
    ),
    "done": (
        recreate(*DONE, phase="Completed", **ENDED), Phase.CURRENT,
        "2 of 2 containers of pod web-0 restarted",
    ),
    "failed": (
        recreate(state("app", "Succeeded"), state("log", "Failed", "kill container error: x"),
                 phase="Completed", **ENDED),
        Phase.FAILED, f"{HALF}; log: kill container error: x",
    ),
    "pod-gone": (
        recreate(phase="Completed", message="pod has gone", **ENDED), Phase.FAILED,
        "0 of 2 containers of pod web-0 restarted; pod has gone",
    ),
    "ended-early": (
        recreate(state("app", "Succeeded"), state("log", "Pending"), phase="Completed", **ENDED),
        Phase.FAILED, f"{HALF}; the request ended before the others",
    ),
    "pull-not-begun": (job(), Phase.IN_PROGRESS, "the controller has not begun yet"),
    "pulling": (
        job(**BEGAN, desired=3, succeeded=1, failed=1, active=1), Phase.IN_PROGRESS,
        "app:v2 is on 1 of 3 nodes, failed on 1",
    ),
    "pull-waits": (
        job(**BEGAN, desired=1, message="job waits for pull secret login"), Phase.IN_PROGRESS,
        "app:v2 is on 0 of 1 nodes; job waits for pull secret login",
    ),
    "pulled": (
        job(**BEGAN, **ENDED, desired=3, succeeded=3), Phase.CURRENT, "app:v2 is on 3 of 3 nodes"
    ),
    "pull-failed": (
        job(**BEGAN, **ENDED, desired=3, succeeded=2, failed=1, failedNodes=["n2"]), Phase.FAILED,
        "app:v2 is on 2 of 3 nodes; failed on n2",
    ),
    "pull-late": (
        job(**BEGAN, **ENDED, desired=1, failed=1, failedNodes=["n2"],
            message="job exceeds activeDeadlineSeconds"),
        Phase.FAILED,
        "app:v2 is on 0 of 1 nodes; failed on n2; job exceeds activeDeadlineSeconds",
    ),
    "pull-paused": (
        job({"parallelism": 0}, **BEGAN, desired=2), Phase.PAUSED,
        "app:v2 is on 0 of 2 nodes; parallelism is 0",
    ),
    "never-ends": (job(NEVER, **BEGAN, desired=2, succeeded=2), Phase.CURRENT,
                   "app:v2 is on 2 of 2 nodes"),
    "never-half": (job(NEVER, **BEGAN, desired=2, succeeded=1), Phase.IN_PROGRESS,
                   "app:v2 is on 1 of 2 nodes"),
    "list": (
        job(kind="ImageListPullJob", **BEGAN, desired=2, completed=1, succeeded=1),
        Phase.IN_PROGRESS, "1 of 2 images are on their nodes",
    ),
    "list-failed": (
        job(kind="ImageListPullJob", **BEGAN, desired=2, completed=2, succeeded=1,
            failedImageStatuses=[{"name": "app:v3"}]),
        Phase.FAILED, "1 of 2 images are on their nodes; failed: app:v3",
    ),
    "list-done": (
        job(kind="ImageListPullJob", **BEGAN, **ENDED, desired=2, completed=2, succeeded=2),
        Phase.CURRENT, "2 of 2 images are on their nodes",
    ),
    "node": (node("Succeeded", "Succeeded"), Phase.CURRENT, "2 images pulled"),
    "node-pulls": (node("Failed", ""), Phase.IN_PROGRESS, "1 of 2 images to pull"),
    "node-failed": (node("Failed", "Succeeded"), Phase.FAILED, "not pulled: app:v0"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_request_is_current_only_when_it_did_all(name: str) -> None:
    obj, phase, message = ROWS[name]
    found = health(obj)
    assert (found.phase, found.message) == (phase, message)
    assert found.reason


KEY = ObjectKey("apps.kruise.io", "ImagePullJob", "shop", "pull")
OVER = {**BEGAN, "completionTime": "2026-07-02T10:00:00Z"}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (job(desired=0, **OVER), "the job is over"),
        (job(NEVER, desired=0, **BEGAN), "wait for such a node"),
        (job(desired=1, succeeded=1, **OVER), ""),
        (job(), ""),
    ],
    ids=["over", "goes on", "pulled", "not begun"],
)
def test_a_pull_job_without_a_node_is_warned_of(obj: dict[str, Any], message: str) -> None:
    found = pulls_nowhere(KEY, obj)
    assert (found is not None) == bool(message)
    if found is not None:
        assert found.message == "ImagePullJob shop/pull pulls app:v2 nowhere: no node matches it"
        assert (found.is_error, message in found.notes[0][1]) == (False, True)
    assert pulls_nowhere(KEY._replace(kind="ConfigMap"), obj) is None
