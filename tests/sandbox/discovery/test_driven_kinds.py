"""Discovery lists kinds of OpenKruise that something acts on; a CRD adds any other."""

from __future__ import annotations

from gitkruise.kube.system.package_data import (
    DRIVEN,
    KRUISE_GROUPS,
    embedded_catalog,
    embedded_crds,
    load_catalog,
    recorded_crds,
)
from gitkruise.planner.workloads import EMBEDDED


def test_every_driven_kind_has_a_controller() -> None:
    acted = {w.kind.kind for w in EMBEDDED if w.kind.group in KRUISE_GROUPS}
    assert acted == DRIVEN


def test_kinds_without_a_controller_are_absent_until_their_definition_is_applied() -> None:
    catalog = embedded_catalog()
    served = {k.kind for k in catalog.kinds() if k.group in KRUISE_GROUPS}
    assert served == DRIVEN
    assert {"BroadcastJob", "UnitedDeployment"} <= {k.kind for k in load_catalog().kinds()}
    (crd,) = [
        c for c in recorded_crds() if c["metadata"]["name"] == "uniteddeployments.apps.kruise.io"
    ]
    assert catalog.with_crd(crd).by_kind("apps.kruise.io", "v1alpha1", "UnitedDeployment")


def test_the_definitions_at_hand_are_those_of_served_kinds() -> None:
    served = {f"{k.plural}.{k.group}" for k in embedded_catalog().kinds() if k.crd}
    assert {c["metadata"]["name"] for c in embedded_crds()} <= served
