"""Rollouts by controllers that are milliseconds away from their API server."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest

from tests.controller.distance import Count, roll, rolled
from tests.laws.foretell import WEB, Case, change, prepared

DELAYS_MS: Final = (0, 3, 10, 25, 100, 250)
POLICIES: Final = {"in place": "InPlaceIfPossible", "recreate": "ReCreate"}
REPLICAS: Final = 12
DOWN: Final = 3
WAVES: Final = REPLICAS // DOWN
WAYS: Final = 25  # to the API server or back that a wave may wait for, whatever their length
TICK: Final = timedelta(seconds=0.5)  # by which rounds that gather news may shift


def measured(policy: str, one_way_ms: float) -> tuple[Count, timedelta]:
    case = Case(replicas=REPLICAS, rolling={"podUpdatePolicy": policy, "maxUnavailable": DOWN})
    lab = prepared(case)
    count = roll(lab.world, lab.now, change(case), one_way_s=one_way_ms / 1000, done=rolled(WEB))
    assert count.ended is not None, count
    return count, count.ended - lab.now


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_rollout_takes_longer_only_by_the_way(policy: str) -> None:
    """Every pod leaves service once, and the way is gone so many times at every distance."""
    _, near = measured(policy, 0)
    for delay in DELAYS_MS:
        count, took = measured(policy, delay)
        assert len(count.left) == REPLICAS
        assert set(count.left.values()) == {1}
        assert count.most_down <= DOWN
        assert len(count.conflicts) * 100 < len(count.writes), count.conflicts
        allowed = TICK + WAVES * WAYS * timedelta(milliseconds=delay)
        assert took - near <= allowed, delay
