"""Pod statuses on simulated nodes, from creation to deletion."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.world.kubelet.profiles import CHAOS, FAST, GENERAL
from gitkruise.world.kubelet.runtime import image_id
from tests.worlds import Lab, container, parts_of, pod

PROBED: dict[str, Any] = {"readinessProbe": {"tcpSocket": {"port": 80}}}
KEY = {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}}}


def settings(**data: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }


def status(lab: Lab, name: str = "p") -> Any:
    return lab.get(pod(name))["status"]


def entry(lab: Lab, index: int = 0, name: str = "p") -> Any:
    return status(lab, name)["containerStatuses"][index]


def condition(lab: Lab, type_: str) -> Any:
    return next(c for c in status(lab)["conditions"] if c["type"] == type_)


def moments(lab: Lab, what: str, seconds: float = 3600) -> list[float]:
    """Return the times of the trace lines of that kind, in seconds since the start."""
    trace = lab.run(seconds)
    return [(line.at - trace.start).total_seconds() for line in trace.only(what)]


def change_image(lab: Lab, image: str, name: str = "p") -> None:
    found = lab.get(pod(name))
    first, *rest = found["spec"]["containers"]
    lab.patch(pod(name), {"spec": {"containers": [{**first, "image": image}, *rest]}})


def test_a_pod_is_placed_pulled_started_and_becomes_ready() -> None:
    lab = Lab()
    lab.apply(pod("p", container(**PROBED)))
    assert moments(lab, "ready") == [3.0]
    assert status(lab)["phase"] == "Running"
    assert status(lab)["podIP"].startswith("10.244.")
    assert status(lab)["hostIP"].startswith("10.0.")
    assert entry(lab)["imageID"] == image_id("app:v1")
    assert lab.events("p") == ["Scheduled", "Pulling", "Pulled", "Created", "Started"]


def test_without_a_probe_a_container_is_ready_when_it_runs() -> None:
    lab = Lab()
    lab.apply(pod())
    assert moments(lab, "ready") == [2.0]


def test_a_probe_waits_for_its_initial_delay() -> None:
    lab = Lab()
    lab.apply(
        pod("p", container(readinessProbe={**PROBED["readinessProbe"], "initialDelaySeconds": 20}))
    )
    assert moments(lab, "ready") == [23.0]


def test_pod_1_a_changed_image_restarts_that_container_in_the_same_pod() -> None:
    lab = Lab()
    lab.apply(pod("p", container("app", **PROBED), container("log", "log:v1")))
    lab.run()
    before = lab.get(pod())
    change_image(lab, "app:v2")
    trace = lab.run()
    after = lab.get(pod())
    old, new = before["status"]["containerStatuses"], after["status"]["containerStatuses"]
    assert [line.what for line in trace.lines] == ["unready", "ready"]
    assert (new[0]["restartCount"], new[0]["image"]) == (1, "app:v2")
    assert new[0]["imageID"] == image_id("app:v2")
    assert new[0]["containerID"] != old[0]["containerID"]
    assert new[1] == old[1]
    for path in (("metadata", "uid"), ("spec", "nodeName"), ("status", "podIP")):
        assert get(after, *path) == get(before, *path)
    assert "Killing" in lab.events("p")
    assert "BackOff" not in lab.events("p")


def test_pod_2_an_image_that_cannot_be_pulled_leaves_a_dead_container_and_a_running_pod() -> None:
    lab = Lab()
    lab.apply(pod())
    lab.run()
    change_image(lab, "app:v2-bad")
    lab.run(2.5)
    assert get(entry(lab), "state", "waiting", "reason") == "ErrImagePull"
    trace = lab.run()
    assert trace.quiet
    assert get(entry(lab), "state", "waiting", "reason") == "ImagePullBackOff"
    assert get(entry(lab), "lastState", "terminated", "reason") == "Completed"
    assert (entry(lab)["restartCount"], status(lab)["phase"]) == (0, "Running")
    assert condition(lab, "Ready")["status"] == "False"
    change_image(lab, "app:v3")
    lab.run()
    assert (entry(lab)["restartCount"], entry(lab)["ready"]) == (1, True)


def test_pod_3_another_name_for_the_same_digest_still_restarts() -> None:
    lab = Lab()
    lab.apply(pod("p", container(image="app:v1@sha256:00")))
    lab.run()
    first = entry(lab)
    change_image(lab, "app:v2@sha256:00")
    lab.run()
    assert entry(lab)["imageID"] == first["imageID"]
    assert entry(lab)["restartCount"] == 1


def test_pod_4_a_container_that_exits_at_once_is_restarted_at_growing_intervals() -> None:
    lab = Lab()
    lab.apply(pod("p", container(image="app:crash")))
    starts: list[int] = []
    for second in range(700):
        count = (status(lab).get("containerStatuses") or [{}])[0].get("restartCount", -1)
        if count >= len(starts) and "lastState" in entry(lab) and get(entry(lab), "containerID"):
            starts.append(second)
        lab.run(1)
    gaps = [after - before for before, after in pairwise(starts)]
    assert [round(gap, -1) for gap in gaps] == [0, 10, 20, 40, 80, 160, 300]
    assert status(lab)["phase"] == "Running"
    assert get(entry(lab), "state", "waiting", "reason") == "CrashLoopBackOff"


def test_kub_61_back_off_counts_every_exit_of_an_image() -> None:
    """Measured on a kubelet 1.34: v1, v2, v1, v2, v1 within seconds waits in the last step, after
    exits with code 0."""
    lab = Lab()
    lab.apply(pod("p", container(image="app:v1")))
    lab.run()
    for image in ("app:v2", "app:v1", "app:v2"):
        change_image(lab, image)
        lab.run(3)
        assert entry(lab)["ready"], image
    change_image(lab, "app:v1")
    lab.run(4)
    assert get(entry(lab), "state", "waiting", "reason") == "CrashLoopBackOff"
    assert get(entry(lab), "lastState", "terminated", "exitCode") == 0
    lab.run(12)
    assert entry(lab)["ready"]
    assert entry(lab)["restartCount"] == 4


def test_kub_61_an_image_that_never_ran_does_not_wait() -> None:
    lab = Lab()
    lab.apply(pod("p", container(image="app:v1")))
    lab.run()
    for number in range(2, 9):
        change_image(lab, f"app:v{number}")
        lab.run(3)
        assert entry(lab)["ready"], number


def test_pod_6_a_missing_key_blocks_the_first_start_until_it_is_there() -> None:
    lab = Lab()
    lab.apply(settings(other="x"))
    lab.apply(pod("p", container(env=[KEY])))
    assert lab.run().quiet
    waiting = entry(lab)["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"] == "couldn't find key k in ConfigMap shop/settings"
    assert status(lab)["phase"] == "Pending"
    lab.patch(settings(), {"data": {"k": "v"}})
    assert moments(lab, "ready") == [12.0]


def test_pod_7_a_key_lost_while_running_is_missed_at_the_next_start() -> None:
    lab = Lab()
    lab.apply(settings(k="v"))
    lab.apply(pod("p", container(env=[KEY])))
    lab.run()
    lab.patch(settings(), {"data": {"k": None}})
    assert lab.run().lines == ()
    change_image(lab, "app:v2")
    lab.run()
    assert get(entry(lab), "state", "waiting", "reason") == "CreateContainerConfigError"
    assert status(lab)["phase"] == "Running"


def test_pod_8_metadata_changes_restart_nothing() -> None:
    lab = Lab()
    field = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}}
    lab.apply(pod("p", container(env=[field])))
    lab.run()
    before = entry(lab)
    lab.patch(pod(), {"metadata": {"annotations": {"a": "b"}}})
    assert lab.run().lines == ()
    assert entry(lab) == before


def test_pod_9_a_readiness_gate_keeps_a_pod_unready_until_somebody_sets_it() -> None:
    lab = Lab()
    lab.apply(pod("p", readinessGates=[{"conditionType": "g"}]))
    lab.run()
    assert condition(lab, "ContainersReady")["status"] == "True"
    assert condition(lab, "Ready")["reason"] == "ReadinessGatesNotReady"
    others = status(lab)["conditions"]
    gate = {"type": "g", "status": "True", "lastTransitionTime": None}
    lab.patch(pod(), {"status": {"conditions": [*others, gate]}}, subresource="status")
    assert moments(lab, "ready") == [0.0]


def gone_after(profile: Any, name: str = "p", **spec: Any) -> float:
    lab = Lab(profile=profile)
    lab.apply(pod(name, *spec.pop("containers", ()), **spec))
    lab.run(30)
    lab.delete(pod(name))
    return moments(lab, "gone")[0]


HOOK: dict[str, Any] = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
ENDINGS = {
    "exits on TERM": (FAST, {}, 1.0),
    "POD-10 preStop": (FAST, {"containers": [container(**HOOK)]}, 6.0),
    "POD-11 killed at the end of its grace": (
        replace(FAST, stop_s=99),
        {"terminationGracePeriodSeconds": 3},
        3.0,
    ),
}


@pytest.mark.parametrize(("profile", "spec", "seconds"), ENDINGS.values(), ids=ENDINGS)
def test_deletion_takes_as_long_as_the_containers_take(
    profile: Any, spec: Any, seconds: float
) -> None:
    assert gone_after(profile, **spec) == seconds


def test_pod_12_a_pod_without_a_node_is_removed_at_once() -> None:
    lab = Lab(nodes=0)
    lab.apply(pod())
    lab.run()
    assert condition(lab, "PodScheduled")["reason"] == "Unschedulable"
    lab.delete(pod())
    assert lab.get(pod()) is None


def test_a_finalizer_keeps_a_stopped_pod_until_it_is_taken_off() -> None:
    lab = Lab()
    lab.apply({**pod(), "metadata": {"name": "p", "finalizers": ["example.com/hold"]}})
    lab.run()
    lab.delete(pod())
    assert lab.run().quiet
    assert status(lab)["phase"] in {"Succeeded", "Failed"}
    lab.patch(pod(), {"metadata": {"finalizers": None}})
    lab.run()
    assert lab.get(pod()) is None


def test_init_containers_run_in_order_and_sidecars_stay() -> None:
    lab = Lab()
    init = [
        container("first", "init:v1"),
        container("mesh", "mesh:v1", restartPolicy="Always"),
        container("last", "init:v1"),
    ]
    lab.apply(pod("p", initContainers=init))
    lab.run(1.5)
    assert [s["started"] for s in status(lab)["initContainerStatuses"]] == [False, False, False]
    lab.run()
    states = [next(iter(s["state"])) for s in status(lab)["initContainerStatuses"]]
    assert states == ["terminated", "running", "terminated"]
    assert status(lab)["phase"] == "Running"


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_is_not_restarted_completes(policy: str) -> None:
    lab = Lab()
    lab.apply(pod("p", container(command=["sleep", "30"]), restartPolicy=policy))
    lab.run()
    assert status(lab)["phase"] == "Succeeded"
    assert (lab.now - Lab().now).total_seconds() == 32


def test_a_new_kubelet_goes_on_where_the_last_one_stopped() -> None:
    lab = Lab()
    lab.apply(pod("p", container(**PROBED)))
    lab.run()
    before = lab.get(pod())
    lab.simulation.parts = parts_of(FAST)
    assert lab.run().lines == ()
    assert lab.get(pod()) == before
    change_image(lab, "app:v2")
    lab.simulation.parts = parts_of(FAST)
    lab.run()
    assert (entry(lab)["image"], entry(lab)["restartCount"]) == ("app:v2", 1)


def test_a_runtime_that_spells_images_in_full_causes_no_restart() -> None:
    lab = Lab()
    lab.apply(pod("p", container(image="nginx")))
    lab.run()
    full = [{**entry(lab), "image": "docker.io/library/nginx:latest"}]
    lab.patch(pod(), {"status": {"containerStatuses": full}}, subresource="status")
    lab.simulation.parts = parts_of(FAST)
    lab.run()
    assert entry(lab)["restartCount"] == 0


def test_nothing_is_written_while_nothing_happens() -> None:
    lab = Lab()
    lab.apply(pod())
    lab.run()
    version = lab.world.version
    lab.run()
    lab.parts[-1].run(lab.world, lab.now)
    assert lab.world.version == version


def test_speed_divides_every_delay() -> None:
    lab = Lab(profile=FAST.faster(4))
    lab.apply(
        pod("p", container(readinessProbe={**PROBED["readinessProbe"], "initialDelaySeconds": 4}))
    )
    assert moments(lab, "ready") == [1.75]


def test_jitter_is_the_same_for_the_same_pod() -> None:
    runs = []
    for _ in range(2):
        lab = Lab(profile=GENERAL)
        lab.apply(pod("p", container(**PROBED)))
        runs.append(moments(lab, "ready"))
    assert runs[0] == runs[1]
    assert 3 < runs[0][0] < 6


def test_an_in_place_update_costs_three_status_writes() -> None:
    """Stopped, started, ready: what was seen of the spec goes along with them."""
    lab = Lab()
    lab.apply(pod("p", container(**PROBED)))
    lab.run()
    change_image(lab, "app:v2")
    before = lab.world.version
    lab.run()
    pods = [r for r in lab.world.records_since(before) if r.key.kind == "Pod"]
    assert len(pods) == 3
    assert status(lab)["observedGeneration"] == 2


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_full_of_failures_still_becomes_ready(seed: int) -> None:
    lab = Lab(profile=replace(CHAOS, chaos_rate=0.5), seed=seed)
    for i in range(6):
        lab.apply(pod(f"p{i}", container(**PROBED)))
    lab.run()
    statuses = [status(lab, f"p{i}") for i in range(6)]
    counts = [s["containerStatuses"][0]["restartCount"] for s in statuses]
    assert all(s["containerStatuses"][0]["ready"] for s in statuses)
    assert 0 < sum(counts) <= 6


def test_a_pod_that_comes_and_goes_between_two_looks_is_forgotten() -> None:
    lab = Lab()
    lab.apply(pod())
    lab.run()
    change_image(lab, "app:v2")
    lab.delete(pod(), gracePeriodSeconds=0)
    assert lab.run().quiet
    assert lab.pods() == []


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_changed_image_restarts_its_container_whatever_the_policy(policy: str) -> None:
    lab, long = Lab(), {"command": ["sleep", "600"]}
    lab.apply(pod("p", container("a", "a:v1", **long), restartPolicy=policy))
    lab.run(5)
    lab.patch(pod("p"), {"spec": {"containers": [container("a", "a:v2", **long)]}})
    lab.run(60)
    status = lab.get(pod("p"))["status"]
    (entry,) = status["containerStatuses"]
    assert (status["phase"], entry["image"], entry["restartCount"]) == ("Running", "a:v2", 1)
    lab.run(3600)
    assert lab.get(pod("p"))["status"]["phase"] == "Succeeded"
