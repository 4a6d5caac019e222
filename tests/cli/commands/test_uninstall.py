"""gitkruise uninstall: what it asks, what it prints, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import apply, send

CLONESET = """
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
"""
DEPLOYMENTS = ResourceRef("apps", "v1", "deployments")


def deployments(kubeconfig: Path) -> list[str]:
    (found,) = send(kubeconfig, ApiRequest(verb="list", resource=DEPLOYMENTS))
    return [obj["metadata"]["name"] for obj in found["items"]]


@pytest.mark.slow
def test_it_asks_lists_removes_and_says_what_stays(gk: Caller, own_cluster: Path) -> None:
    cluster = ("--kubeconfig", str(own_cluster))
    assert gk("install", *cluster).code == 0
    apply(own_cluster, CLONESET)

    unasked = gk("uninstall", *cluster)
    assert (unasked.code, "GK7056" in unasked.err) == (2, True)
    dry = gk("uninstall", "--dry-run", *cluster)
    assert dry.code == 0, dry.err
    assert "to remove   Deployment gitkruise-system/gitkruise" in dry.out
    assert "dry run: nothing was removed" in dry.err
    assert "gitkruise" in deployments(own_cluster)

    done = gk("uninstall", "--yes", *cluster)
    assert done.code == 0, done.err
    assert "removed     Deployment gitkruise-system/gitkruise" in done.out
    (line,) = (row for row in done.out.splitlines() if "clonesets.apps.kruise.io" in row)
    assert line.startswith("stays       CustomResourceDefinition clonesets.apps.kruise.io: ")
    assert line.endswith("1 object: CloneSet shop/web; the embedded cluster drives them")
    assert "status branches" in done.err
    assert "gitkruise" not in deployments(own_cluster)

    again = gk("uninstall", "--yes", "-o", "json", *cluster)
    assert again.code == 0, again.err
    assert again.obj["kind"] == "UninstallList"
    by_name = {item["object"]["name"]: item for item in again.obj["items"]}
    assert {item["change"] for item in by_name.values()} == {"stays"}
    assert by_name["clonesets.apps.kruise.io"]["objects"] == [
        {"group": "apps.kruise.io", "kind": "CloneSet", "namespace": "shop", "name": "web"}
    ]
