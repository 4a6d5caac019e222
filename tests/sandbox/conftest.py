"""Sandboxes that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.sandbox.served import Client, Served, served


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Served]:
    """A fast sandbox with kubelet and controllers, nothing on disk."""
    with served(SandboxOptions(ephemeral=True, nodes=2, speed=50)) as running:
        yield running


@pytest.fixture(scope="session")
def client(sandbox: Served) -> Client:
    return sandbox.client
