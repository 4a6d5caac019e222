"""Virtual time jumps when everyone sleeps, and only then."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from gitkruise.kube.system.clock import SystemClock
from tests.clock import ManualClock

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_sleepers_wake_in_order_at_their_instants() -> None:
    clock, woke = ManualClock(START), list[tuple[str, datetime]]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woke.append((name, clock.now()))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name, seconds in (("day", 86400.0), ("minute", 60.0), ("now", 0.0)):
                group.create_task(sleeper(name, seconds))

    clock.run(main())
    assert woke == [
        ("now", START),
        ("minute", START + timedelta(minutes=1)),
        ("day", START + timedelta(days=1)),
    ]


def test_time_stands_still_while_somebody_works() -> None:
    clock = ManualClock(START)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(clock.sleep(5))
            for _ in range(1000):
                await asyncio.sleep(0)
                assert clock.now() == START

    clock.run(main())
    assert clock.monotonic() == 5


def test_timeouts_are_virtual_too() -> None:
    clock = ManualClock(START)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with clock.timeout(3600):
                await asyncio.Event().wait()

    clock.run(main())
    assert clock.now() == START + timedelta(hours=1)


def test_seeds_are_a_sequence() -> None:
    assert [ManualClock(seed=4).seed() for _ in range(2)] == [5, 5]
    clock = ManualClock(seed=4)
    assert [clock.seed(), clock.seed()] == [5, 6]


def test_a_fast_clock_covers_more_time() -> None:
    clock = SystemClock(speed=100_000)

    async def main() -> float:
        began = clock.monotonic()
        await clock.sleep(100.0)
        return clock.monotonic() - began

    assert asyncio.run(main()) >= 100.0
    assert clock.now().tzinfo is UTC


def test_time_passes_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.clock_gettime(time.CLOCK_MONOTONIC)
    clock = SystemClock()
    monkeypatch.setattr(time, "clock_gettime", lambda _: started + 8 * 3600)
    assert clock.monotonic() > 7 * 3600


def test_work_that_never_lets_time_pass_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks that wake each other for ever would otherwise hang a suite."""
    monkeypatch.setattr("tests.clock._TURNS_MAX", 1000)

    async def busy() -> None:
        for _ in range(2000):
            await asyncio.sleep(0)

    async def patient() -> None:
        for _ in range(20):
            for _ in range(100):
                await asyncio.sleep(0)
            await asyncio.sleep(1)

    ManualClock().run(patient())
    with pytest.raises(RuntimeError, match="livelock"):
        ManualClock().run(busy())


def test_no_timer_is_early() -> None:
    """Sums of floats miss a due time by less than a nanosecond; who then looks at the clock and
    waits again must not find that no time has passed."""
    clock = ManualClock()

    async def main() -> float:
        for _ in range(10):
            await clock.sleep(0.1)
        assert 1.0 - 1e-9 < clock.monotonic() < 1.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(1.0):
                asyncio.get_running_loop().call_soon(lambda: None)
                await asyncio.Event().wait()
        return clock.monotonic()

    assert clock.run(main()) == 1.0


def test_threads_end_in_real_time() -> None:
    clock, over, ended = ManualClock(START), threading.Event(), list[str]()

    def late() -> None:
        over.wait()
        ended.extend(str(number) for number in range(100_000))

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, late)
        over.set()

    clock.run(main())
    assert len(ended) == 100_000
    assert clock.now() == START
