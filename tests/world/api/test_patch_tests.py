"""`test` operations of JSON patches, answered as by a real kube-apiserver."""

from __future__ import annotations

import asyncio

from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from tests.controller.patch_tests import differences
from tests.worlds import START, empty_world


def test_every_row_is_answered_as_by_a_real_server() -> None:
    async def play() -> None:
        assert await differences(WorldTransport(Cluster(empty_world(), lambda: START))) == []

    asyncio.run(play())
