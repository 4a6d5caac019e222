"""Plans of pull requests know the deletions that their history approves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitkruise.gitops.preview.cluster_facts import cluster_facts
from gitkruise.gitops.workers.pool import InProcess
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import UNIT, UNIT_REF
from gitkruise.planner.sync.prune import prune_hash
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.wire.primitives.names import key_of
from tests.gitops.workers.test_pool import House, config, config_map
from tests.worlds import Lab

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.repository.close()


def test_a_plan_knows_the_approvals_of_its_history(house: House) -> None:
    """As `gitkruise plan` does on the command line."""
    lab = Lab()
    bootstrap(lab.world, lab.now, nodes=0)
    confirm = {"gitkruise.io/prune": "Confirm"}
    left: dict[str, Any] = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "left", "annotations": confirm},
    }  # fmt: skip
    marks = {"labels": {UNIT: "mark"}, "annotations": {UNIT_REF: "shop/web", **confirm}}
    live = lab.apply({**left, "metadata": {"name": "left", **marks}})
    mark = prune_hash("mark", {key_of(live): live})
    files = {"app/a.yaml": config_map("a"), "app/left.yaml": json.dumps(left)}
    base = house.origin.commit(files)
    gone = {"app/left.yaml": None}
    head = house.origin.commit(gone, message=f"Agreed\n\nGitkruise-Approve: {mark}")
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))

    async def script() -> None:
        rules, here = (config(house), lab.world.catalog, Gates()), InProcess()
        before = await here.side(house.repository, base, *rules, base=True)
        after = await here.side(house.repository, head, *rules)
        facts = await cluster_facts(before, after, rules[1], transport=transport, now=lab.now)
        plan = (await here.plan_text(house.repository, *rules, facts, base=base, head=head)).plan
        assert ("ConfigMap shop/left" in plan, "approval" in plan.lower()) == (True, False)

    asyncio.run(script())
