"""Ordered launches and ended sidecars on the model cluster, with its scheduler and kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.kubelet.profiles import FAST
from tests.worlds import SPACE, Lab, cloneset, container, deployment, parts_of, pod

PRIORITY = "KRUISE_CONTAINER_PRIORITY"
COMPLETED = "apps.kruise.io/container-launch-priority-completed"
REQUESTS = GroupKind("apps.kruise.io", "ContainerRecreateRequest")
BARRIERS = GroupKind("", "ConfigMap")


def prioritized(name: str, priority: int, **more: Any) -> dict[str, Any]:
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
    lab.apply(pod("p", prioritized("a", -1), prioritized("b", 5), container("c", "c:v1")))
    lab.run()
    assert started(lab) == ["b", "c", "a"]
    assert lab.get(pod())["metadata"]["annotations"][COMPLETED] == "true"
    (barrier,) = lab.world.objects(BARRIERS, SPACE)
    assert barrier["data"] == {"p_5": "true", "p_0": "true", "p_-1": "true"}


def test_the_barrier_goes_with_the_pod() -> None:
    lab = Lab()
    lab.apply(pod("p", prioritized("a", 1), container("b")))
    lab.run()
    lab.delete(pod())
    lab.run()
    assert lab.world.objects(BARRIERS, SPACE) == []


def test_a_container_that_never_becomes_ready_holds_the_lower_ones() -> None:
    lab = Lab()
    lab.apply(pod("p", prioritized("a", 1) | {"image": "a:unready"}, container("b")))
    lab.run(600)
    status = {c["name"]: c for c in lab.get(pod())["status"]["containerStatuses"]}
    assert get(status["b"], "state", "waiting", "reason") == "CreateContainerConfigError"
    assert COMPLETED not in (lab.get(pod())["metadata"].get("annotations") or {})


def test_quirk_a_deleted_barrier_comes_back_at_once() -> None:
    lab = Lab()
    lab.apply(pod("p", prioritized("a", 1), container("b")))
    lab.run()
    (barrier,) = lab.world.objects(BARRIERS, SPACE)
    lab.delete(barrier)
    lab.run()
    (again,) = lab.world.objects(BARRIERS, SPACE)
    assert again["metadata"]["uid"] != barrier["metadata"]["uid"]
    assert again["data"] == {"p_1": "true", "p_0": "true"}


def test_quirk_a_pod_of_the_same_name_is_ordered_anew() -> None:
    lab = Lab()
    lab.apply(pod("p", prioritized("a", 1), container("b")))
    lab.run()
    lab.delete(pod(), gracePeriodSeconds=0)
    lab.apply(pod("p", container("a"), prioritized("b", 1)))
    lab.run()
    assert started(lab) == ["b", "a"]


def test_a_cloneset_launches_its_pods_in_order() -> None:
    lab = Lab()
    raw = cloneset(replicas=2)
    spec = {"containers": [container("a"), prioritized("b", 1)]}
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


def job(*containers: Any, policy: str = "Never") -> dict[str, Any]:
    spec = {"restartPolicy": policy, "containers": list(containers)}
    meta = {"name": "report"}
    body = {"backoffLimit": 0, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


def ended(lab: Lab) -> set[str]:
    conditions = get(lab.get(job()), "status", "conditions", default=())
    return {c["type"] for c in conditions if c["status"] == "True"} & {"Complete", "Failed"}


IGNORED = {"KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE": "true"}


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
@pytest.mark.parametrize("more", [{}, IGNORED], ids=["counted", "ignored"])
def test_a_job_ends_when_its_sidecars_are_ended(more: dict[str, str], policy: str) -> None:
    lab = Lab(gates=Gates(sidecar_terminator=True))
    lab.apply(job(container("main"), sidecar("mesh", **more), policy=policy))
    lab.run()
    assert ended(lab) == {"Complete"}
    (request,) = lab.world.objects(REQUESTS, SPACE)
    assert request["status"]["phase"] == "Completed"


def test_a_job_whose_main_container_fails_fails_and_its_sidecar_ends() -> None:
    lab = Lab(gates=Gates(sidecar_terminator=True))
    lab.apply(job(container("main", "app:crash"), sidecar("mesh")))
    lab.run()
    assert ended(lab) == {"Failed"}
    (one,) = lab.pods()
    assert all("terminated" in c["state"] for c in one["status"]["containerStatuses"])


def test_without_the_gate_sidecars_keep_the_job_going() -> None:
    lab = Lab()
    lab.apply(job(container("main"), sidecar("mesh")))
    lab.run()
    assert ended(lab) == set()
    assert lab.world.objects(REQUESTS, SPACE) == []


def condition(one: Obj, kind: str) -> str | None:
    listed = one["status"].get("conditions") or ()
    found = (c["status"] for c in listed if c["type"] == kind)
    return next(found, None)


def test_lc_35_bare_pods_and_those_of_other_workloads_become_ready_under_the_gate() -> None:
    # Without the collector: it would delete a pod whose StatefulSet does not exist.
    parts = [part for part in parts_of(FAST) if not isinstance(part, GarbageCollector)]
    lab = Lab(gates=Gates(kruise_pod_readiness_gate=True), parts=parts)
    lab.apply(pod("bare"))
    lab.apply(deployment("dep", replicas=2))
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u-1"}
    owned = pod("db-0")
    owned["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    lab.apply(owned)
    lab.run()
    assert len(lab.pods()) == 4
    for one in lab.pods():
        gates = [g["conditionType"] for g in one["spec"]["readinessGates"]]
        assert gates == ["KruisePodReady"]
        assert condition(one, "KruisePodReady") == "True"
        assert condition(one, "Ready") == "True"


def test_lc_35_a_terminating_pod_gets_no_condition() -> None:
    lab = Lab(gates=Gates(kruise_pod_readiness_gate=True), nodes=0, parts=[])
    one = pod()
    one["metadata"]["finalizers"] = ["example.com/hold"]
    lab.apply(one)
    lab.delete(one)
    lab.run()
    assert condition(lab.get(one), "KruisePodReady") is None


def updated(first: str, *, grace_s: int = 0) -> tuple[Lab, list[tuple[float, list[str]]]]:
    """(lab, seconds since the update and images of the pod's spec whenever these changed).

    The update changes both containers of one pod: `redis` to the image `first`, `main` to main:v2.
    """
    lab = Lab()
    web = cloneset(replicas=1, inPlaceUpdateStrategy={"gracePeriodSeconds": grace_s})
    pair = [prioritized("redis", 10), prioritized("main", 5)]
    template = {**web["spec"]["template"], "spec": {"containers": pair}}
    lab.apply({**web, "spec": {**web["spec"], "template": template}})
    lab.run()
    pair = [{**pair[0], "image": first}, {**pair[1], "image": "main:v2"}]
    lab.patch(web, {"spec": {"template": {**template, "spec": {"containers": pair}}}})
    begun, seen = lab.now, [(0.0, ["redis:v1", "main:v1"])]
    for _ in range(120):
        lab.run(1)
        images = [c["image"] for c in lab.pods()[0]["spec"]["containers"]]
        if images != seen[-1][1]:
            seen.append(((lab.now - begun).total_seconds(), images))
    return lab, seen


def test_ip_45_the_second_batch_waits_for_the_first() -> None:
    lab, seen = updated("redis:v2")
    assert [images for _, images in seen[1:]] == [["redis:v2", "main:v1"], ["redis:v2", "main:v2"]]
    first, second = seen[1][0], seen[2][0]
    assert second - first >= 2  # stop and start of the first container
    assert started(lab, lab.pods()[0]["metadata"]["name"]) == ["redis", "main"]


@pytest.mark.parametrize("image", ["redis:bad", "redis:crash", "redis:unready"])
def test_ip_45_the_second_batch_does_not_start_when_the_first_fails(image: str) -> None:
    lab, seen = updated(image)
    assert seen[-1][1] == [image, "main:v1"]
    state = lab.pods()[0]["metadata"]["annotations"]["apps.kruise.io/inplace-update-state"]
    assert '"nextContainerImages":{"main":"main:v2"}' in state


def test_ip_61_the_grace_period_comes_before_the_first_batch_alone() -> None:
    _, seen = updated("redis:v2", grace_s=10)
    _, (first, _), (second, _) = seen
    assert 10 <= first <= 11
    assert 2 <= second - first < 10
