"""Custom resources whose definition is in the cluster, and not in the repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.kube.client.discovery import CRDS
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import send
from tests.cli.shop import Checkout
from tests.gitops.reconcile.test_definition_changes import database, typed

pytestmark = pytest.mark.slow
CREATE = {"fieldManager": "installer", "force": "true"}


@pytest.fixture
def defining(cluster: Path) -> Iterator[Path]:
    """A cluster with a definition that the repository lacks."""
    crd = typed(size="integer")
    params = {"fieldManager": "installer", "force": "true"}
    request = ApiRequest(
        verb="patch", resource=CRDS, name=crd["metadata"]["name"], body=crd,
        content_type=APPLY_PATCH, params=params,
    )  # fmt: skip
    send(cluster, request)
    yield cluster
    send(cluster, replace(request, verb="delete", body=None, params={}))


def test_an_object_without_a_namespace_gets_that_of_its_unit(
    gk: Caller, checkout: Checkout, defining: Path
) -> None:
    checkout.commit("a database", {"db.yaml": json.dumps(database(size=1))})
    words = ("plan", "-o", "json", "--kubeconfig", str(defining))
    (change,) = gk(*words, cwd=checkout.folder).obj["changes"]
    assert change["namespace"] == "default"


def test_a_field_that_the_cluster_does_not_know_is_an_error_of_the_plan(
    gk: Caller, checkout: Checkout, defining: Path
) -> None:
    checkout.commit("a database", {"db.yaml": json.dumps(database(size=1, color="red"))})
    ended = gk("plan", "--kubeconfig", str(defining), cwd=checkout.folder)
    assert (ended.code, "GK1203" in ended.err) == (3, True)


@pytest.fixture
def daemon_set(cluster: Path) -> Iterator[Path]:
    """A cluster with OpenKruise's DaemonSet `log`, that rolls out on the second of four nodes."""
    ref = ResourceRef("apps.kruise.io", "v1beta1", "daemonsets")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True,
               "schema": {"openAPIV3Schema": schema}}  # fmt: skip
    names = {"kind": "DaemonSet", "listKind": "DaemonSetList", "plural": "daemonsets",
             "singular": "daemonset"}  # fmt: skip
    crd: Obj = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "daemonsets.apps.kruise.io"},
        "spec": {"group": ref.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }  # fmt: skip
    log: Obj = {
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "updateStrategy": {}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 4, "numberReady": 4,
                   "currentNumberScheduled": 4, "updatedNumberScheduled": 1, "numberAvailable": 4},
    }  # fmt: skip
    for resource, body, space in ((CRDS, crd, ""), (ref, log, "default")):
        send(cluster, ApiRequest(
            verb="patch", resource=resource, namespace=space, name=body["metadata"]["name"],
            body=body, content_type=APPLY_PATCH, params=CREATE,
        ))  # fmt: skip
    yield cluster
    send(cluster, ApiRequest(verb="delete", resource=CRDS, name=crd["metadata"]["name"]))


@pytest.mark.parametrize("words", [("rollouts", "-A"), ("rollout", "log")])
def test_the_daemon_set_of_openkruise_is_a_rollout(
    gk: Caller, daemon_set: Path, words: tuple[str, ...]
) -> None:
    ended = gk("get", *words, KUBECONFIG=str(daemon_set))
    assert ended.code == 0
    assert re.search(r"default +ads/log .*Rolling", ended.out)
