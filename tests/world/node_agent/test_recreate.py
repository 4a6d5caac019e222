"""Requests to recreate containers in the embedded cluster: RECREATE-9 to RECREATE-17."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.errors import ApiError
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.wire.primitives.names import Obj
from tests.worlds import SPACE, Lab, container, pod


def request(*names: str, name: str = "again", pod_name: str = "p", **spec: Any) -> dict[str, Any]:
    top = {"activeDeadlineSeconds", "ttlSecondsAfterFinished"}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ContainerRecreateRequest",
        "metadata": {"name": name},
        "spec": {
            "podName": pod_name,
            "containers": [{"name": each} for each in names],
            "strategy": {k: v for k, v in spec.items() if k not in top},
            **{k: v for k, v in spec.items() if k in top},
        },
    }


def running(*containers: Obj, **spec: Any) -> Lab:
    lab = Lab()
    lab.apply(pod("p", *(containers or (container("app"), container("side"))), **spec))
    lab.run(60)
    return lab


def restarts(lab: Lab) -> dict[str, int]:
    statuses = lab.get(pod("p"))["status"]["containerStatuses"]
    return {status["name"]: status["restartCount"] for status in statuses}


def states(found: Obj) -> list[str]:
    return [f"{s['name']} {s['phase']}" for s in found["status"]["containerRecreateStates"]]


def test_recreate_1_a_request_is_filled_in_and_completed() -> None:
    lab = running()
    before = lab.now
    made = lab.apply(request("app"))
    labels = made["metadata"]["labels"]
    assert labels["crr.apps.kruise.io/pod-uid"] == lab.get(pod("p"))["metadata"]["uid"]
    assert made["spec"]["strategy"] == {
        "failurePolicy": "Fail",
        "terminationGracePeriodSeconds": 30,
    }
    lab.run()
    found = lab.get(made)
    assert (found["status"]["phase"], states(found)) == ("Completed", ["app Succeeded"])
    assert "message" not in found["status"]
    assert "crr.apps.kruise.io/active" not in found["metadata"]["labels"]
    assert restarts(lab) == {"app": 1, "side": 0}
    assert lab.now - before < timedelta(seconds=10)
    assert "Killing" in lab.events("p")


def test_recreate_9_a_request_expires() -> None:
    lab = running()
    made = lab.apply(request("app", minStartedSeconds=5, ttlSecondsAfterFinished=3))
    lab.run(5)
    assert lab.get(made)["status"]["phase"] == "Recreating"
    lab.run()
    assert lab.get(made) is None
    assert restarts(lab)["app"] == 1


def test_recreate_11_a_deadline_ends_a_request() -> None:
    hook = {"preStop": {"exec": {"command": ["sleep", "8"]}}}
    lab = running(container("app", lifecycle=hook), container("side"))
    made = lab.apply(request("app", "side", activeDeadlineSeconds=3))
    lab.run(4)
    found = lab.get(made)
    assert states(found) == ["app Pending", "side Pending"]
    assert found["status"]["message"] == "recreating has exceeded the activeDeadlineSeconds"
    lab.run()
    assert restarts(lab) == {"app": 1, "side": 0}


def test_recreate_12_ordered_containers_restart_one_after_the_other() -> None:
    lab = running()
    made = lab.apply(request("side", "app", orderedRecreate=True))
    lab.run()
    assert states(lab.get(made)) == ["side Succeeded", "app Succeeded"]
    began = {
        status["name"]: status["state"]["running"]["startedAt"]
        for status in lab.get(pod("p"))["status"]["containerStatuses"]
    }
    assert began["side"] < began["app"]


@pytest.mark.parametrize("gate", [True, False])
def test_recreate_13_a_drained_pod_is_back_in_service(gate: bool) -> None:
    gates = [{"conditionType": "KruisePodReady"}] if gate else []
    lab = running(readinessGates=gates)
    if gate:
        ready = {"type": "KruisePodReady", "status": "True"}
        lab.patch(pod("p"), {"status": {"conditions": [ready]}}, subresource="status")
    made = lab.apply(request("app", unreadyGracePeriodSeconds=4))
    lab.run(2)
    conditions = {c["type"]: c["status"] for c in lab.get(pod("p"))["status"]["conditions"]}
    assert conditions.get("KruisePodReady") == ("False" if gate else None)
    assert restarts(lab)["app"] == 0
    lab.run()
    assert restarts(lab)["app"] == 1
    found, after = lab.get(made), lab.get(pod("p"))
    assert found["status"]["phase"] == "Completed"
    assert not found["metadata"].get("finalizers")
    conditions = {c["type"]: c["status"] for c in after["status"]["conditions"]}
    assert (conditions["Ready"], conditions.get("KruisePodReady", "True")) == ("True", "True")


def test_recreate_15_two_requests_restart_a_container_twice() -> None:
    lab = running()
    first, second = (lab.apply(request("app", name=name)) for name in ("one", "two"))
    lab.run(1)
    phases = [lab.get(made)["status"]["phase"] for made in (first, second)]
    assert phases == ["Recreating", "Pending"]
    lab.run()
    assert [lab.get(made)["status"]["phase"] for made in (first, second)] == ["Completed"] * 2
    # admitted before the first restart, so the second request finds the container restarted
    assert restarts(lab)["app"] == 1


def test_recreate_17_a_pod_that_is_deleted_ends_its_request() -> None:
    lab = running()
    made = lab.apply(request("app", unreadyGracePeriodSeconds=60))
    lab.run(1)
    lab.delete(pod("p"))
    lab.run(5)
    assert lab.get(made)["status"]["message"] == "pod has gone"


def test_the_successor_of_a_pod_is_left_alone() -> None:
    lab = running()
    made = lab.apply(request("app", unreadyGracePeriodSeconds=20))
    lab.run(1)
    lab.delete(pod("p"), gracePeriodSeconds=0)
    lab.apply(pod("p", container("app"), container("side")))
    lab.run(60)
    assert restarts(lab) == {"app": 0, "side": 0}
    assert lab.get(made)["status"]["phase"] == "Completed"


def test_kub_64_each_recreation_counts_for_back_off() -> None:
    lab, waits = running(), []
    for name in ("one", "two", "three"):
        before = lab.now
        lab.apply(request("app", name=name))
        lab.run()
        waits.append((lab.now - before).total_seconds())
    assert restarts(lab)["app"] == 3
    assert waits[0] < 10 <= waits[1] < 20 <= waits[2]


def test_pod_5_back_off_is_forgotten_after_a_long_run() -> None:
    lab = running()
    for name in ("one", "two"):
        lab.simulation.now += timedelta(seconds=700)
        before = lab.now
        lab.apply(request("app", name=name))
        lab.run()
        assert (lab.now - before).total_seconds() < 10, name
    assert restarts(lab)["app"] == 2


REFUSED: dict[str, tuple[Obj, str]] = {
    "RECREATE-2: deadline": (request("app", activeDeadlineSeconds=2), "less than 3s"),
    "RECREATE-3: twice": (request("app", "app"), "can not recreate app multi times"),
    "RECREATE-6: unknown": (request("other"), "container other not found in Pod"),
    "CRR-22: no containers": (request(), "containers list can not be null"),
    "CRR-22: no pod": (request("app", pod_name=""), "podName can not be empty"),
    "CRR-22: negative": (
        request("app", unreadyGracePeriodSeconds=-1),
        "unreadyGracePeriodSeconds",
    ),
    "CRR-23: missing pod": (request("app", pod_name="q"), "no found Pod named q"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_request_that_cannot_be_carried_out_is_refused(row: str) -> None:
    made, message = REFUSED[row]
    with pytest.raises(ApiError, match=message):
        running().apply(made)


def test_recreate_4_a_pod_without_containers_yet_is_refused() -> None:
    lab = Lab()
    lab.apply(pod("p"))
    with pytest.raises(ApiError, match="pending Pod"):
        lab.apply(request("app"))
    lab.run(0)
    with pytest.raises(ApiError, match="containerStatus"):
        lab.apply(request("app"))


def test_recreate_5_a_pod_that_ends_is_refused() -> None:
    lab = running()
    lab.delete(pod("p"))
    with pytest.raises(ApiError, match="inactive Pod"):
        lab.apply(request("app"))


PORTS = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
HTTP = {"httpGet": {"path": "/drain", "port": "http", "scheme": "HTTP"}}
EXEC = {"exec": {"command": ["/bin/drain"]}}
HOOKS: dict[str, tuple[Obj, Obj]] = {
    # the pod's hook → what the agent gets, next to name and status
    "exec": (EXEC, {"preStop": EXEC}),
    "httpGet, with the ports that it may name": (HTTP, {"preStop": HTTP, "ports": PORTS}),
    "sleep, which kubelet alone carries out": ({"sleep": {"seconds": 3}}, {"preStop": {}}),
}


@pytest.mark.parametrize("row", HOOKS)
def test_recreate_7_the_hook_is_copied_for_the_agent(row: str) -> None:
    hook, expected = HOOKS[row]
    lab = running(container("app", ports=PORTS, lifecycle={"preStop": hook}))
    (target,) = lab.apply(request("app"))["spec"]["containers"]
    assert {key: target[key] for key in ("preStop", "ports") if key in target} == expected


def test_recreate_8_only_labels_of_others_may_change() -> None:
    lab = running()
    made = lab.apply(request("app", unreadyGracePeriodSeconds=60))
    with pytest.raises(ApiError, match="spec of ContainerRecreateRequest is immutable"):
        lab.patch(made, {"spec": {"ttlSecondsAfterFinished": 4}})
    with pytest.raises(ApiError, match="immutable label crr"):
        lab.patch(made, {"metadata": {"labels": {"crr.apps.kruise.io/node-name": "x"}}})
    lab.patch(made, {"metadata": {"labels": {"mine": "x"}}})


def test_term_2_the_sidecar_of_a_job_ends_by_a_request() -> None:
    gates = Gates(sidecar_terminator=True)
    lab = Lab(gates=gates)
    env = [{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]
    mesh = container("mesh", command=["sleep", "100000"], env=env)
    lab.apply(pod("p", container("app", command=["sleep", "5"]), mesh, restartPolicy="Never"))
    lab.run(60)
    found = lab.get(pod("p"))
    assert found["status"]["phase"] == "Succeeded"
    (made,) = lab.world.objects(RECREATE, SPACE)
    assert made["status"]["message"] == "pod has finished"
    assert states(made) == ["mesh Recreating"]
