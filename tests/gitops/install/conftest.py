"""The cluster of the tests of a removal."""

from __future__ import annotations

import pytest

from tests.gitops.install.hall import Hall


@pytest.fixture
def hall() -> Hall:
    return Hall()
