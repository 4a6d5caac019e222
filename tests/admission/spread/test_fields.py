"""Fields of WorkloadSpreads at admission, conflicts, and both versions."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.errors import Forbidden, InvalidObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from tests.worlds import Lab, spread, subset

TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def refusal(obj: Obj, lab: Lab | None = None) -> str:
    try:
        (lab or Lab(nodes=0)).apply(obj)
    except InvalidObject as error:
        return error.message
    return ""


def targeted(**changes: Any) -> Obj:
    obj = spread("zones", subset("a"))
    obj["spec"]["targetRef"].update(changes)
    found: Obj = obj
    return found


def adaptive(*subsets: Obj, kind: str = "Adaptive", **settings: Any) -> Obj:
    obj = spread("zones", *subsets)
    obj["spec"]["scheduleStrategy"] = {"type": kind, "adaptive": settings}
    found: Obj = obj
    return found


def filtered(selector: Obj) -> Obj:
    obj = spread("zones", subset("a"))
    obj["spec"]["targetFilter"] = {"selector": selector}
    found: Obj = obj
    return found


PERCENT = "equal 100%"


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        pytest.param(targeted(name=""), "empty TargetReference", id="WS-1"),
        pytest.param(targeted(kind="Job", apiVersion="batch/v1"), "not permitted", id="WS-1 job"),
        pytest.param(targeted(apiVersion="apps/v1"), "not permitted", id="WS-1 group"),
        pytest.param(targeted(kind="Deployment", apiVersion="apps/v1"), "", id="WS-1 deployment"),
        pytest.param(spread("zones"), "subsets number must >= 1", id="WS-4"),
        pytest.param(spread("zones", subset("")), "spec.subsets[0].name", id="WS-4 name"),
        pytest.param(spread("zones", subset("a"), subset("a")), "Duplicate", id="WS-4 twice"),
        pytest.param(spread("zones", subset("a", -1)), "spec.subsets[0].maxReplicas", id="WS-5"),
        pytest.param(spread("zones", subset("a", "x")), "maxReplicas", id="WS-5 text"),
        pytest.param(
            spread("zones", subset("a", 1), subset("b", "50%")), "must be the same", id="WS-5 types"
        ),
        pytest.param(
            spread("zones", subset("a", "60%"), subset("b", "50%")), "exceeds 100%", id="WS-5 sum"
        ),
        pytest.param(
            spread("zones", subset("a", "60%"), subset("b", "30%")), PERCENT, id="WS-5 less"
        ),
        pytest.param(spread("zones", subset("a", "60%"), subset("b")), "", id="WS-5 open"),
        pytest.param(spread("zones", subset("a", "60%"), subset("b", "40%")), "", id="WS-5 whole"),
        pytest.param(
            spread(
                "zones",
                subset("a", requiredNodeSelector={"matchFields": [{"key": "x", "operator": "In"}]}),
            ),
            "spec.subsets[0].requiredNodeSelector.matchFields[0].key",
            id="WS-6 required",
        ),
        pytest.param(
            spread("zones", subset("a", preferredNodeSelector=[{"weight": 0, "preference": TERM}])),
            "must be in the range 1-100",
            id="WS-6 preferred",
        ),
        pytest.param(
            spread("zones", subset("a", tolerations=[{"key": "a", "operator": "Never"}])),
            "spec.subsets[0].tolerations[0].operator",
            id="WS-6 toleration",
        ),
        pytest.param(
            adaptive(subset("a"), subset("b"), kind="Sometimes"), "Sometimes", id="WS-7"
        ),
        pytest.param(adaptive(subset("a"), subset("b"), kind="Fixed"), "adaptive", id="WS-8 fixed"),
        pytest.param(adaptive(subset("a", 1), subset("b", 1)), "the last subset", id="WS-8 last"),
        pytest.param(
            adaptive(subset("a", 1), subset("b"), rescheduleCriticalSeconds=296),
            "rescheduleCriticalSeconds > 295",
            id="WS-8 long",
        ),
        pytest.param(
            adaptive(subset("a", 1), subset("b"), subset("c"), rescheduleCriticalSeconds=148),
            "rescheduleCriticalSeconds > 147",
            id="WS-8 three",
        ),
        pytest.param(
            adaptive(subset("a", 1), subset("b"), rescheduleCriticalSeconds=-1), "< 0", id="WS-8 -1"
        ),
        pytest.param(
            adaptive(subset("a", 1), subset("b"), rescheduleCriticalSeconds=295), "", id="WS-8 ok"
        ),
        pytest.param(
            adaptive(subset("a"), disableSimulationSchedule=True), "", id="WS-9"
        ),
        pytest.param(spread("zones", subset("a", patch="x")), "must be an object", id="WS-10"),
        pytest.param(filtered({"matchLabels": {"a b": ""}}), "a b", id="WS-11"),
    ],
)  # fmt: skip
def test_fields(obj: Obj, text: str) -> None:
    found = refusal(obj)
    assert text in found
    assert bool(text) == bool(found), found


def test_ws_1_a_target_is_needed() -> None:
    obj = spread("zones", subset("a"))
    del obj["spec"]["targetRef"]
    assert "spec.targetRef" in refusal(obj)


def test_ws_2_the_target_never_changes() -> None:
    lab = Lab(nodes=0)
    lab.apply(spread("zones", subset("a")))
    lab.patch(spread(), {"spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1"}}})
    with pytest.raises(InvalidObject, match="change TargetReference is not permitted"):
        lab.patch(spread(), {"spec": {"targetRef": {"name": "other"}}})


def test_spread_14_one_target_one_spread() -> None:
    lab = Lab(nodes=0)
    lab.apply(spread("zones", subset("a")))
    found = refusal(spread("others", subset("a")), lab)
    assert "ws.spec.targetRef is in conflict with other WorkloadSpread zones" in found
    assert refusal(spread("others", subset("a"), kind="Deployment"), lab) == ""
    assert refusal(spread("more", subset("a"), to="api"), lab) == ""


def test_spread_15_the_gate_is_off() -> None:
    with pytest.raises(Forbidden, match="feature WorkloadSpread is invalid"):
        Lab(nodes=0, gates=Gates(workload_spread=False)).apply(spread("zones", subset("a")))


def test_ws_13_both_versions() -> None:
    weighted = [{"weight": 1, "preference": TERM}]
    beta = spread("zones", subset("a", requiredNodeSelector=TERM, preferredNodeSelector=weighted))
    when = "2026-11-21T10:00:00Z"
    condition = {"type": "Schedulable", "status": "True", "lastTransitionTime": when}
    count = {"name": "a", "replicas": 1, "missingReplicas": -1}
    whole = {**condition, "reason": "Unknown", "message": ""}
    status = {
        "subsetStatuses": [{**count, "conditions": [whole]}],
        "versionedSubsetStatuses": {"versionIgnored": [{**count, "conditions": [whole]}]},
    }
    alpha = convert({**beta, "status": status}, "v1alpha1")
    (first,) = alpha["spec"]["subsets"]
    assert first["requiredNodeSelectorTerm"] == TERM
    assert first["preferredNodeSelectorTerms"] == weighted
    assert convert(alpha, "v1beta1") == {**beta, "status": status}
    bare = {**alpha, "status": {"subsetStatuses": [{**count, "conditions": [condition]}]}}
    (found,) = convert(bare, "v1beta1")["status"]["subsetStatuses"]
    assert found["conditions"] == [whole]
    lab = Lab(nodes=0)
    lab.apply({k: v for k, v in alpha.items() if k != "status"})
    assert lab.get(beta)["spec"]["subsets"][0]["requiredNodeSelector"] == TERM
