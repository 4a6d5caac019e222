"""SidecarSet facts: both versions mean the same, and which pods and namespaces a set matches."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.sidecarset import SidecarSetFacts, canary_base, sidecarset_facts

WEB: Final = {"matchLabels": {"app": "nginx"}}
SENSELESS: Final = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}


def facts(
    spec: dict[str, Any], labels: dict[str, str] | None = None, version: str = "v1beta1"
) -> SidecarSetFacts:
    meta = {"name": "ss", "labels": labels or {}}
    return sidecarset_facts(
        {"apiVersion": f"apps.kruise.io/{version}", "metadata": meta, "spec": spec}
    )


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        pytest.param({}, True, id="SIDE-68: no namespace selector"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"ns": "app1"}}}, True, id="SIDE-68: app1"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"ns": "app2"}}}, False, id="SIDE-68: app2"
        ),
        pytest.param({"namespaceSelector": SENSELESS}, False, id="a senseless selector"),
    ],
)
def test_namespaces(spec: dict[str, Any], *, matches: bool) -> None:
    found = facts({"selector": WEB, **spec})
    assert found.in_namespace({"ns": "app1"}) is matches
    assert found.selects({"app": "nginx"})
    assert not found.selects({"app": "redis"})


def test_a_namespace_that_is_not_there_matches_only_without_a_selector() -> None:
    assert facts({}).in_namespace(None)
    assert not facts({"namespaceSelector": {}}).in_namespace(None)


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": {}}, SENSELESS])
def test_no_pod_matches_an_empty_or_senseless_selector(selector: Any) -> None:
    found = facts({"selector": selector})
    assert not found.selects({"app": "nginx"})
    assert bool(found.selector_problem) is (selector is SENSELESS)


def test_v1alpha1_spells_namespace_and_version_differently() -> None:
    label = {"apps.kruise.io/sidecarset-custom-version": "v7"}
    alpha = facts({"namespace": "ns-1", "namespaceSelector": {}}, label, "v1alpha1")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "ns-1"}}
    beta = facts({"namespaceSelector": selector, "customVersion": "v7"})
    assert alpha.namespace_selector == beta.namespace_selector
    assert alpha.custom_version == beta.custom_version == "v7"


SIDE_69: Final = {
    ("true", "base"): "base",
    ("true", ""): "",
    ("false", "base"): "",
    ("1", "base"): "",
    ("TRUE", "base"): "",
    (None, "base"): "",
    (None, None): "",
}


@pytest.mark.parametrize(("given", "base"), SIDE_69.items(), ids=str)
def test_canaries(given: tuple[str | None, str | None], base: str) -> None:
    keys = ("apps.kruise.io/sidecarset-canary", "apps.kruise.io/sidecarset-base")
    notes = {k: v for k, v in zip(keys, given, strict=True) if v is not None}
    assert canary_base(notes) == base


def test_sidecars() -> None:
    hot = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"}
    found = facts(
        {
            "containers": [{"name": "mesh", "image": "mesh:1", "upgradeStrategy": hot}],
            "initContainers": [{"name": "net", "restartPolicy": "Always"}, {"name": "prep"}],
        }
    )
    (mesh,) = found.containers
    assert (mesh.hot, mesh.empty_image, mesh.names) == (True, "empty:1", ("mesh-1", "mesh-2"))
    assert [s.native for s in found.init_containers] == [True, False]


@pytest.mark.parametrize(("limit", "kept"), [(None, 10), (0, 1), (-3, 1), (4, 4)])
def test_history_limit(limit: int | None, kept: int) -> None:
    assert facts({"revisionHistoryLimit": limit}).history_limit == kept


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, True),
        ({}, True),
        (WEB, True),
        ({"matchLabels": {"a": "b"}}, False),
        (SENSELESS, False),
    ],
)
def test_the_update_selector(selector: Any, *, selected: bool) -> None:
    update = facts({"updateStrategy": {"selector": selector, "type": "NotUpdate"}}).update
    assert update.selects({"app": "nginx"}) is selected
    assert update.inject_only


def test_a_set_that_makes_no_sense_can_still_be_read() -> None:
    """It may have been stored without admission; the pods of other sets must not suffer."""
    terms = {"weightPriority": [{"weight": 1, "matchSelector": SENSELESS}]}
    spec = {"updateStrategy": {"priorityStrategy": terms}, "namespace": "a b"}
    found = facts(spec, version="v1alpha1")
    assert found.update.weight_priority == ()
    assert not found.in_namespace({"kubernetes.io/metadata.name": "a b"})


def test_a_pin() -> None:
    revision = {"revisionName": "ss-1"}
    pin = facts({"injectionStrategy": {"revision": revision}}).pin
    assert pin is not None
    assert (pin.named, pin.policy, pin.custom_version) == (True, "Always", None)
    assert facts({}).pin is None
