"""CloneSets are defaulted and refused by OpenKruise's rules, in both versions."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.kruise.update_strategy import strategy_problems
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal

GROUP = "apps.kruise.io"
Cause = tuple[str, ...]


def cloneset(version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "CloneSet",
        "metadata": {"name": "x", "namespace": "shop", "uid": "u1"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec},
    }


def pod(name: str, uid: str = "u1", **meta: Any) -> dict[str, Any]:
    owner = {"apiVersion": GROUP + "/v1beta1", "kind": "CloneSet", "name": "x", "uid": uid,
             "controller": True}  # fmt: skip
    meta = {"name": name, "namespace": "shop", "ownerReferences": [owner], **meta}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def update(**strategy: Any) -> dict[str, Any]:
    return cloneset(replicas=1, updateStrategy=strategy)


def rolling(**strategy: Any) -> dict[str, Any]:
    return cloneset("v1beta1", replicas=1, updateStrategy={"rollingUpdate": strategy})


WEIGHT = {"weight": 20, "matchSelector": {"matchLabels": {"foo": "bar"}}}
AT = "spec.updateStrategy."
BETA_AT = "spec.updateStrategy.rollingUpdate."


@pytest.mark.parametrize(
    ("obj", "causes"),
    [
        pytest.param(update(maxUnavailable=1, maxSurge=1), (), id="VALID-2"),
        pytest.param(update(maxUnavailable=0, maxSurge=1), (), id="VALID-2 surge alone"),
        pytest.param(update(maxUnavailable="120%"), (), id="VALID-3"),
        pytest.param(update(maxUnavailable="12.5%"), (), id="VALID-3 decimal"),
        pytest.param(update(priorityStrategy={"weightPriority": [WEIGHT]}), (), id="VALID-4"),
        pytest.param(
            cloneset(progressDeadlineSeconds=2147483647, minReadySeconds=2147483647),
            (),
            id="VALID-7",
        ),
        pytest.param(cloneset(replicas=-1), ("spec.replicas",), id="VALID-8"),
        pytest.param(update(partition=-1), (AT + "partition",), id="VALID-11"),
        pytest.param(update(partition="a%"), (AT + "partition",), id="VALID-11 text"),
        pytest.param(update(maxUnavailable=0), (AT + "maxUnavailable",), id="VALID-12"),
        pytest.param(
            update(maxUnavailable=0, maxSurge=0), (AT + "maxUnavailable",), id="VALID-12 both"
        ),
        pytest.param(update(maxSurge="5"), (AT + "maxSurge",), id="VALID-15"),
        pytest.param(
            cloneset(progressDeadlineSeconds=5, minReadySeconds=5),
            ("spec.progressDeadlineSeconds",),
            id="VALID-16",
        ),
        pytest.param(
            cloneset(progressDeadlineSeconds=-1),
            ("spec.progressDeadlineSeconds",),
            id="VALID-16 below 0",
        ),
        pytest.param(update(type="OnDelete"), (AT + "type",), id="OnDelete is v1beta1's"),
        pytest.param(
            update(scatterStrategy=[{"key": "a", "value": "b"}] * 2),
            (AT + "scatterStrategy",),
            id="scatter twice",
        ),
        pytest.param(
            update(
                priorityStrategy={
                    "weightPriority": [
                        {**WEIGHT, "matchSelector": {"matchExpressions": [{"key": "a"}]}}
                    ]
                }
            ),
            (AT + "priorityStrategy",),
            id="weight with a bad selector",
        ),
        pytest.param(rolling(maxSurge="5"), (BETA_AT + "maxSurge",), id="beta surge"),
        pytest.param(rolling(podUpdatePolicy="Wild"), (BETA_AT + "podUpdatePolicy",), id="policy"),
        pytest.param(
            cloneset("v1beta1", updateStrategy={"type": "Wild"}), (AT + "type",), id="beta type"
        ),
        pytest.param(
            cloneset("v1beta1", updateStrategy={"type": "OnDelete"}), (), id="beta OnDelete"
        ),
        pytest.param(
            rolling(
                inPlaceUpdateStrategy={
                    "imagePreDownloadParallelism": "30%",
                    "imagePreDownloadTimeoutSeconds": -1,
                }
            ),
            (
                BETA_AT + "inPlaceUpdateStrategy.imagePreDownloadParallelism",
                BETA_AT + "inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
            ),
            id="beta downloads",
        ),
        pytest.param(
            cloneset("v1beta1", progressDeadlineSeconds=1, minReadySeconds=5),
            (),
            id="beta deadline",
        ),
    ],
)
def test_creates(obj: dict[str, Any], causes: Cause) -> None:
    assert fields(refusal(obj)) == set(causes)


def test_quirk_no_unavailable_pod_with_surge_is_a_plan_in_v1beta1_too() -> None:
    """OpenKruise's v1beta1 webhook forgets maxSurge here and refuses; v1alpha1 accepts."""
    assert refusal(rolling(maxUnavailable=0, maxSurge=1)) is None
    assert fields(refusal(rolling(maxUnavailable=0))) == {BETA_AT + "maxUnavailable"}


def test_a_missing_partition_is_refused_when_the_defaults_were_bypassed() -> None:
    found = strategy_problems({"updateStrategy": {"type": "ReCreate"}}, "v1alpha1")
    assert [problem.field for problem in found] == [AT + "partition"]


DELETE = "spec.scaleStrategy.podsToDelete"


