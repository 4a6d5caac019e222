"""Custom resources whose definition is in the cluster, and not in the repository."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.kube.client.discovery import CRDS
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest
from tests.cli.calls import Caller
from tests.cli.live import send
from tests.cli.shop import Checkout
from tests.gitops.reconcile.test_definition_changes import database, typed

pytestmark = pytest.mark.slow


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
