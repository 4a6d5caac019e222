"""Leases of a controller whose clock is not ours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE
from gitkruise.gitops.inspect.shard_holders import ShardHolders, read_holders
from gitkruise.kube.system.lease_terms import SYNC_LEASE
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_micro_time
from tests.clock import ManualClock
from tests.gitops.stage import Wire
from tests.worlds import START, create, empty_world

BEHIND: Final = timedelta(minutes=9)


def sync_lease(s: float) -> dict[str, Any]:
    renewed = format_micro_time(START - BEHIND + timedelta(seconds=s))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": LEASE_NAMESPACE, "name": SYNC_LEASE},
        "spec": {"holderIdentity": "box_1", "leaseDurationSeconds": 10, "renewTime": renewed},
    }


@pytest.mark.parametrize("renews", [True, False])
def test_a_controller_whose_clock_is_behind_is_not_lost(*, renews: bool) -> None:
    world, clock = empty_world(), ManualClock(START)
    world.handle(create(world, sync_lease(0)), START)
    wire = Wire(Cluster(world, lambda: START))

    async def holder() -> None:
        await clock.sleep(2.5)
        await wire.send(
            ApiRequest(
                verb="patch",
                resource=ResourceRef("coordination.k8s.io", "v1", "leases"),
                namespace=LEASE_NAMESPACE,
                name=SYNC_LEASE,
                content_type=MERGE_PATCH,
                body={"spec": sync_lease(2.5 if renews else 0)["spec"]},
            )
        )

    async def script() -> ShardHolders:
        async with alongside(holder()):
            return await read_holders(wire, LEASE_NAMESPACE, SYNC_LEASE, clock)

    lost = clock.run(script()).lost
    assert (lost == "") is renews
    assert renews or lost.startswith("box_1 has not renewed lease gitkruise-sync since 2")