@pytest.mark.parametrize(
    ("names", "pods", "causes"),
    [
        (["p0"], [pod("p0")], set()),
        (["p0", "p0"], [pod("p0")], {DELETE}),
        (["p1"], [pod("p0")], {DELETE}),
        (["p0"], [pod("p0", uid="other")], {DELETE}),
        (["p0"], [pod("p0", deletionTimestamp="2026-01-01T00:00:00Z")], {DELETE}),
        (["p0"], [pod("p0", namespace="else")], {DELETE}),
        (["known"], [], set()),
    ],
    ids=[
        "VALID-1",
        "VALID-13 twice",
        "VALID-13 unknown",
        "VALID-13 other owner",
        "terminating",
        "elsewhere",
        "old",
    ],
)
def test_pods_to_delete_are_looked_up(
    names: list[str], pods: list[dict[str, Any]], causes: set[str]
) -> None:
    old = admitted(cloneset())
    old = put(old, ("spec", "scaleStrategy"), {"podsToDelete": ["known"]})
    new = put(old, ("spec", "scaleStrategy"), {"podsToDelete": names})
    assert fields(refusal(new, old, around=tuple(pods))) == causes


def test_v1beta1_looks_up_no_pods() -> None:
    assert refusal(cloneset("v1beta1", scaleStrategy={"podsToDelete": ["gone"]})) is None


def test_an_old_object_may_come_in_the_other_version() -> None:
    old = admitted(cloneset("v1beta1"))
    other = put(admitted(cloneset()), ("spec", "selector"), {"matchLabels": {"app": "x", "b": "c"}})
    other = put(other, ("spec", "template", "metadata", "labels"), {"app": "x", "b": "c"})
    assert fields(refusal(other, old)) == {"spec"}
    assert refusal(admitted(cloneset(replicas=3)), old) is None


BETA_DEFAULTS = {
    "type": "RollingUpdate",
    "rollingUpdate": {
        "podUpdatePolicy": "ReCreate",
        "partition": 0,
        "maxUnavailable": "20%",
        "maxSurge": 0,
    },
}


def test_v1beta1_defaults() -> None:
    spec = admitted(cloneset("v1beta1"))["spec"]
    assert spec["updateStrategy"] == BETA_DEFAULTS
    assert spec["scaleStrategy"] == {"enablePVCReuse": False}
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    in_place = admitted(rolling(podUpdatePolicy="InPlaceOnly"))["spec"]["updateStrategy"]
    assert in_place["rollingUpdate"]["inPlaceUpdateStrategy"] == {}
    assert admitted(cloneset("v1beta1", updateStrategy={"type": "OnDelete"}))["spec"][
        "updateStrategy"
    ] == {"type": "OnDelete"}


CONTAINER = ("spec", "template", "spec", "containers", 0)
POLICY = (*CONTAINER, "imagePullPolicy")
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_valid_6_claim_templates_may_be_added() -> None:
    old = admitted(cloneset())
    assert refusal(put(old, ("spec", "volumeClaimTemplates"), [CLAIM]), old) is None


def test_valid_14_in_place_only_takes_new_images_and_nothing_else() -> None:
    old = admitted(update(type="InPlaceOnly"))
    new = put(old, (*CONTAINER, "image"), "nginx:2")
    assert refusal(new, old) is None
    assert refusal(put(new, POLICY, "Never"), old) is not None


def test_gate_template_no_defaults_leaves_templates_alone() -> None:
    stored = admitted(cloneset(), gates=Gates(template_no_defaults=True))
    assert stored["spec"]["template"]["spec"] == {
        "containers": [{"name": "main", "image": "nginx:1", "resources": {}}]
    }
    assert stored["spec"]["replicas"] == 1


def test_an_undefaulted_template_gets_defaults_only_when_it_changes() -> None:
    old = admitted(cloneset(), gates=Gates(template_no_defaults=True))
    scaled = admitted(put(old, ("spec", "replicas"), 5), old)
    assert scaled["spec"]["template"] == old["spec"]["template"]
    edited = admitted(put(old, (*CONTAINER, "image"), "nginx:2"), old)
    assert edited["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


def test_gate_host_ports() -> None:
    obj = put(cloneset(), (*CONTAINER, "ports"), [{"containerPort": 80}])
    obj = put(obj, ("spec", "template", "spec", "hostNetwork"), value=True)
    gates = Gates(default_host_network_host_ports_in_pod_templates=True)
    port = admitted(obj, gates=gates)["spec"]["template"]["spec"]["containers"][0]["ports"][0]
    assert port["hostPort"] == 80


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*CONTAINER, "resources"), {"limits": {"cpu": "abc"}}),
        ((*CONTAINER, "ports"), "80"),
        (("spec", "replicas"), "three"),
        (("spec", "updateStrategy"), {"partition": []}),
    ],
)
def test_a_value_no_type_can_hold_is_a_bad_request(path: tuple[str | int, ...], value: Any) -> None:
    error = refusal(put(cloneset(), path, value))
    assert error
    assert error.status == 400
    assert 'CloneSet in version "v1alpha1" cannot be handled as a CloneSet' in error.message


def test_refusals_read_as_the_server_says_them() -> None:
    error = refusal(cloneset(replicas=-1))
    assert error
    assert error.message == (
        'CloneSet.apps.kruise.io "x" is invalid: spec.replicas: Invalid value: -1: '
        "must be greater than or equal to 0"
    )
