"""A worker process keeps the kinds of the cluster, whatever it is asked between two reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gitkruise.gitops.build.builder import BuildRequest
from gitkruise.gitops.build.post_build import NOTHING
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import load_catalog
from tests.gitops.status.test_health_checks import CRD, database
from tests.gitops.workers.test_pool import House

pytestmark = pytest.mark.slow
FOLDERS: Final = ("a", "b")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.repository.close()


def test_a_commit_that_was_sifted_is_read_with_the_kinds_of_the_cluster(house: House) -> None:
    """Otherwise an object without a namespace would be one of a cluster-scoped kind."""
    catalog = served_by(load_catalog(), (CRD,))
    first, second = (
        house.origin.commit({f"{at}/x.yaml": json.dumps(database(note)) for at in FOLDERS})
        for note in (None, {"a": "b"})
    )
    readers = [house.reader(at) for at in FOLDERS]
    with house.pool() as pool:

        async def spaces(commit: str) -> list[str]:
            read = [
                await pool.read(r, BuildRequest(commit=commit), catalog, NOTHING) for r in readers
            ]
            return [d.key.namespace for answer in read for d in answer.objects or ()]

        async def script() -> None:
            assert await spaces(first) == ["shop", "shop"]
            await pool.find_unchanged([(r, first, "tree") for r in readers], second)
            assert await spaces(second) == ["shop", "shop"]

        asyncio.run(script())
