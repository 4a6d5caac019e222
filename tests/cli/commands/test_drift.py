"""Live objects that differ from git, or that have already what an edit asks for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.kube.client.discovery import CRDS
from gitkruise.model.gitops.record import DriftRecord
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller, Ended
from tests.cli.commands.test_why import ask
from tests.cli.live import applied, send
from tests.cli.shop import CHECKOUT, HERE, WEB, Checkout, cloneset, unit_record
from tests.git.repos import make_origin, run_git

TWO_UNITS = f"""\
{HERE}---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: good, namespace: shop}}
spec: {{sourceRef: {{name: here}}, path: good}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: broken, namespace: shop}}
spec: {{sourceRef: {{name: here}}, path: broken}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [10, 3])
def test_a_unit_that_cannot_be_read_hides_no_drift_of_others(
    gk: Caller, checkout: Checkout, cluster: Path, replicas: int
) -> None:
    files = {"gitkruise.yaml": TWO_UNITS, "good/c.yaml": cloneset(name="two"),
             "broken/c.yaml": "kind: ["}  # fmt: skip
    checkout.commit("one", dict(files))
    with applied(cluster, cloneset(name="two", replicas=replicas)):
        words = ("--repo", str(checkout.folder))
        ended = ask(gk, cluster, "drift", "-o", "json", *words)
        text = ask(gk, cluster, "drift", *words)
        nothing = ask(gk, cluster, "drift", "cloneset/other", *words)
    assert (ended.code, text.code, nothing.code) == (3, 3, 3)
    live = [item["live"] for item in ended.obj["items"]]
    assert live == ([] if replicas == 10 else ["3"])
    (finding,) = ended.obj["findings"]
    assert f"error[{finding['code']}]" in text.err
    assert "broken/c.yaml" in text.err
    assert ("nothing differs from git in the 1 object compared" in text.out) == (not live)


