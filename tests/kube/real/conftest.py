"""One real API server for the whole run; each test gets a transport to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kube.real.apiserver import Apiserver, apiserver


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    """A cluster with RBAC and nothing installed; tests keep to namespaces of their own."""
    with apiserver(tmp_path_factory.mktemp("kube")) as running:
        yield running


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    """A cluster for a test that kills it or needs it empty."""
    with apiserver(tmp_path_factory.mktemp("fresh")) as running:
        yield running
