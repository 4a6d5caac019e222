"""Two replicas on a real API server: one ends, stands still or is cut off, the other takes over."""

from __future__ import annotations

import asyncio
import os
from statistics import median

import pytest

from tests.kube.real.failover import FAILURES, Played, play

pytestmark = [pytest.mark.kube, pytest.mark.slow]
WITHIN_S = 15.0  # of the failure, by the API server's clock


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Each failure once, or REPLICA_FAILURES of them, while one rollout follows the other."""
    count = int(os.environ.get("REPLICA_FAILURES", str(len(FAILURES))))  # noqa: TID251
    return asyncio.run(play(tmp_path_factory.mktemp("replicas"), count))


def test_the_other_takes_over(played: Played) -> None:
    assert {name for name, *_ in played.taken} == set(FAILURES)
    # One of them may wait for a busy machine.
    assert median(took_s for *_, took_s in played.taken) < WITHIN_S, played.taken


def test_no_process_writes_after_another_took_its_lease(played: Played) -> None:
    assert played.writes > 100
    assert played.trespasses == []


def test_no_moment_has_more_pods_down_than_allowed(played: Played) -> None:
    assert played.rollouts >= len(FAILURES)
    assert played.judged > 100
    assert played.broken == []
