"""Pods get the plug-ins' settings and OpenKruise's gate, and little of them may change."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import Forbidden
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.paths import drop, get, put
from tests.admission.writes import admitted, fields, refusal, write

SPEC = {"containers": [{"name": "a", "image": "nginx:1"}]}


def pod(owner_group: str = "", **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": f"{owner_group}/v1", "kind": "Set", "name": "s", "uid": "u",
             "controller": True}  # fmt: skip
    meta = {"name": "p", **({"ownerReferences": [owner]} if owner_group else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**SPEC, **spec}}


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


@pytest.mark.parametrize(
    ("group", "gates", "gated"),
    [
        ("apps.kruise.io", Gates(), True),
        ("apps", Gates(), False),
        ("", Gates(), False),
        ("", Gates(kruise_pod_readiness_gate=True), True),
        ("apps.kruise.io", Gates(pod_webhook=False), False),
    ],
)
def test_pods_of_openkruise_get_its_readiness_gate(group: str, gates: Gates, gated: bool) -> None:
    stored = admitted(pod(group), gates=gates)
    listed = get(stored, "spec", "readinessGates", default=[])
    assert listed == ([{"conditionType": "KruisePodReady"}] if gated else [])
    again = {**stored, "metadata": {**stored["metadata"]}}
    assert get(admitted(again, gates=gates), "spec", "readinessGates", default=[]) == listed


def test_the_gate_is_not_added_to_a_pod_that_is_there() -> None:
    old = admitted(pod("apps.kruise.io"), gates=Gates(pod_webhook=False))
    assert "readinessGates" not in admitted(old, old)["spec"]


@pytest.mark.parametrize(
    ("spec", "classes", "priority"),
    [
        ({}, (), 0),
        ({}, (priority_class("d", 7, globalDefault=True),), 7),
        ({"priorityClassName": "high"}, (priority_class("high", 9),), 9),
        ({"priorityClassName": "system-node-critical"}, (), 2000001000),
    ],
)
def test_priority_follows_the_class(
    spec: dict[str, Any], classes: tuple[dict[str, Any], ...], priority: int
) -> None:
    assert admitted(pod(**spec), around=classes)["spec"]["priority"] == priority


def test_an_unknown_priority_class_is_forbidden() -> None:
    with pytest.raises(Forbidden, match="no PriorityClass with name high was found"):
        admitted(pod(priorityClassName="high"))


def test_a_negative_grace_period_is_a_second() -> None:
    spec = admitted(pod(terminationGracePeriodSeconds=-1))["spec"]
    assert spec["terminationGracePeriodSeconds"] == 1


def test_a_priority_of_its_own_is_forbidden() -> None:
    """The priority comes from the class alone; that of an object read back is the same one."""
    assert admitted(pod(priority=0))["spec"]["priority"] == 0
    with pytest.raises(Forbidden, match=r"priority \(5\) must not be .* controller computed 0"):
        admitted(pod(priority=5))


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], 2),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}], 1),
        ([{"operator": "Exists"}], 0),
        ([{"key": "x", "operator": "Exists"}], 2),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 2),
    ],
)
def test_five_minutes_on_an_unwell_node_unless_set_otherwise(
    given: list[dict[str, Any]], added: int
) -> None:
    tolerations = admitted(pod(tolerations=given))["spec"]["tolerations"]
    assert tolerations[: len(given)] == given
    assert len(tolerations) == len(given) + added


def test_requests_follow_limits_in_pods_alone() -> None:
    resources = {"limits": {"cpu": "2000m", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    container = {"name": "a", "image": "b", "resources": resources}
    stored = admitted(pod(containers=[container]))["spec"]["containers"][0]["resources"]
    assert stored["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert stored["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert resources["requests"] == {"cpu": "1"}, "what was sent stays as it is"


def test_fields_of_newer_releases_are_kept() -> None:
    stored = admitted(pod(hostnameOverride="h"))
    assert stored["spec"]["hostnameOverride"] == "h"


C = ("spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "value", "refused"),
    [
        ((*C, "image"), "nginx:2", set()),
        ((*C, "image"), "", {"spec.containers[0].image"}),
        ((*C, "env"), [{"name": "A"}], {"spec"}),
        (("spec", "nodeName"), "n2", {"spec"}),
        (("spec", "terminationGracePeriodSeconds"), 5, {"spec"}),
        (("spec", "activeDeadlineSeconds"), 50, set()),
        (("spec", "activeDeadlineSeconds"), 101, {"spec.activeDeadlineSeconds"}),
        (("spec", "activeDeadlineSeconds"), None, {"spec.activeDeadlineSeconds"}),
        (("spec", "containers"), [*SPEC["containers"], {"name": "b", "image": "c"}],
         {"spec.containers"}),
        (("spec", "tolerations", 0, "tolerationSeconds"), 1, set()),
        (("spec", "tolerations", 0, "key"), "x", {"spec.tolerations"}),
        (("spec", "schedulingGates"), [], set()),
        (("spec", "schedulingGates"), [{"name": "g2"}], {"spec.schedulingGates[0]"}),
        (("metadata", "labels"), {"a": "b"}, set()),
    ],
)  # fmt: skip
def test_what_may_change_of_a_pod(
    path: tuple[str | int, ...], value: Any, refused: set[str]
) -> None:
    tolerations = [
        {"key": "t", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}
    ]
    old = admitted(
        pod(
            activeDeadlineSeconds=100,
            nodeName="n1",
            schedulingGates=[{"name": "g"}],
            tolerations=tolerations,
        )
    )
    new = drop(old, path) if value is None else put(old, path, value)
    assert fields(refusal(new, old)) == refused


def test_a_negative_grace_period_may_become_one_second() -> None:
    old = admitted(pod(terminationGracePeriodSeconds=-5))
    path = ("spec", "terminationGracePeriodSeconds")
    assert refusal(put(old, path, 1), old) is None
    assert fields(refusal(put(old, path, 2), old)) == {"spec"}


def test_subresources_and_deletions_pass_as_they_are() -> None:
    bare = pod()
    assert admitted(bare, bare, subresource="status") is bare
    assert write(bare, operation="DELETE").operation == "DELETE"
    assert admitted(bare, operation="DELETE") is bare


DEBUG = {"name": "dbg", "image": "busybox"}


def debugged(*listed: dict[str, Any], old: Any) -> Any:
    return put(old, ("spec", "ephemeralContainers"), list(listed))


def test_ephemeral_containers_get_defaults() -> None:
    old = admitted(pod())
    new = admitted(debugged(DEBUG, old=old), old, subresource="ephemeralcontainers")
    (stored,) = new["spec"]["ephemeralContainers"]
    assert stored["imagePullPolicy"] == "Always"
    assert stored["terminationMessagePolicy"] == "File"
    again = debugged(DEBUG, {**DEBUG, "name": "two"}, old=new)
    assert (
        len(admitted(again, new, subresource="ephemeralcontainers")["spec"]["ephemeralContainers"])
        == 2
    )


@pytest.mark.parametrize(
    ("listed", "refused"),
    [
        ([DEBUG, {**DEBUG, "name": "b", "targetContainerName": "a"}], set()),
        (
            [DEBUG, {**DEBUG, "name": "b", "targetContainerName": "dbg"}],
            {"[1].targetContainerName"},
        ),
        ([DEBUG, {**DEBUG, "name": "a"}], {"[1].name"}),
        ([DEBUG, {"name": "b"}], {"[1].image"}),
        ([DEBUG, {**DEBUG, "name": "b", "ports": [{"containerPort": 1}]}], {"[1].ports"}),
        ([DEBUG, {**DEBUG, "name": "b", "resources": {"limits": {"cpu": "1"}}}], {"[1].resources"}),
        ([{**DEBUG, "image": "other"}], {""}),
        ([], {""}),
    ],
)
def test_ephemeral_containers_are_added_only(listed: Any, refused: set[str]) -> None:
    first = admitted(pod())
    old = admitted(debugged(DEBUG, old=first), first, subresource="ephemeralcontainers")
    error = refusal(debugged(*listed, old=old), old, subresource="ephemeralcontainers")
    assert fields(error) == {f"spec.ephemeralContainers{field}" for field in refused}


def test_a_new_pod_has_no_ephemeral_containers() -> None:
    assert fields(refusal(pod(ephemeralContainers=[DEBUG]))) == {"spec.ephemeralContainers"}
