"""One real cluster with one node for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import need
from tests.node.agents import install_agent
from tests.node.cluster import Cluster, cluster
from tests.node.machine import obstacle


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    """Tests keep to namespaces of their own. Skips where the machine runs no node."""
    reason = obstacle()
    need("node", present=not reason, how=reason)
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def served(node: Cluster) -> Cluster:
    """The cluster, prepared for the agent."""
    install_agent(node)
    return node
