"""Ordered launches and ended sidecars on the model cluster, with its scheduler and kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.paths import get
from gitkruise.world.controllers.scheduler import Scheduler
from tests.worlds import SPACE, Lab, cloneset, container, pod

PRIORITY = "KRUISE_CONTAINER_PRIORITY"
COMPLETED = "apps.kruise.io/container-launch-priority-completed"
REQUESTS = GroupKind("apps.kruise.io", "ContainerRecreateRequest")
BARRIERS = GroupKind("", "ConfigMap")


def wishes(name: str, priority: int, **more: Any) -> dict[str, Any]:
    env = [{"name": PRIORITY, "value": str(priority)}]
    return container(name, f"{name}:v1", env=env, **more)


def started(lab: Lab, name: str = "p") -> list[str]:
    """Containers of a pod by the instant they were started."""
    found = lab.get(pod(name))["status"]["containerStatuses"]
    at = {c["name"]: c["state"]["running"]["startedAt"] for c in found}
    assert len(set(at.values())) == len(at), "one after the other"
    return sorted(at, key=lambda one: at[one])


def test_containers_start_highest_first() -> None:
    lab = Lab()
    lab.apply(pod("p", wishes("a", -1), wishes("b", 5), container("c", "c:v1")))
    lab.run()
    assert started(lab) == ["b", "c", "a"]
    assert lab.get(pod())["metadata"]["annotations"][COMPLETED] == "true"
    (barrier,) = lab.world.objects(BARRIERS, SPACE)
    assert barrier["data"] == {"p_5": "true", "p_0": "true", "p_-1": "true"}


def test_the_barrier_goes_with_the_pod() -> None:
    lab = Lab()
    lab.apply(pod("p", wishes("a", 1), container("b")))
    lab.run()
    lab.delete(pod())
    lab.run()
    assert lab.world.objects(BARRIERS, SPACE) == []


def test_a_container_that_never_becomes_ready_holds_the_lower_ones() -> None:
    lab = Lab()
    lab.apply(pod("p", wishes("a", 1) | {"image": "a:unready"}, container("b")))
    lab.run(600)
    status = {c["name"]: c for c in lab.get(pod())["status"]["containerStatuses"]}
    assert get(status["b"], "state", "waiting", "reason") == "CreateContainerConfigError"
    assert COMPLETED not in (lab.get(pod())["metadata"].get("annotations") or {})


def test_quirk_a_deleted_barrier_comes_back_at_once() -> None:
    lab = Lab()
    lab.apply(pod("p", wishes("a", 1), container("b")))
    lab.run()
    (barrier,) = lab.world.objects(BARRIERS, SPACE)
    lab.delete(barrier)
    lab.run()
    (again,) = lab.world.objects(BARRIERS, SPACE)
    assert again["metadata"]["uid"] != barrier["metadata"]["uid"]
    assert again["data"] == {"p_1": "true", "p_0": "true"}


def test_quirk_a_pod_of_the_same_name_is_ordered_anew() -> None:
    lab = Lab()
    lab.apply(pod("p", wishes("a", 1), container("b")))
    lab.run()
    lab.delete(pod(), gracePeriodSeconds=0)
    lab.apply(pod("p", container("a"), wishes("b", 1)))
    lab.run()
    assert started(lab) == ["b", "a"]


def test_a_cloneset_launches_its_pods_in_order() -> None:
    lab = Lab()
    raw = cloneset(replicas=2)
    spec = {"containers": [container("a"), wishes("b", 1)]}
    template = {**raw["spec"]["template"], "spec": spec}
    lab.apply({**raw, "spec": {**raw["spec"], "template": template}})
    lab.run()
    for one in lab.pods():
        assert started(lab, one["metadata"]["name"]) == ["b", "a"]


def sidecar(name: str, **env: str) -> dict[str, Any]:
    """A container that asks to be ended with the main ones."""
    wants = {"KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT": "true", **env}
    return container(name, "mesh:v1", env=[{"name": n, "value": v} for n, v in wants.items()])


@pytest.mark.parametrize("on", [True, False])
def test_sidecars_of_a_job_are_asked_to_end_under_the_gate(*, on: bool) -> None:
    lab = Lab(gates=Gates(sidecar_terminator=on), parts=[Scheduler()])  # the test is the kubelet
    lab.apply(pod("p", container("main"), sidecar("mesh"), restartPolicy="Never"))
    lab.run()
    states = {"main": {"terminated": {"exitCode": 0}}, "mesh": {"running": {}}}
    report = [
        {"name": name, "containerID": f"containerd://{name}", "ready": False, "state": state}
        for name, state in states.items()
    ]
    lab.patch(
        pod(), {"status": {"phase": "Running", "containerStatuses": report}}, subresource="status"
    )
    lab.run()
    made = lab.world.objects(REQUESTS, SPACE)
    asked = [[c["name"] for c in request["spec"]["containers"]] for request in made]
    assert asked == ([["mesh"]] if on else [])
    assert ("SidecarTerminator" in lab.events("p")) is on
