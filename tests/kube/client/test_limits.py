"""Requests in flight follow the server's patience; pauses grow, jitter and stay under their cap."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.kube.client.limits import AdaptiveLimit, pause_s
from tests.clock import ManualClock


@given(st.integers(1, 10_000), st.text(max_size=5))
def test_pauses_are_between_half_and_all_of_the_doubled_first(attempt: int, seed: str) -> None:
    pause = pause_s(attempt, first_s=0.5, cap_s=30, seed=seed)
    full = min(0.5 * 2 ** min(attempt - 1, 40), 30)
    assert full / 2 <= pause <= full
    assert pause == pause_s(attempt, first_s=0.5, cap_s=30, seed=seed)


def test_no_failure_no_pause() -> None:
    assert pause_s(0, first_s=0.5, cap_s=30, seed="") == 0


def test_seeds_spread_a_fleet() -> None:
    assert len({pause_s(3, first_s=1, cap_s=30, seed=str(n)) for n in range(50)}) == 50


def test_one_halving_a_generation_then_slow_growth() -> None:
    limit = AdaptiveLimit(start=16)
    limit.refused(0)
    limit.refused(0)
    assert limit.limit == 8
    limit.refused(1)
    assert limit.limit == 4
    for _ in range(5):
        limit.succeeded()
    assert limit.limit == 5


def test_limit_stays_between_floor_and_ceiling() -> None:
    limit = AdaptiveLimit(start=2, ceiling=3)
    for generation in range(10):
        limit.refused(generation)
    assert limit.limit == 1
    for _ in range(100):
        limit.succeeded()
    assert limit.limit == 3


@given(st.lists(st.sampled_from(["hold", "cancel", "refuse"]), max_size=40))
def test_never_more_in_flight_than_allowed_and_nobody_is_forgotten(acts: list[str]) -> None:
    """Whatever is cancelled or refused meanwhile, places are neither lost nor doubled."""
    clock, limit, most, finished = ManualClock(), AdaptiveLimit(start=3, ceiling=3), [0], [0]

    async def work(act: str) -> None:
        patience = clock.timeout(0.5 if act == "cancel" else None)
        async with patience, limit.slot() as generation:
            most[0] = max(most[0], limit.running)
            await clock.sleep(1)
            if act == "refuse":
                limit.refused(generation)
            else:
                limit.succeeded()
        finished[0] += 1

    async def quietly(act: str) -> None:
        try:
            await work(act)
        except TimeoutError:
            assert act == "cancel"

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for act in acts:
                group.create_task(quietly(act))

    clock.run(main())
    assert most[0] <= 3
    assert limit.running == 0
    assert finished[0] >= len(acts) - acts.count("cancel")


def test_a_request_with_little_time_waits_for_no_other() -> None:
    """A webhook that hangs may keep every place for longer than a lease lasts."""
    limit, served = AdaptiveLimit(start=1), list[str]()

    async def ask(name: str, *, urgent: bool = False) -> None:
        async with limit.slot(urgent=urgent):
            served.append(name)

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks, limit.slot():
            for name in ("a", "b"):
                tasks.create_task(ask(name))
            await asyncio.sleep(0)
            tasks.create_task(ask("lease", urgent=True))
            await asyncio.sleep(0)
            assert served == ["lease"]
            assert limit.running == 1

    asyncio.run(main())
    assert served == ["lease", "a", "b"]
    assert limit.running == 0
