"""The next step for an object of OpenKruise whose kind, or whose version, a cluster lacks."""

from __future__ import annotations

import pytest

from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.validate import check_documents
from gitkruise.gitops.reconcile.rejections import not_served
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import load_catalog
from tests.worlds import installable_crds

PULL = """apiVersion: apps.kruise.io/v1alpha1
kind: ImagePullJob
metadata: {name: pull}
spec: {image: "app:v1", completionPolicy: {type: Always}}
"""
WORKLOAD = """apiVersion: apps.kruise.io/{version}
kind: {kind}
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: app, image: "app:v1"}}]}}
"""


@pytest.mark.parametrize(
    ("installed", "next_"),
    [
        (True, "write apiVersion: apps.kruise.io/v1beta1, kind: ImagePullJob"),
        (False, "gitkruise install --crds"),
    ],
    ids=["in another version", "not at all"],
)
def test_the_next_step_serves_the_kind(installed: bool, next_: str) -> None:
    documents = parse_file(PULL.encode(), "a.yaml").documents
    (pull,), _ = check_documents(documents, load_catalog(), namespace="shop")
    served = served_by(load_catalog(), installable_crds() if installed else ())
    finding = not_served(pull, served)
    assert dict(finding.notes)["next"] == next_


@pytest.mark.parametrize(
    ("kind", "version", "next_"),
    [
        ("StatefulSet", "v1beta1", "gitkruise install --crds"),
        ("DaemonSet", "v1alpha1", "install OpenKruise"),
    ],
)
def test_a_kind_of_kubernetes_with_the_same_name_takes_the_place_of_no_kind_of_openkruise(
    kind: str, version: str, next_: str
) -> None:
    text = WORKLOAD.format(kind=kind, version=version)
    documents = parse_file(text.encode(), "a.yaml").documents
    (workload,), _ = check_documents(documents, load_catalog(), namespace="shop")
    finding = not_served(workload, served_by(load_catalog(), ()))
    assert dict(finding.notes)["next"].partition(",")[0] == next_
    assert "its CRD is not installed" in finding.message


def test_a_kind_that_openkruise_does_not_define_may_be_of_an_api_server_that_is_away() -> None:
    text = WORKLOAD.format(kind="Metric", version="v1").replace("apps.kruise.io", "metrics.test")
    documents = parse_file(text.encode(), "a.yaml").documents
    (metric,), _ = check_documents(documents, load_catalog(), namespace="shop")
    finding = not_served(metric, served_by(load_catalog(), ()))
    assert "no API server that responds" in finding.message
    assert "kubectl get apiservices" in dict(finding.notes)["next"]
