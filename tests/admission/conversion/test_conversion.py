"""CloneSets convert between versions as OpenKruise's conversion webhook does, losses included."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.admission.conversion.registry import POLICIES, convert
from gitkruise.model.workloads.labels import EXCLUDE_PREPARING_DELETE

ALPHA, BETA = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"
PRE = "apps.kruise.io/image-predownload-"


def cloneset(version: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "CloneSet",
        "metadata": {"name": "x", **meta},
        "spec": spec,
    }


def beta(spec: dict[str, Any], **meta: Any) -> Any:
    return convert(cloneset(ALPHA, spec, **meta), "v1beta1")


def alpha(spec: dict[str, Any], **meta: Any) -> Any:
    return convert(cloneset(BETA, spec, **meta), "v1alpha1")


@pytest.mark.parametrize(
    ("given_type", "converted"),
    [(p, {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": p}}) for p in POLICIES]
    + [
        ("", {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}}),
        ("Wild", {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}}),
        ("OnDelete", {"type": "OnDelete"}),
    ],
)
def test_types_to_v1beta1(given_type: str, converted: dict[str, Any]) -> None:
    assert beta({"updateStrategy": {"type": given_type}})["spec"]["updateStrategy"] == converted


@pytest.mark.parametrize(
    ("strategy", "converted"),
    [
        ({}, {"type": "ReCreate"}),
        ({"type": "OnDelete"}, {"type": "OnDelete"}),
        ({"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}, {"type": "InPlaceOnly"}),
        ({"rollingUpdate": {"podUpdatePolicy": "Wild", "paused": True}},
         {"type": "ReCreate", "paused": True}),
        ({"type": "OnDelete", "rollingUpdate": {"partition": 2}},
         {"type": "OnDelete", "partition": 2}),
    ],
)  # fmt: skip
def test_types_to_v1alpha1(strategy: dict[str, Any], converted: dict[str, Any]) -> None:
    assert alpha({"updateStrategy": strategy})["spec"]["updateStrategy"] == converted


def test_on_delete_loses_its_settings_on_the_way_to_v1beta1() -> None:
    spec = beta({"updateStrategy": {"type": "OnDelete", "partition": 3}})["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}


def test_claims_are_reused_unless_v1alpha1_says_otherwise() -> None:
    assert beta({})["spec"]["scaleStrategy"] == {"enablePVCReuse": True}
    kept = beta({"scaleStrategy": {"disablePVCReuse": True, "podsToDelete": ["p"]}})
    assert kept["spec"]["scaleStrategy"] == {"enablePVCReuse": False, "podsToDelete": ["p"]}
    assert alpha({})["spec"]["scaleStrategy"] == {"disablePVCReuse": True}
    assert alpha({"scaleStrategy": {"enablePVCReuse": True}})["spec"]["scaleStrategy"] == {}


@pytest.mark.parametrize(("value", "excluded"), [("true", True), ("True", None), ("1", None)])
def test_the_exclude_label_counts_only_as_true(value: str, excluded: bool | None) -> None:
    scale = beta({}, labels={EXCLUDE_PREPARING_DELETE: value})["spec"]["scaleStrategy"]
    assert scale.get("excludePreparingDelete") is excluded


def test_the_exclude_field_is_forgotten_by_v1alpha1() -> None:
    once = alpha({"scaleStrategy": {"excludePreparingDelete": True, "enablePVCReuse": True}})
    assert once["spec"]["scaleStrategy"] == {}
    assert EXCLUDE_PREPARING_DELETE not in once["metadata"].get("labels", {})


@pytest.mark.parametrize(
    ("annotations", "in_place"),
    [
        ({"parallelism": "3"}, {"imagePreDownloadParallelism": 3}),
        ({"parallelism": "30%"}, {"imagePreDownloadParallelism": "30%"}),
        ({"timeout-seconds": "60"}, {"imagePreDownloadTimeoutSeconds": 60}),
        ({"timeout-seconds": "soon"}, {}),
        ({"timeout-seconds": str(2**31)}, {}),
        ({"min-updated-ready-pods": "2"}, {"imagePreDownloadMinUpdatedReadyPods": 2}),
        ({"min-updated-ready-pods": "20%"}, {}),
        ({"parallelism": ""}, None),
        ({}, None),
    ],
)
def test_pre_download_annotations_become_fields(
    annotations: dict[str, str], in_place: dict[str, Any] | None
) -> None:
    noted = {PRE + key: value for key, value in annotations.items()}
    rolling = beta({}, annotations=noted)["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling.get("inPlaceUpdateStrategy") == in_place


def test_pre_download_fields_become_annotations() -> None:
    in_place = {"gracePeriodSeconds": 5, "imagePreDownloadParallelism": "30%",
                "imagePreDownloadTimeoutSeconds": 60}  # fmt: skip
    source = cloneset(
        BETA, {"updateStrategy": {"rollingUpdate": {"inPlaceUpdateStrategy": in_place}}}
    )
    read = convert(source, "v1alpha1")
    assert read["spec"]["updateStrategy"]["inPlaceUpdateStrategy"] == {"gracePeriodSeconds": 5}
    assert read["metadata"]["annotations"] == {
        PRE + "parallelism": "30%",
        PRE + "timeout-seconds": "60",
    }
    assert "annotations" not in source["metadata"]


def test_an_empty_in_place_strategy_vanishes_from_v1alpha1() -> None:
    strategy = alpha({"updateStrategy": {"rollingUpdate": {"inPlaceUpdateStrategy": {}}}})
    assert "inPlaceUpdateStrategy" not in strategy["spec"]["updateStrategy"]


def test_what_does_not_differ_is_shared() -> None:
    source = cloneset(ALPHA, {"template": {"spec": {}}})
    assert convert(source, "v1alpha1") is source
    assert convert(source, "v1beta1")["spec"]["template"] is source["spec"]["template"]
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}
    assert convert(other, "v1beta2") == {**other, "apiVersion": "apps/v1beta2"}


SETTINGS = st.fixed_dictionaries(
    {"type": st.sampled_from(POLICIES)},
    optional={
        "partition": st.integers(0, 9) | st.just("20%"),
        "maxUnavailable": st.integers(0, 9),
        "maxSurge": st.just("10%"),
        "paused": st.just(value=True),
        "inPlaceUpdateStrategy": st.fixed_dictionaries({"gracePeriodSeconds": st.integers(1, 9)}),
        "scatterStrategy": st.just([{"key": "a", "value": "b"}]),
    },
)


@given(SETTINGS, st.booleans())
def test_v1alpha1_survives_being_stored(strategy: dict[str, Any], disabled: bool) -> None:
    scale = {"disablePVCReuse": True} if disabled else {}
    source = cloneset(ALPHA, {"updateStrategy": strategy, "scaleStrategy": scale})
    assert convert(convert(source, "v1beta1"), "v1alpha1") == source


def sidecars(version: str, spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    meta = {"name": "mesh", "labels": labels}
    return {"apiVersion": f"apps.kruise.io/{version}", "kind": "SidecarSet",
            "metadata": meta, "spec": spec}  # fmt: skip


MARK = "apps.kruise.io/sidecarset-custom-version"
ONLY_SHOP = {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}


@pytest.mark.parametrize(
    ("alpha_spec", "labels", "beta_spec"),
    [
        pytest.param({"containers": []}, {}, {"containers": []}, id="nothing-moved"),
        pytest.param({"namespace": "shop"}, {}, {"namespaceSelector": ONLY_SHOP}, id="namespace"),
        pytest.param(
            {"namespace": "shop", "namespaceSelector": {"matchLabels": {"a": "b"}}},
            {},
            {"namespaceSelector": ONLY_SHOP},
            id="namespace-wins",
        ),
        pytest.param({}, {MARK: "7"}, {"customVersion": "7"}, id="label"),
        pytest.param({}, {MARK: ""}, {}, id="empty-label-goes-too"),
    ],
)
def test_sidecar_sets_to_v1beta1(
    alpha_spec: dict[str, Any], labels: dict[str, str], beta_spec: dict[str, Any]
) -> None:
    found = convert(sidecars("v1alpha1", alpha_spec, {"mine": "x", **labels}), "v1beta1")
    assert found == sidecars("v1beta1", beta_spec, {"mine": "x"})


def test_sidecar_sets_to_v1alpha1_keep_the_selector_and_get_the_label_back() -> None:
    beta = sidecars("v1beta1", {"namespaceSelector": ONLY_SHOP, "customVersion": "7"}, {})
    found = convert(beta, "v1alpha1")
    assert found == sidecars("v1alpha1", {"namespaceSelector": ONLY_SHOP}, {MARK: "7"})
