"""The workloads that gitkruise drives: which a cluster and its gates leave."""

from __future__ import annotations

import pytest

from gitkruise.driving import driven
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import embedded_crds, load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET
from gitkruise.wire.catalog.catalog import Catalog

PULLS = Gates(image_pull_job_gate=True)


def kinds(catalog: Catalog, gates: Gates) -> list[str]:
    return [workload.kind.kind for workload in driven(catalog, gates)]


def without(*plurals: str) -> Catalog:
    catalog = load_catalog()
    for plural in plurals:
        catalog = catalog.without_crd(f"{plural}.apps.kruise.io")
    return catalog


def test_requests_to_node_agents_are_driven_as_far_as_gates_and_cluster_allow() -> None:
    pods = [
        "CloneSet", "SidecarSet", "StatefulSet", "Pod", "PodUnavailableBudget", "WorkloadSpread",
        "Deployment",
    ]  # fmt: skip
    requests = "ContainerRecreateRequest"
    pulls = ["Node", "NodeImage", "ImagePullJob", "ImageListPullJob"]
    assert kinds(load_catalog(), Gates()) == [*pods, requests]
    assert kinds(load_catalog(), Gates(kruise_daemon=False)) == pods
    assert kinds(load_catalog(), PULLS) == [*pods, requests, *pulls]
    assert kinds(without("containerrecreaterequests"), PULLS) == [*pods, *pulls]
    assert kinds(without("nodeimages"), PULLS) == [*pods, requests, "ImageListPullJob"]
    assert kinds(without("imagepulljobs"), PULLS) == [*pods, requests, "Node"]
    assert kinds(without("imagelistpulljobs"), PULLS) == [*pods, requests, *pulls[:-1]]
    everything = (
        "sidecarsets",
        "statefulsets",
        "containerrecreaterequests",
        "nodeimages",
        "imagepulljobs",
    )
    assert kinds(without(*everything), PULLS) == [
        "CloneSet", "Pod", "PodUnavailableBudget", "WorkloadSpread", "Deployment",
    ]  # fmt: skip


def old_only(plural: str) -> Catalog:
    """The catalog of a cluster that serves one kind in v1alpha1 alone."""
    crds = list(embedded_crds())
    for crd in crds:
        if crd["spec"]["names"]["plural"] == plural:
            old = [v for v in crd["spec"]["versions"] if v["name"] == "v1alpha1"]
            crd["spec"] = {**crd["spec"], "versions": [{**v, "storage": True} for v in old]}
    return served_by(load_catalog(), crds)


@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("clonesets", "CloneSet"),
        ("containerrecreaterequests", "ContainerRecreateRequest"),
    ],
)
def test_a_kind_in_an_older_version_alone_keeps_no_other_from_being_driven(
    plural: str, kind: str
) -> None:
    """OpenKruise 1.9 defines these so."""
    left = kinds(old_only(plural), Gates())
    assert left == [name for name in kinds(load_catalog(), Gates()) if name != kind]


def test_budgets_are_driven_where_they_are_served_and_a_gate_is_on() -> None:
    off = Gates(pod_unavailable_budget_delete_gate=False)
    assert "PodUnavailableBudget" not in kinds(load_catalog(), off)
    old = load_catalog().without_crd(f"podunavailablebudgets.{BUDGET.group}")
    assert "PodUnavailableBudget" not in kinds(old, Gates())
    (clonesets, *_) = driven(old, Gates())
    assert BUDGET not in clonesets.watches


def test_spreads_are_driven_where_they_are_served_and_their_gate_is_on() -> None:
    assert "WorkloadSpread" not in kinds(load_catalog(), Gates(workload_spread=False))
    assert "WorkloadSpread" not in kinds(without("workloadspreads"), Gates())
