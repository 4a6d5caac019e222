"""Rollouts by controllers that are milliseconds away from their API server, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from bench.timing import Row
from tests.controller.test_far_server import POLICIES, REPLICAS, played

DELAYS_MS: Final = (0, 3, 10, 25, 100, 250)
CONFLICTS_MAX: Final = 1.0  # percent of all writes


def rows() -> Iterator[Row]:
    """Seconds of a rollout, how often pods left service, and conflicts, by one-way delay."""
    for policy, spelled in POLICIES.items():
        for delay in DELAYS_MS:
            wire, left = asyncio.run(played(spelled, delay / 1000))
            name = f"{REPLICAS} pods {policy}, {delay} ms away"
            yield Row(name=f"{name}: rollout", value=wire.took_s, unit="s")
            often = max(left.values()) if len(left) == REPLICAS else 0
            yield Row(name=f"{name}: a pod left service at most", value=often, unit="", limit=1)
            share = 100 * wire.conflicts / wire.writes
            yield Row(name=f"{name}: conflicts", value=share, unit="%", limit=CONFLICTS_MAX)
