"""A fresh repository for a test, and gitkruise's view of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, make_origin


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return make_origin(tmp_path)


@pytest.fixture
def repository(origin: Origin) -> Iterator[Repository]:
    with Repository.open(str(origin.bare)) as opened:
        yield opened
