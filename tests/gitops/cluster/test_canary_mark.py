"""The mark that gitkruise leads Deployments to canaries, after OpenKruise gets the pods."""

from __future__ import annotations

from typing import Final

import pytest

from gitkruise.gitops.cluster.engine import (
    BY_CONTROLLER,
    HEEDS_CANARIES,
    LEASE_NAMESPACE,
    STEERED,
    WORKLOADS_LEASE,
    choose_engine,
    heeds_canaries,
)
from tests.clock import ManualClock
from tests.gitops.cluster.leases import lease
from tests.gitops.cluster.test_engine import ALIVE, wire_to
from tests.worlds import START, create

DEAD: Final = lease("manager-1", 3600)


@pytest.mark.parametrize(
    ("mark", "found", "heeds"),
    [
        pytest.param(STEERED, ALIVE, False, id="openkruise-drives"),
        pytest.param(STEERED, DEAD, True, id="gitkruise-drives"),
        pytest.param(BY_CONTROLLER, ALIVE, True, id="the-deployment-controller-itself"),
    ],
)
def test_nothing_pauses_at_canaries_where_openkruise_drives(
    mark: str, found: dict[str, object], heeds: bool
) -> None:
    """The mark of an earlier process let a Deployment with a canary through to all its pods."""
    wire, clock = wire_to(found), ManualClock(START)
    meta = {
        "namespace": LEASE_NAMESPACE,
        "name": WORKLOADS_LEASE,
        "annotations": {HEEDS_CANARIES: mark},
    }
    mine = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
    wire.cluster.world.handle(create(wire.cluster.world, mine), START)

    async def look() -> bool:
        await choose_engine(wire, {"auto"}, clock)
        return await heeds_canaries(wire)

    assert clock.run(look()) == heeds
