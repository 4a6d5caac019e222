"""A plan fetches the charts of repositories, and offline uses those that were fetched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.git.helm import render
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import send
from tests.cli.shop import Checkout, cloneset
from tests.git.helm_program import real
from tests.gitops.charts.hosts import chart, serving

pytestmark = pytest.mark.slow

CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: src}}
spec: {{url: .}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: web}}
spec:
  sourceRef: {{name: src}}
  render:
    kind: helm
    helm: {{repository: "{url}", chart: web, version: {version}{more}}}
"""

SHOP = """\
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: shop}
spec: {sourceRef: {name: src}, path: apps}
"""


def test_a_plan_fetches_charts_and_offline_uses_them(
    gk: Caller, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"{real()}/helm", 3
    monkeypatch.setattr(render, "find", lambda _: program)
    with serving() as host:
        host.publish(("1.0.0", chart("1.0.0")), ("1.1.0", chart("1.1.0")))

        def wants(version: str, more: str = "") -> None:
            text = CONFIG.format(url=host.url, version=version, more=more)
            checkout.commit(version, {"gitkruise.yaml": text})

        wants("1.0.0")
        wants("~1.1")
        ended = gk("plan", "--offline", cwd=checkout.folder)
        assert ended.code == 3
        assert "error[GK3418]: chart web ~1.1 of unit default/web was not fetched yet" in ended.err
        assert host.requests == []
        ended = gk("plan", cwd=checkout.folder)
        assert (ended.code, ended.err) == (0, "")
        assert "unit default/web: chart web 1.0.0 → 1.1.0, sha256:" in ended.out
        asked = len(host.requests)
        assert gk("plan", "--offline", cwd=checkout.folder).out == ended.out
        assert len(host.requests) == asked
        host.replies.clear()
        ended = gk("plan", cwd=checkout.folder)
        assert ended.code == 0
        assert "GK3417" in ended.out + ended.err
        host.publish(("1.0.0", chart("1.0.0")))
        wants("3.x")
        ended = gk("plan", cwd=checkout.folder)
        assert ended.code == 3
        assert "error[GK3414]: unit default/web: chart web of " in ended.err
        assert "newest: 1.0.0" in ended.err
        wants("1.0.0", ", secretRef: {name: charts}")
        ended = gk("plan", cwd=checkout.folder)
        assert ended.code == 3
        assert "next: gitkruise plan with a cluster (--context NAME)" in ended.err


def test_a_plan_reads_values_in_the_cluster(gk: Caller, checkout: Checkout, cluster: Path) -> None:
    text = "render: {substitute: {from: [{configMap: plan-values}]}}"
    unit = CONFIG.partition("  render:")[0].format() + f"  path: apps\n  {text}\n"
    settings = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '${REGION}'}\n"
    )
    checkout.commit("one", {"gitkruise.yaml": unit, "apps/settings.yaml": settings})
    named = ("plan", "--kubeconfig", str(cluster))
    missing = gk(*named, cwd=checkout.folder)
    assert "ConfigMap default/plan-values does not exist" in missing.err
    kind, named_so = ResourceRef("", "v1", "configmaps"), {"name": "plan-values"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named_so, "data": {"REGION": "eu"}}
    request = ApiRequest(verb="create", resource=kind, namespace="default", body=body)
    send(cluster, request)
    try:
        read = gk(*named, cwd=checkout.folder)
        offline = gk("plan", "--offline", cwd=checkout.folder)
    finally:
        send(cluster, replace(request, verb="delete", name="plan-values", body=None))
    assert (read.code, read.err) == (0, "")
    assert "the cluster was not asked" in offline.err


def test_an_action_fetches_the_charts_of_other_units(
    gk: Caller, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan has all units of the branch."""
    program = f"{real()}/helm", 3
    monkeypatch.setattr(render, "find", lambda _: program)
    with serving() as host:
        host.publish(("1.0.0", chart("1.0.0")))
        config = CONFIG.format(url=host.url, version="1.0.0", more="") + SHOP
        canary = cloneset("v2", partition=6)
        files: dict[str, str | None] = {"gitkruise.yaml": config, "apps/checkout.yaml": canary}
        checkout.commit("a canary", files)
        ended = gk("promote", "checkout", "--partition", "3", "--print", cwd=checkout.folder)
        assert (ended.code, ended.err) == (0, "")
        assert "partition: 3" in ended.out
        assert len(host.requests) == 2