APART = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: mine, namespace: shop, annotations: {gitkruise.io/reconcile: Disabled}}
"""


@pytest.mark.slow
def test_objects_that_are_left_alone_are_named_and_not_called_equal(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    files = {
        "gitkruise.yaml": TWO_UNITS,
        "good/c.yaml": cloneset(name="two"),
        "broken/c.yaml": APART,
    }
    checkout.commit("one", dict(files))
    apart = "left alone: ConfigMap shop/mine (annotation gitkruise.io/reconcile: Disabled)\n"
    with applied(cluster, cloneset(name="two")):
        ended = ask(gk, cluster, "drift", "--repo", str(checkout.folder))
        one = ask(gk, cluster, "drift", "configmap/mine", "--repo", str(checkout.folder))
    assert ended.out == f"nothing differs from git in the 1 object compared\n{apart}"
    assert (ended.code, one.code) == (0, 0)
    assert apart in one.out


@pytest.mark.slow
def test_a_bare_repository_whose_head_nobody_pushed_is_read_by_its_branch(
    gk: Caller, checkout: Checkout, cluster: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "origin.git"
    run_git(tmp_path, "init", "-q", "--bare", "-b", "trunk", str(bare))
    checkout.commit("one", {"good/c.yaml": cloneset(name="two")})
    missing = ask(gk, cluster, "drift", "--repo", str(bare))
    assert (missing.code, f'there is no commit "HEAD" in {bare}' in missing.err) == (4, True)
    run_git(checkout.folder, "push", "-q", str(bare), "HEAD:refs/heads/main")
    assert gk("doctor", "git", "config", "--repo", str(bare), cwd=tmp_path).code == 0
    with applied(cluster, cloneset(name="two", replicas=3)):
        ended = ask(gk, cluster, "drift", "-o", "json", "--repo", str(bare))
    assert (ended.code, [item["live"] for item in ended.obj["items"]]) == (1, ["3"]), ended.err


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_a_unit_with_a_remote_base_is_compared(
    gk: Caller, checkout: Checkout, cluster: Path, tmp_path: Path
) -> None:
    bases = make_origin(tmp_path)
    bases.commit({"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": cloneset(name="two")})
    run_git(bases.bare, "tag", "v1", "main")
    url = f"file://{bases.bare}"
    unit = TWO_UNITS.rpartition("---")[0].replace(
        "path: good", f"path: good, render: {{kustomize: {{remoteBases: [{{url: '{url}'}}]}}}}"
    )
    listing = f"resources: ['{url}//?ref=v1']\n"
    checkout.commit("one", {"gitkruise.yaml": unit, "good/kustomization.yaml": listing})
    with applied(cluster, cloneset(name="two", replicas=3)):
        ended = ask(gk, cluster, "drift", "-o", "json", "--repo", str(checkout.folder))
    assert ended.code == 1, ended.err
    assert [item["live"] for item in ended.obj["items"]] == ["3"]


SIZED = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {
    "type": "integer"}}}}}  # fmt: skip
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SIZED}}
        ],
    },
}
WIDGETS = ResourceRef("example.com", "v1", "widgets")


def widget(size: int) -> dict[str, Any]:
    meta = {"name": "one", "namespace": "default"}
    spec = {"size": size}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta, "spec": spec}


@pytest.mark.slow
def test_objects_of_custom_kinds_are_compared(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    files = {"good/crd.json": json.dumps(DEFINITION), "good/w.json": json.dumps(widget(3))}
    checkout.commit("one", {"gitkruise.yaml": TWO_UNITS.rpartition("---")[0], **files})
    live = ApiRequest(verb="create", resource=WIDGETS, namespace="default", body=widget(4))
    send(cluster, ApiRequest(verb="create", resource=CRDS, body=DEFINITION), live)
    words = ("drift", "widget/one", "-o", "json", "--repo", str(checkout.folder))
    found = gk(*words, "-n", "default", "--kubeconfig", str(cluster)).obj["items"]
    send(cluster, ApiRequest(verb="delete", resource=CRDS, name="widgets.example.com"))
    differences = [(item["field"], item["git"], item["live"]) for item in found]
    assert differences == [("spec.size", "3", "4")]


@pytest.mark.slow
def test_an_edit_may_ask_for_what_is_live(gk: Caller, checkout: Checkout, cluster: Path) -> None:
    """Somebody lowered the partition in the cluster, or the controller was faster."""
    checkout.commit("a canary", {"apps/c.yaml": cloneset("v2", partition=6, name="ahead")})
    with applied(cluster, cloneset("v2", partition=3, name="ahead")):
        ended = ask(gk, cluster, "promote", "cloneset/ahead", "-n", "shop", "--partition", "3",
                    "--print", "--repo", str(checkout.folder))  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert "+    partition: 3" in ended.out


DRIFTED = (
    DriftRecord(key=WEB, field="spec.replicas", git="2", live="5", manager="kubectl-scale",
                written="2026-09-21T14:13:00Z"),
    DriftRecord(key=CHECKOUT, field="spec.paused", git="unset", live="true"),
)  # fmt: skip


@pytest.fixture
def recorded(checkout: Checkout) -> Checkout:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", replace(unit_record(), drift=DRIFTED))
    return checkout


FILTERS = [
    ([], 2), (["deployment/web"], 1), (["deploy/web"], 1), (["web"], 1), (["-n", "shop"], 2),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "count"), FILTERS, ids=[" ".join(f[0]) or "all" for f in FILTERS]
)
def test_recorded_drift(gk: Caller, recorded: Checkout, words: list[str], count: int) -> None:
    ended = gk("drift", *words, "-o", "json", cwd=recorded.folder)
    assert (ended.code, len(ended.obj["items"])) == (int(count > 0), count)
    text = gk("drift", *words, cwd=recorded.folder).out
    assert "nothing differs" not in text
    assert ("kubectl-scale" in text) == any(i["name"] == "web" for i in objects(ended))


def test_no_recorded_drift_says_of_when_the_record_is(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record())
    ended = gk("drift", cwd=checkout.folder)
    assert ended.code == 0
    assert re.fullmatch(r"nothing differs from git in the record of \d+.* ago\n", ended.out)


@pytest.mark.parametrize(
    "words", [["cloneset/web"], ["-n", "other"], ["nope"], ["web", "-n", "other"]], ids=" ".join
)
def test_drift_of_nothing(gk: Caller, recorded: Checkout, words: list[str]) -> None:
    ended = gk("drift", *words, cwd=recorded.folder)
    assert (ended.code, ended.out, "GK7017" in ended.err) == (2, "", True)
    assert "there are: Deployment shop/web, CloneSet shop/checkout" in ended.err


def objects(ended: Ended) -> list[dict[str, str]]:
    return [item["object"] for item in ended.obj["items"]]


@pytest.mark.slow
def test_live_drift_is_found_by_whose_hand_and_without_secrets(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    secret = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\n"
        "stringData: {password: hunter2}\n"
    )
    files = {"c.yaml": cloneset(name="drifting"), "s.yaml": secret}
    checkout.commit("one", dict(files))
    with applied(cluster, cloneset(name="drifting", replicas=3)):
        ended = ask(gk, cluster, "drift", "-o", "json", "--repo", str(checkout.folder))
    assert ended.code == 1
    seen = {(i["object"]["name"], i["field"]): (i["git"], i["live"], i["manager"])
            for i in ended.obj["items"]}  # fmt: skip
    assert seen == {
        ("drifting", "spec.replicas"): ("10", "3", "test"),
        ("s", "(object)"): ("is there", "is missing", ""),
    }
    assert "hunter2" not in ended.out
