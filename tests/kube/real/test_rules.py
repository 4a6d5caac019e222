"""Rules across fields of our own kinds, as a real API server accepts and enforces them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kube.real.apiserver import Apiserver
from tests.kube.real.shop import HANG_S

pytestmark = [pytest.mark.kube, pytest.mark.kubectl, pytest.mark.slow]
CRDS = Path(__file__).parents[3] / "deploy" / "crds"
FORGE: dict[str, Any] = {"repo": "a/b", "secretRef": {"name": "f"}}
STEPS = {"workload": {"kind": "CloneSet", "name": "web"}, "steps": [{"partition": 0}]}
WEB = {"url": "https://shop.example"}
KEYS = {"secretRef": {"name": "keys"}}
SIGNERS = {"matchOIDCIdentity": [{"issuer": "a", "subject": "b"}]}
ROOT = {"trustedRootSecretRef": {"name": "root"}}


def unit(**more: Any) -> dict[str, Any]:
    return {"sourceRef": {"name": "src"}, **more}


def measured(provider: dict[str, Any]) -> dict[str, Any]:
    return unit(promotion={**STEPS, "metrics": [{"name": "errors", "provider": provider}]})


def source(mode: str, **ref: str) -> dict[str, Any]:
    return {"url": "x", "ref": ref, "verify": {"mode": mode, **KEYS}}


# kind, spec, words of the refusal ("" where there is none)
ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("GitSource", {"url": "x", "verify": {"mode": "head"}}, "verify names no keys to trust"),
    ("GitSource", source("tag", branch="main"), "this verify.mode wants a tag"),
    ("GitSource", {"url": "x", "verify": {"mode": "tagAndHead", **KEYS}}, "wants a tag"),
    ("GitSource", source("tag", semver=">=1.0.0"), ""),
    ("GitSource", source("tag", name="refs/tags/v1"), ""),
    ("GitSource", source("tag", name="refs/pull/7/head"), "wants a tag"),
    ("GitSource", source("firstParent", branch="main"), ""),
    ("GitSource", {"url": "oci://a/b", "ref": {"semver": "1.x", "semverFilter": "a"}, "verify": {
        "provider": "cosign", **KEYS}}, ""),
    *(
        ("GitSource", {"url": url, "verify": {"provider": "cosign", **verify}}, words)
        for url, verify, words in (
            ("oci://a/b", {**SIGNERS, **ROOT}, ""),
            ("oci://a/b", {"matchOIDCIdentity": []}, "verify names no keys to trust"),
            ("oci://a/b", {**KEYS, **SIGNERS}, "verify names keys and identities"),
            ("oci://a/b", {**KEYS, **ROOT}, "is for keyless signatures"),
            ("oci://a/b", {"matchOIDCIdentity": [{"issuer": "a"}]}, "subject: Required value"),
            ("x", SIGNERS, "verify.matchOIDCIdentity is for artifacts"),
        )
    ),
    ("GitSource", {"url": "oci://a/b", "ref": {"digest": "sha256:0"}}, ""),
    ("GitSource", {"url": "oci://a/b", "ref": {"branch": "main"}}, "has no branch"),
    ("GitSource", {"url": "oci://a/b", "verify": {"mode": "head", **KEYS}}, "verify.provider"),
    ("GitSource", {"url": "x", "verify": {"provider": "cosign", **KEYS}}, "verify.provider"),
    ("GitSource", {"url": "x", "ref": {"digest": "sha256:0"}}, "are for artifacts"),
    ("GitSource", {"url": "x", "layerSelector": {}}, "layerSelector is for artifacts"),
    ("GitSource", {"url": "oci://a/b", "ignore": "x", "layerSelector": {"operation": "copy"}},
     "takes every file"),
    ("GitSource", {"url": "oci://a/b", "ignore": "x", "layerSelector": {"mediaType": "x"}}, ""),
    ("GitSource", {"url": "x", "verify": KEYS}, ""),
    ("Sink", {"forge": {**FORGE, "type": "gitea"}}, "has an address"),
    ("Sink", {"forge": {**FORGE, "type": "gitea", "url": "https://g", "deployment":
                        {"environment": "prod"}}}, "shows no deployments"),
    ("Sink", {"forge": {**FORGE, "type": "gitlab", "deployment": {"environment": "eu-{cluster}"}}},
     ""),
    ("Sink", {"forge": {**FORGE, "type": "github", "deployment": {"environment": "{unit}"}}},
     "should match"),
    ("Unit", unit(render={"kind": "plain", "kustomize": {}}), "kustomize is for kustomizations"),
    ("Unit", unit(render={"kustomize": {"remoteBases": [{"url": "https://a/b"}]}}), ""),
    ("Unit", unit(render={"kustomize": {"remoteBases": [{}]}}), "url: Required value"),
    ("Unit", unit(render={"kustomize": {"remoteBases": [{"url": "a@b:c", "secretRef": {}}]}}),
     "name: Required value"),
    ("Unit", unit(render={"substitute": {"from": [{}]}}), "a source names one object"),
    ("Unit", unit(render={"substitute": {"from": [{"configMap": "a", "secret": "b"}]}}),
     "a source names one object"),
    ("Unit", unit(render={"substitute": {"from": [{"configMap": "a"}, {"secret": "b"}]}}), ""),
    ("Unit", unit(render={"helm": {"values": {"a": 1}}}), "helm is for charts"),
    ("Unit", unit(render={"kind": "helm"}), ""),
    ("Unit", unit(render={"kind": "helm", "helm": {"valuesFrom": [{"key": "a"}]}}),
     "a source names one object"),
    ("Unit", unit(render={"kind": "helm", "helm": {"releaseName": "-a"}}), "should match"),
    ("Unit", unit(render={"kind": "helm", "helm": {
        "releaseName": "a.b", "values": {"a": {"b": [1]}}, "includeCRDs": False,
        "valuesFiles": ["a.yaml"], "valuesFrom": [{"secret": "a", "optional": True}]}}), ""),
    ("Unit", unit(promotion={**STEPS, "via": "commit", "merge": "whenReady"}), "nothing to merge"),
    ("Unit", unit(promotion={**STEPS, "merge": "whenReady"}), ""),
    ("Unit", measured({"web": WEB}), ""),
    ("Unit", measured({"prometheus": {"address": "https://p.example", "query": "up"}}), ""),
    ("Unit", measured({"job": {"spec": {"template": {"spec": {"containers": []}}}}}), ""),
    ("Unit", measured({}), "a metric has one provider"),
    ("Unit", measured({"web": WEB, "job": {"spec": {}}}), "a metric has one provider"),
    ("Unit", measured({"web": {**WEB, "secretRef": {"name": "x", "namespace": "other"}}}),
     "unknown field"),
]  # fmt: skip


def test_every_row(fresh: Apiserver, kubectl: str) -> None:
    words = [kubectl, f"--kubeconfig={fresh.kubeconfig()}"]

    def run(*more: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        line = [*words, *more]
        return subprocess.run(
            line, input=stdin, capture_output=True, text=True, check=False, timeout=HANG_S
        )

    assert run("create", "-f", str(CRDS)).returncode == 0
    waited = run("wait", "--for=condition=Established", "crd", "--all", f"--timeout={HANG_S:g}s")
    assert waited.returncode == 0, waited.stderr
    for number, (kind, spec, refusal) in enumerate(ROWS):
        head = {"apiVersion": "gitkruise.io/v1alpha1", "kind": kind}
        obj = {**head, "metadata": {"name": f"row-{number}", "namespace": "default"}, "spec": spec}
        done = run("create", "-f", "-", stdin=json.dumps(obj))
        assert (done.returncode != 0) is bool(refusal), (kind, spec, done.stderr)
        assert refusal in done.stderr, (kind, spec, done.stderr)
