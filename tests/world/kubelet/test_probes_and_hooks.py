"""Failing probes, hooks and reboots on simulated nodes. The profile starts containers after 2 s."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.world.kubelet.probes import hook_fails, probe_fails
from gitkruise.world.kubelet.profiles import FAST, ImageFate, Profile
from tests.worlds import SPACE, Lab, container, parts_of, pod

EVENTS: Final = GroupKind("", "Event")
FALSE: Final = {"exec": {"command": ["/bin/false"]}}
TRUE: Final = {"exec": {"command": ["true"]}}
QUICK: Final = {"periodSeconds": 5, "failureThreshold": 2}


def ran(seconds: float, *, profile: Profile = FAST, **spec: Any) -> Lab:
    """A pod with one container of these fields, after `seconds`."""
    policy = {"restartPolicy": spec.pop("restartPolicy")} if "restartPolicy" in spec else {}
    lab = Lab(profile=profile)
    lab.apply(pod("p", container(**spec), **policy))
    lab.run(seconds)
    return lab


def entry(lab: Lab) -> Any:
    return lab.get(pod())["status"]["containerStatuses"][0]


def messages(lab: Lab, reason: str) -> list[str]:
    found = lab.world.objects(EVENTS, SPACE)
    return [e["message"] for e in found if e["reason"] == reason]


def state(lab: Lab) -> tuple[int, bool, str]:
    """Restarts, readiness and the name of the state."""
    found = entry(lab)
    return found["restartCount"], found["ready"], next(iter(found["state"]))


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (2, (0, True, "running")),
        (16, (0, True, "running")),  # the second failure is at 2 + 10 + 5
        (17, (0, True, "running")),  # TERM
        (18, (0, False, "terminated")),
        (20, (1, True, "running")),
    ],
)
def test_kub_85_a_failed_liveness_probe_restarts_the_container(
    seconds: float, wanted: tuple[int, bool, str]
) -> None:
    probe = {**FALSE, **QUICK, "initialDelaySeconds": 10}
    assert state(ran(seconds, livenessProbe=probe)) == wanted


def test_kub_85_failures_are_reported_and_the_back_off_grows() -> None:
    lab = ran(600, livenessProbe={**FALSE, **QUICK})
    assert messages(lab, "Unhealthy") == ["Liveness probe failed: "]
    assert messages(lab, "Killing") == ["Container app failed liveness probe, will be restarted"]
    assert "BackOff" in lab.events("p")
    assert entry(lab)["restartCount"] == 7  # after 10, 20, 40, 80, 160 s


def test_kub_85_an_image_may_be_unhealthy_and_is_mended_by_another_one() -> None:
    lab = ran(60, image="app:v2-unhealthy", livenessProbe={**TRUE, **QUICK})
    assert entry(lab)["restartCount"] >= 1
    spec = container(image="app:v3", livenessProbe={**TRUE, **QUICK})
    lab.patch(pod(), {"spec": {"containers": [spec]}})
    lab.run(20)
    count = entry(lab)["restartCount"]
    lab.run(3600)
    assert state(lab) == (count, True, "running")


@pytest.mark.parametrize(
    ("policy", "restarts", "phase"),
    [("Always", True, "Running"), ("OnFailure", True, "Running"), ("Never", False, "Succeeded")],
)
def test_kub_27_only_never_leaves_a_killed_container_stopped(
    policy: str, restarts: bool, phase: str
) -> None:
    long, probe = ["sleep", "100000"], {**FALSE, **QUICK}
    lab = ran(25, restartPolicy=policy, livenessProbe=probe, command=long)
    assert (entry(lab)["restartCount"] > 0) is restarts
    assert lab.get(pod())["status"]["phase"] == phase


def test_kub_85_a_startup_probe_that_fails_keeps_the_container_unstarted() -> None:
    lab = ran(11, startupProbe={**FALSE, **QUICK}, livenessProbe=FALSE)
    assert (entry(lab)["restartCount"], entry(lab)["started"]) == (1, False)
    assert messages(lab, "Unhealthy") == ["Startup probe failed: "]
    assert messages(lab, "Killing") == ["Container app failed startup probe, will be restarted"]


def test_kub_82_liveness_waits_for_the_startup_probe() -> None:
    startup = {**TRUE, "initialDelaySeconds": 30}
    lab = ran(32, startupProbe=startup, livenessProbe={**FALSE, **QUICK})
    assert state(lab)[0] == 0
    lab.run(10)
    assert state(lab)[0] == 1


def test_kub_85_the_grace_period_of_the_probe_counts() -> None:
    slow = replace(FAST, stop_s=99)
    probe = {**FALSE, **QUICK, "terminationGracePeriodSeconds": 3}
    lab = ran(12, profile=slow, livenessProbe=probe)
    ended = entry(lab)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["finishedAt"]) == (137, "2026-11-21T10:00:10Z")


def test_kub_86_a_readiness_probe_that_fails_restarts_nothing() -> None:
    lab = ran(3600, readinessProbe=FALSE)
    assert state(lab) == (0, False, "running")


@pytest.mark.parametrize(("seconds", "expected"), [(6, "waiting"), (7, "running")])
def test_kub_87_a_container_is_reported_after_its_post_start_hook(
    seconds: int, expected: str
) -> None:
    hook = {"postStart": {"exec": {"command": ["sleep", "5"]}}}
    lab = ran(seconds, lifecycle=hook)
    assert state(lab)[2] == expected
    if expected == "running":
        assert entry(lab)["state"]["running"]["startedAt"] == "2026-11-21T10:00:02Z"


def test_kub_56_a_failed_post_start_hook_kills_the_container() -> None:
    lab = ran(2, lifecycle={"postStart": FALSE})
    assert entry(lab)["state"]["waiting"]["reason"] == "PostStartHookError"
    assert entry(lab)["lastState"]["terminated"]["exitCode"] == 137
    assert "FailedPostStartHook" in lab.events("p")
    lab.run(15)
    assert entry(lab)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    never = ran(60, lifecycle={"postStart": FALSE}, restartPolicy="Never")
    assert never.get(pod())["status"]["phase"] == "Failed"


@pytest.mark.parametrize(
    ("hook", "grace", "seconds"),
    [
        ({"sleep": {"seconds": 5}}, 30, 6.0),
        (
            {"exec": {"command": ["sleep", "50"]}},
            10,
            11.0,
        ),  # cut off, then a moment for the container
        (FALSE, 30, 1.0),
    ],
    ids=["in time", "cut off", "fails"],
)
def test_kub_88_a_pre_stop_hook_takes_its_time_of_the_grace(
    hook: Obj, grace: int, seconds: float
) -> None:
    lab = Lab()
    spec = container(lifecycle={"preStop": hook})
    lab.apply(pod("p", spec, terminationGracePeriodSeconds=grace))
    lab.run(30)
    lab.delete(pod())
    trace = lab.run(120)
    (gone,) = trace.only("gone")
    assert (gone.at - trace.start).total_seconds() == seconds
    assert ("FailedPreStopHook" in lab.events("p")) is (hook is FALSE)


def reboot(lab: Lab, boot: str = "second") -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "namespace": ""}}
    lab.patch(node, {"status": {"nodeInfo": {"bootID": boot}}}, subresource="status")


def test_kub_89_a_reboot_restarts_every_container_in_a_new_sandbox() -> None:
    lab = Lab(nodes=1)
    lab.apply(pod("p", container("a"), container("b"), initContainers=[container("first")]))
    lab.run(60)
    before = lab.get(pod())
    reboot(lab)
    lab.run(60)
    after = lab.get(pod())
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["podIP"] != before["status"]["podIP"]
    assert [s["restartCount"] for s in after["status"]["containerStatuses"]] == [1, 1]
    assert [s["restartCount"] for s in after["status"]["initContainerStatuses"]] == [1]
    lost = after["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert lost["exitCode"] == 255
    assert messages(lab, "SandboxChanged")


def test_kub_89_a_pod_that_is_not_restarted_fails_with_its_node() -> None:
    lab = Lab(nodes=1)
    lab.apply(pod("p", container(command=["sleep", "10000"]), restartPolicy="Never"))
    lab.run(60)
    reboot(lab)
    lab.run(60)
    assert lab.get(pod())["status"]["phase"] == "Failed"


def test_kub_89_a_kubelet_that_has_not_loaded_a_pod_restarts_it_too() -> None:
    lab = Lab(nodes=1)
    lab.apply(pod())
    lab.run(60)
    lab.simulation.parts = parts_of(FAST)
    lab.run(60)
    reboot(lab)
    lab.run(60)
    assert entry(lab)["restartCount"] == 1


@pytest.mark.parametrize("seconds", [1.5, 2.5, 8, 13])
def test_a_new_kubelet_goes_on_with_probes(seconds: float) -> None:
    slow = {**TRUE, "initialDelaySeconds": 10}
    lab = ran(seconds, readinessProbe=slow, startupProbe=slow)
    lab.simulation.parts = parts_of(FAST)
    lab.run(60)
    assert state(lab) == (0, True, "running")


COMMANDS: Final = {
    ("false",): True,
    ("/bin/sh", "-c", "exit 3"): True,
    ("sh", "-c", "exit 0"): False,
    ("cat", "/tmp/healthy"): False,
    ("false", "alarm"): False,
}


@pytest.mark.parametrize(("command", "fails"), COMMANDS.items(), ids=map(str, COMMANDS))
def test_commands_that_fail(command: tuple[str, ...], fails: bool) -> None:
    handler = {"exec": {"command": list(command)}}
    assert probe_fails({"livenessProbe": handler}, "livenessProbe", None) is fails
    assert hook_fails({"lifecycle": {"postStart": handler}}, "postStart") is fails


def test_requests_fail_with_the_image_alone() -> None:
    spec = {"livenessProbe": {"httpGet": {"port": 80}}}
    assert not probe_fails(spec, "livenessProbe", None)
    assert probe_fails(spec, "livenessProbe", ImageFate.UNHEALTHY)
    assert not probe_fails({}, "livenessProbe", ImageFate.UNHEALTHY)


def test_a_new_kubelet_goes_on_with_a_failing_probe_and_an_exit() -> None:
    lab = ran(5, livenessProbe={**FALSE, **QUICK, "initialDelaySeconds": 20})
    lab.simulation.parts = parts_of(FAST)
    lab.run(30)
    assert state(lab) == (1, True, "running")
    job = ran(5, command=["sleep", "30"], restartPolicy="Never")
    job.simulation.parts = parts_of(FAST)
    job.run(60)
    assert job.get(pod())["status"]["phase"] == "Succeeded"
    assert (job.now - Lab().now).total_seconds() == 32
