"""The endpoint that is measured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gitops.analysis.endpoint import Endpoint, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as server:
        server.says({"errors": 0.01})
        yield server
