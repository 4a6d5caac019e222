"""Advanced StatefulSets are defaulted and refused by OpenKruise's rules."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal
from tests.planner.statefulset.build import DATA, GATE, IN_PLACE
from tests.planner.statefulset.build import advanced as bare

PARALLEL: Any = {"podManagementPolicy": "Parallel"}
ROLLING = "spec.updateStrategy.rollingUpdate."
WEIGHT = {"weight": 20, "matchSelector": {"matchLabels": {"foo": "bar"}}}


def advanced(**options: Any) -> dict[str, Any]:
    made = bare(**options)
    return {**made, "metadata": {"name": "db", "namespace": "shop"}}


def selecting(selector: Any) -> dict[str, Any]:
    return dict(put(advanced(), ("spec", "selector"), selector))


def test_asts_10_defaults() -> None:
    spec = admitted(advanced(replicas=None))["spec"]
    assert spec["replicas"] == 1
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["revisionHistoryLimit"] == 10
    assert spec["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "partition": 0,
            "maxUnavailable": 1,
            "podUpdatePolicy": "ReCreate",
            "minReadySeconds": 0,
        },
    }
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


def test_asts_10_on_delete_gets_no_rolling_update() -> None:
    spec = admitted(advanced(updateStrategy={"type": "OnDelete"}))["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}


def test_asts_10_no_retention_policy_without_its_gate() -> None:
    spec = admitted(advanced(), gates=Gates(stateful_set_auto_delete_pvc=False))["spec"]
    assert "persistentVolumeClaimRetentionPolicy" not in spec


def test_asts_11_templates_get_core_defaults() -> None:
    spec = admitted(advanced(volumeClaimTemplates=[DATA]))["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["volumeClaimTemplates"][0]["status"] == {"phase": "Pending"}
    spec = admitted(advanced(), gates=Gates(template_no_defaults=True))["spec"]
    assert "restartPolicy" not in spec["template"]["spec"]


@pytest.mark.parametrize(
    ("obj", "causes"),
    [
        pytest.param(advanced(**PARALLEL), (), id="ASTS-12"),
        pytest.param(
            advanced(podManagementPolicy="Any"), ("spec.podManagementPolicy",), id="ASTS-12 pods"
        ),
        pytest.param(
            advanced(updateStrategy={"type": "Recreate"}),
            ("spec.updateStrategy",),
            id="ASTS-12 type",
        ),
        pytest.param(
            advanced(rolling={"podUpdatePolicy": "InPlace"}),
            (ROLLING + "podUpdatePolicy",),
            id="ASTS-12 policy",
        ),
        pytest.param(
            advanced(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            ("spec.updateStrategy.rollingUpdate",),
            id="ASTS-13",
        ),
        pytest.param(advanced(rolling={"partition": -1}), (ROLLING + "partition",), id="ASTS-14"),
        pytest.param(advanced(replicas=-1), ("spec.replicas",), id="ASTS-14 replicas"),
        pytest.param(advanced(rolling={"minReadySeconds": 300}), (), id="ASTS-14 at most"),
        pytest.param(
            advanced(rolling={"minReadySeconds": 301}),
            (ROLLING + "minReadySeconds",),
            id="ASTS-14 ready",
        ),
        pytest.param(advanced(rolling={"maxUnavailable": 3}, **PARALLEL), (), id="ASTS-15"),
        pytest.param(advanced(rolling={"maxUnavailable": "30%"}, **PARALLEL), (), id="ASTS-15 %"),
        pytest.param(
            advanced(rolling={"maxUnavailable": 2}),
            (ROLLING + "maxUnavailable",),
            id="ASTS-15 order",
        ),
        pytest.param(
            advanced(rolling={"maxUnavailable": "100%"}),
            (ROLLING + "maxUnavailable",),
            id="ASTS-15 order in percent",
        ),
        pytest.param(
            advanced(rolling={"maxUnavailable": 0}, **PARALLEL),
            (ROLLING + "maxUnavailable",),
            id="ASTS-15 none",
        ),
        pytest.param(
            advanced(scaleStrategy={"maxUnavailable": 2}),
            ("spec.scaleStrategy.maxUnavailable",),
            id="ASTS-15 scale",
        ),
        pytest.param(advanced(rolling={"unorderedUpdate": {}}, **PARALLEL), (), id="ASTS-16"),
        pytest.param(
            advanced(rolling={"unorderedUpdate": {}}),
            (ROLLING + "unorderedUpdate",),
            id="ASTS-16 order",
        ),
        pytest.param(
            advanced(
                rolling={
                    "unorderedUpdate": {
                        "priorityStrategy": {
                            "weightPriority": [WEIGHT],
                            "orderPriority": [{"orderedKey": "k"}],
                        }
                    }
                },
                **PARALLEL,
            ),
            (ROLLING + "unorderedUpdate.priorityStrategy",),
            id="ASTS-16 both",
        ),
        pytest.param(advanced(rolling=IN_PLACE, pod=GATE), (), id="ASTS-17"),
        pytest.param(
            advanced(rolling=IN_PLACE), ("spec.template.spec.readinessGates",), id="ASTS-17 gate"
        ),
        pytest.param(advanced(reserveOrdinals=[1, "3-5"]), (), id="ASTS-18"),
        pytest.param(
            advanced(reserveOrdinals=[1, "3..5"]), ("spec.reserveOrdinals[1]",), id="ASTS-18 text"
        ),
        pytest.param(
            advanced(reserveOrdinals=["5-3"]), ("spec.reserveOrdinals[0]",), id="ASTS-18 order"
        ),
        pytest.param(
            advanced(reserveOrdinals=[-1]), ("spec.reserveOrdinals[0]",), id="ASTS-18 negative"
        ),
        pytest.param(
            advanced(persistentVolumeClaimRetentionPolicy={"whenScaled": "Keep"}),
            ("spec.persistentVolumeClaimRetentionPolicy.whenScaled",),
            id="ASTS-19",
        ),
        pytest.param(selecting({}), ("spec.selector",), id="ASTS-20 empty"),
        pytest.param(
            selecting({"matchLabels": {"app": "other"}}),
            ("spec.template.metadata.labels",),
            id="ASTS-20 labels",
        ),
        pytest.param(
            advanced(pod={"restartPolicy": "Never"}),
            ("spec.template.spec.restartPolicy",),
            id="ASTS-20 restart",
        ),
    ],
)
def test_rules(obj: dict[str, Any], causes: tuple[str, ...]) -> None:
    if not causes:
        assert admitted(obj)
        return
    assert fields(refusal(obj)) == set(causes)


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 5},
        {"ordinals": {"start": 3}},
        {"reserveOrdinals": [1]},
        {"revisionHistoryLimit": 3},
        {"volumeClaimTemplates": [DATA]},
        {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
        {"scaleStrategy": {"maxUnavailable": 1}},
        {"updateStrategy": {"type": "OnDelete"}},
        {"lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_asts_21_what_an_update_may_change(change: dict[str, Any]) -> None:
    assert admitted(advanced(**change), old=admitted(advanced()))


@pytest.mark.parametrize("change", [{"serviceName": "other"}, PARALLEL], ids=["service", "pods"])
def test_asts_21_what_an_update_may_not_change(change: dict[str, Any]) -> None:
    found = refusal(advanced(**change), old=admitted(advanced()))
    assert fields(found) == {"spec"}
    assert "fields other than 'replicas', 'ordinals'" in str(found)


def test_asts_1_versions_differ_in_their_name_alone() -> None:
    old = admitted(advanced())
    alpha = {**old, "apiVersion": "apps.kruise.io/v1alpha1"}
    assert admitted(alpha, old=old)["spec"] == old["spec"]
