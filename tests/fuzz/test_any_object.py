"""Objects of all kinds with every loop of the cluster running: none stops, nothing is logged."""

from __future__ import annotations

import pytest

from gitkruise.model.workloads.feature_gates import Gates, parse_gates
from tests.any_object import play
from tests.conftest import NIGHT

SHARDS = 10
OBJECTS = 20_000 if NIGHT else 4_000
GATES = (Gates(), parse_gates("AllAlpha=true,AllBeta=true"))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_object_stops_a_loop(shard: int, fuzz_seed: int) -> None:
    admitted, exceptions = play(
        fuzz_seed * SHARDS + shard, OBJECTS // SHARDS, GATES[shard % len(GATES)]
    )
    assert sum(admitted.values()) >= OBJECTS // SHARDS
    assert exceptions == []
