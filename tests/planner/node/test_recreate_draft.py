"""Drafts of requests: what the pod does not allow, and what a request says it will do."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from gitkruise.admission.kruise.recreate_request import filled_in
from gitkruise.errors import BadRequest
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.node.recreate_draft import (
    RecreateOptions,
    conduct,
    draft_request,
    effects,
    recreate_problem,
    warnings,
)
from tests.admission.writes import write


def pod(*, spec: Any = None, status: Any = None, **meta: Any) -> dict[str, Any]:
    """A running pod web-0 of the containers app and log, with an init container."""
    running = [
        {"name": name, "containerID": f"containerd://{name}", "restartCount": 0}
        for name in ("app", "log")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u", **meta},
        "spec": {
            "nodeName": "n1",
            "initContainers": [{"name": "init"}],
            "containers": [{"name": "app"}, {"name": "log"}],
            "terminationGracePeriodSeconds": 20,
            **(spec or {}),
        },
        "status": {"phase": "Running", "containerStatuses": running, **(status or {})},
    }


WAITING = {
    "containerStatuses": [
        {"name": "app", "containerID": "", "state": {"waiting": {"reason": "ErrImagePull"}}}
    ]
}
ENDED = {"phase": "Succeeded", "conditions": [{"type": "SidecarTerminated", "status": "True"}]}
PROBLEMS: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "all": (pod(), (), ""),
    "one": (pod(), ("log",), ""),
    "deleted": (pod(deletionTimestamp="x"), (), "pod web-0 is being deleted"),
    "finished": (pod(status={"phase": "Failed"}), (), "pod web-0 has finished: Failed"),
    "kept-for-sidecars": (pod(status=ENDED), (), ""),
    "not-scheduled": (pod(spec={"nodeName": ""}), (), "pod web-0 is not scheduled to a node yet"),
    "unknown": (pod(), ("nginx",), 'pod web-0 has no container "nginx"'),
    "twice": (pod(), ("app", "app"), "container app is named twice"),
    "init": (pod(), ("init",), "init is an init container, which no request can recreate"),
    "not-started": (
        pod(status=WAITING), ("app",),
        "container app has not started yet (ErrImagePull): there is nothing to stop",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_pod_does_not_allow(name: str) -> None:
    raw, containers, message = PROBLEMS[name]
    found = recreate_problem(raw, RecreateOptions(containers=containers))
    assert (found.message if found else "") == message
    assert found is None or found.next


@pytest.mark.parametrize("name", PROBLEMS)
def test_admission_agrees_with_the_problems(name: str) -> None:
    raw, containers, message = PROBLEMS[name]
    draft = draft_request(raw, RecreateOptions(containers=containers))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    request = write(draft, around=(raw, node))
    with pytest.raises(BadRequest) if message else nullcontext():
        filled_in(request, Gates())


def test_every_option_is_a_field_of_the_request() -> None:
    options = RecreateOptions(
        containers=("app",), ordered=True, force=True, ignore_failures=True, grace_s=5,
        unready_grace_s=0, min_started_s=7, deadline_s=60, ttl_s=0,
    )  # fmt: skip
    assert draft_request(pod(), options)["spec"] == {
        "podName": "web-0",
        "containers": [{"name": "app"}],
        "strategy": {
            "failurePolicy": "Ignore",
            "orderedRecreate": True,
            "forceRecreate": True,
            "terminationGracePeriodSeconds": 5,
            "unreadyGracePeriodSeconds": 0,
            "minStartedSeconds": 7,
        },
        "activeDeadlineSeconds": 60,
        "ttlSecondsAfterFinished": 0,
    }
    assert draft_request(pod(), RecreateOptions())["spec"]["strategy"] == {"failurePolicy": "Fail"}


def hooked(hook: str) -> dict[str, Any]:
    return pod(spec={"containers": [{"name": "app", "lifecycle": {"preStop": {hook: {}}}}]})


NO_SLEEP = "its preStop sleep does not run: requests do not carry it"
EFFECTS: dict[str, tuple[Any, RecreateOptions, str]] = {
    "plain": (pod(), RecreateOptions(), "stopped within 20 s; kubelet starts it again"),
    "no-grace": (pod(), RecreateOptions(grace_s=0), "stopped within 2 s; kubelet starts it again"),
    "hook": (
        hooked("exec"), RecreateOptions(grace_s=9),
        "exec preStop hook, then stopped, together within 9 s; kubelet starts it again",
    ),
    "hook-without-time": (
        hooked("httpGet"), RecreateOptions(grace_s=0), "stopped within 2 s; kubelet starts it again"
    ),
    "sleep": (
        hooked("sleep"), RecreateOptions(),
        f"stopped within 20 s; {NO_SLEEP}; kubelet starts it again",
    ),
    "never": (
        pod(spec={"restartPolicy": "Never"}), RecreateOptions(),
        "stopped within 20 s; it does not start again (restartPolicy Never)",
    ),
    "min-started": (
        pod(), RecreateOptions(min_started_s=4),
        "stopped within 20 s; kubelet starts it again and it must run for more than 4 s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_what_happens_to_a_container(name: str) -> None:
    raw, options, text = EFFECTS[name]
    assert effects(raw, options)[0] == ("app", text)


def test_what_happens_to_the_pod() -> None:
    gated = pod(spec={"readinessGates": [{"conditionType": "KruisePodReady"}]})
    options = RecreateOptions(unready_grace_s=3, deadline_s=9, ttl_s=1, force=True)
    assert conduct(gated, options) == [
        "one stop after the other, without waiting until a container is ready again",
        "the pod leaves service for at least 3 s before the first stop",
        "also a container that restarted by itself in the meantime is stopped",
        "the request ends after 9 s, whatever is done by then",
        "the request is deleted 1 s after its end",
    ]
    assert "stays in service" in conduct(pod(), options)[1]
    assert "ready again" in conduct(pod(), RecreateOptions(ordered=True))[0]
    assert warnings(pod(), options) == ()
    assert "ends for good" in warnings(pod(spec={"restartPolicy": "Never"}), options)[0]
