"""A stage for a test, cleared away after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.gitops.objects import House
from tests.gitops.stage import MakeStage, Stage


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[MakeStage]:
    with ExitStack() as stack:

        def make(**spec: Any) -> Stage:
            return stack.enter_context(closing(Stage(tmp_path, **spec)))

        yield make


@pytest.fixture
def hands(staged: MakeStage, tmp_path: Path) -> House:
    return House(staged(), tmp_path)
