"""The seed of a fuzz run, and how many cases it tries."""

from __future__ import annotations

import secrets

import pytest

from tests.cli.conftest import gk
from tests.conftest import NIGHT
from tests.gitops.conftest import staged

__all__ = ["gk", "staged"]


@pytest.fixture(scope="session")
def fuzz_seed() -> int:
    """Seed of this run: 1, or a new one under PROFILE=night. A failing test prints it."""
    seed = secrets.randbelow(1 << 32) if NIGHT else 1
    print(f"fuzz seed: {seed}")  # noqa: T201  pytest shows it with a failure
    return seed
