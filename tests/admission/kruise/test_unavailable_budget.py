"""Fields of PodUnavailableBudgets at admission, conflicts, and both versions."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.errors import Forbidden, InvalidObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import PROTECT_OPERATIONS, TOTAL_REPLICAS
from gitkruise.wire.primitives.names import Obj
from tests.worlds import Lab, budget

WEB = {"matchLabels": {"app": "web"}}


def refusal(obj: Obj, lab: Lab | None = None) -> str:
    try:
        (lab or Lab(nodes=0)).apply(obj)
    except InvalidObject as error:
        return error.message
    return ""


def alpha(notes: Obj | None = None, **spec: Any) -> Obj:
    obj = budget(**spec)
    meta = {**obj["metadata"], "annotations": notes or {}}
    return {**obj, "apiVersion": "policy.kruise.io/v1alpha1", "metadata": meta}


def without_target(**spec: Any) -> Obj:
    return {**budget(), "spec": spec}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        pytest.param(without_target(maxUnavailable=1), "no selector or targetRef", id="PUB-1"),
        pytest.param(
            without_target(selector=WEB, targetRef=budget()["spec"]["targetRef"], maxUnavailable=1),
            "selector and targetRef are mutually exclusive",
            id="PUB-1 both",
        ),
        pytest.param(budget(selector={}, maxUnavailable=1), "empty selector", id="PUB-2"),
        pytest.param(
            budget(selector={"matchLabels": {"a b": ""}}, maxUnavailable=1), "a b", id="PUB-2 bad"
        ),
        pytest.param(
            without_target(targetRef={"kind": "CloneSet", "name": "web"}, maxUnavailable=1),
            "spec.targetRef",
            id="PUB-3",
        ),
        pytest.param(budget(), "no maxUnavailable or minAvailable", id="PUB-4"),
        pytest.param(
            budget(maxUnavailable=1, minAvailable=1), "mutually exclusive", id="PUB-4 two"
        ),
        pytest.param(budget(maxUnavailable=-1), "greater than or equal to 0", id="PUB-4 negative"),
        pytest.param(budget(minAvailable="101%"), "must not be greater than 100%", id="PUB-4 101"),
        pytest.param(budget(minAvailable="5"), "spec.minAvailable", id="PUB-4 text"),
        pytest.param(
            budget(maxUnavailable=1, protectOperations=["PATCH"]), "protectOperations", id="PUB-5"
        ),
        pytest.param(
            alpha({PROTECT_OPERATIONS: "DELETE,SCALE"}, maxUnavailable=1),
            '"SCALE"',
            id="PUB-5 note",
        ),
        pytest.param(budget(maxUnavailable=1, protectTotalReplicas=0), "protectTotal", id="PUB-6"),
        pytest.param(
            alpha({TOTAL_REPLICAS: "%%"}, maxUnavailable=1),
            "must be a valid int32",
            id="PUB-6 note",
        ),
        pytest.param(budget(maxUnavailable=1, ignoredPodSelector={}), "ignoredPod", id="PUB-7"),
        pytest.param(budget(maxUnavailable=0), "", id="good"),
        pytest.param(budget(selector=WEB, minAvailable="100%"), "", id="good by selector"),
        pytest.param(alpha({TOTAL_REPLICAS: "10"}, maxUnavailable=1), "", id="good by note"),
    ],
)
def test_fields(obj: Obj, text: str) -> None:
    found = refusal(obj)
    assert text in found
    assert bool(text) == bool(found)


def test_pub_6_annotation_and_field_must_agree() -> None:
    obj = budget(maxUnavailable=1, protectTotalReplicas=3)
    meta = {**obj["metadata"], "annotations": {TOTAL_REPLICAS: "4"}}
    assert "must match spec.protectTotalReplicas" in refusal({**obj, "metadata": meta})


def test_pub_1_what_a_budget_means_cannot_be_changed() -> None:
    lab = Lab(nodes=0)
    lab.apply(budget(selector=WEB, maxUnavailable=1))
    lab.patch(budget(), {"spec": {"maxUnavailable": 2}})
    with pytest.raises(InvalidObject, match="selector and targetRef cannot be modified"):
        lab.patch(budget(), {"spec": {"selector": {"matchLabels": {"app": "api"}}}})


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ({}, {}, True),
        ({}, {"to": "api"}, False),
        ({"selector": WEB}, {"selector": {"matchLabels": {"tier": "x"}}}, True),
        ({"selector": WEB}, {"selector": {"matchLabels": {"app": "api"}}}, False),
        ({"selector": WEB}, {}, False),
    ],
    ids=["PUB-8 same target", "other target", "PUB-8 overlap", "disjoint", "not compared"],
)
def test_conflicts(one: Obj, other: Obj, conflict: bool) -> None:
    lab = Lab(nodes=0)
    lab.apply(budget("first", maxUnavailable=1, **one))
    found = refusal(budget("second", maxUnavailable=1, **other), lab)
    assert ("in conflict with other PodUnavailableBudget first" in found) == conflict


def test_pub_9_without_its_gates_there_are_no_budgets() -> None:
    lab = Lab(nodes=0, gates=Gates(pod_unavailable_budget_delete_gate=False))
    with pytest.raises(Forbidden, match="feature-gate"):
        lab.apply(budget(maxUnavailable=1))


def test_pub_10_11_conversion() -> None:
    notes = {PROTECT_OPERATIONS: "DELETE,EVICT", TOTAL_REPLICAS: "15", "keep": "me"}
    beta = convert(alpha(notes, maxUnavailable="50%"), "v1beta1")
    assert beta["spec"]["protectOperations"] == ["DELETE", "EVICT"]
    assert beta["spec"]["protectTotalReplicas"] == 15
    assert beta["metadata"]["annotations"] == notes
    back = convert(beta, "v1alpha1")
    assert back == alpha(notes, maxUnavailable="50%")
    changed = {**beta, "spec": {"maxUnavailable": 1, "ignoredPodSelector": WEB}}
    plain = convert(changed, "v1alpha1")
    assert plain["metadata"]["annotations"] == {"keep": "me"}
    assert plain["spec"] == {"maxUnavailable": 1}


def test_both_versions_are_served() -> None:
    lab = Lab(nodes=0)
    lab.apply(alpha({PROTECT_OPERATIONS: "EVICT"}, maxUnavailable=1))
    assert lab.get(budget())["spec"]["protectOperations"] == ["EVICT"]
    shown = lab.patch(alpha(), {"spec": {"maxUnavailable": 2}})
    assert "protectOperations" not in shown["spec"]
    assert shown["metadata"]["annotations"] == {PROTECT_OPERATIONS: "EVICT"}
