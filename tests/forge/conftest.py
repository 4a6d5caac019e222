"""One real Gitea for the whole run; each test makes repositories of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forge.gitea import Gitea, gitea
from tests.gitops.conftest import staged

__all__ = ["forge", "staged"]


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gitea]:
    """Shared by all tests, which keep to repositories of their own."""
    with gitea(tmp_path_factory.mktemp("gitea")) as running:
        yield running
