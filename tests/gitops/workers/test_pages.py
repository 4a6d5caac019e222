"""Pages of plans and diffs are the same from a worker process as from this one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.errors import InvalidManifests
from gitkruise.gitops.build.untrusted import PagePart, PageRequest
from gitkruise.gitops.workers.pool import InProcess
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import ObjectKey
from tests.gitops.workers.test_pool import COSTLY, House, config, config_map, many

pytestmark = pytest.mark.slow
B = ObjectKey("", "ConfigMap", "shop", "b")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.repository.close()


@pytest.mark.parametrize("stranger", [False, True], ids=["own branch", "a stranger's"])
def test_a_page_is_made_within_the_limits_of_a_process(house: House, *, stranger: bool) -> None:
    base = house.origin.commit({"app/a.yaml": config_map("a")})
    files = {"app/b.yaml": config_map("b"), "app/c.yaml": config_map("c")}
    head = house.origin.commit(dict(files), branch="pull")
    bomb = house.origin.commit(many(COSTLY, text="y" * 300), branch="bomb")
    rules = (config(house), load_catalog(), Gates())

    async def script() -> None:
        for part in (PagePart(), PagePart(shown=frozenset({B})), PagePart(diff=True)):
            asked = PageRequest(base=base, head=head, part=part, stranger=stranger)
            page = await pool.page(house.repository, *rules, asked)
            assert page == await InProcess().page(house.repository, *rules, asked)
            assert "ConfigMap shop/b" in str(page.document)
            assert ("ConfigMap shop/c" in str(page.document)) is (part.shown is None)
        asked = PageRequest(base=base, head=bomb, part=PagePart(), stranger=stranger)
        with pytest.raises(InvalidManifests) as caught:
            await pool.page(house.repository, *rules, asked)
        assert caught.value.findings[0].code == "GK9030"

    with house.pool(cpu_s=1) as pool:
        asyncio.run(script())
