"""`test` operations and patches of the status, answered as by a real kube-apiserver."""

from __future__ import annotations

import asyncio

from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from tests.controller.patch_tests import TAKEN_WITH_STATUS, differences, taken_with_status
from tests.worlds import START, empty_world


def test_every_row_is_answered_as_by_a_real_server() -> None:
    async def play() -> None:
        world = WorldTransport(Cluster(empty_world(), lambda: START))
        assert await differences(world) == []
        assert await taken_with_status(world) == TAKEN_WITH_STATUS

    asyncio.run(play())
