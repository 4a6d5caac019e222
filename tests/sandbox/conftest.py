"""Sandboxes that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.server import SandboxOptions
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock
from tests.sandbox.served import Client, Served, served


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Served]:
    """A fast sandbox with kubelet and controllers, nothing on disk."""
    with served(SandboxOptions(ephemeral=True, nodes=2, speed=50)) as running:
        yield running


@pytest.fixture(scope="session")
def client(sandbox: Served) -> Client:
    return sandbox.client


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> Cluster:
    """A cluster without parts, in virtual time."""
    return Cluster(World(load_catalog()), clock.now)
