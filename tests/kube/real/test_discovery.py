"""Aggregated discovery of the embedded cluster is the real server's, for the kinds of both."""

from __future__ import annotations

import json

import pytest

from tests.kube.real.apiserver import Apiserver
from tests.sandbox.test_discovery import compare, page
from tests.transcripts.real import client_of

pytestmark = pytest.mark.kube
ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(("root", "least"), [("api", 17), ("apis", 40)])
def test_aggregated(root: str, least: int, server: Apiserver) -> None:
    theirs = client_of(server).ask(f"/{root}", headers={"Accept": ACCEPT})
    assert compare(page(root), json.loads(theirs.data)) >= least
