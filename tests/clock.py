"""Virtual time: a clock that jumps when everyone sleeps, and its event loop."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

T = TypeVar("T")
_TURNS_MAX: Final = 300_000  # of a virtual loop at one instant
_STUCK_AFTER_S: Final = 5.0  # real seconds without timers, callbacks or I/O in a virtual loop


class ManualClock:
    """Virtual time: pauses while anything runs, and jumps when everyone sleeps.

    `run` executes a coroutine in an event loop whose own clock is this one, so asyncio.sleep and
    asyncio.timeout are virtual too. Do not mix with real sockets: waiting for one is sleeping.
    """

    def __init__(
        self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), *, seed: int = 1
    ) -> None:
        assert start.tzinfo is not None
        self._start, self._elapsed, self._seed = start, 0.0, seed

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        return asyncio.timeout(None if seconds is None else max(seconds, 0.0))

    def seed(self) -> int:
        self._seed += 1
        return self._seed

    def advance(self, seconds: float) -> None:
        """Move the hands by hand."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._elapsed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock ahead or back, as NTP does; no time passes."""
        self._start += timedelta(seconds=seconds)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end in virtual time.

        Raises RuntimeError when everyone waits for ever, or works for ever at one instant.
        """
        with asyncio.Runner(loop_factory=lambda: _VirtualLoop(self)) as runner:
            return runner.run(main)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: ManualClock) -> None:
        self._virtual = clock
        super().__init__(_JumpingSelector(clock))

    def time(self) -> float:
        return self._virtual.monotonic()

    async def shutdown_default_executor(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  asyncio's signature since Python 3.12
    ) -> None:
        """Wait for threads without a limit: they end in real time, which no timer here measures."""
        del timeout
        await super().shutdown_default_executor()

    @property
    def _clock_resolution(self) -> float:
        """Return the time that a timer may be early.

        With asyncio's nanosecond a loop that waits until an instant can find itself just before
        it, and no time would pass any more.
        """
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, _: float) -> None:
        """Ignore the resolution of the real clock, which asyncio sets."""


class _JumpingSelector(selectors.BaseSelector):
    """Instead of waiting until the next timer it moves the clock there."""

    def __init__(self, clock: ManualClock) -> None:
        self._real, self._clock = selectors.DefaultSelector(), clock
        self._turns = 0  # of the loop, at this instant

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            self._turns += 1
            if self._turns > _TURNS_MAX:
                self._turns = 0  # the loop turns on while its tasks are cancelled
                raise RuntimeError(f"livelock: {_TURNS_MAX} turns of the loop, and no time passes")
            return ready
        self._turns = 0
        if timeout is not None:
            self._clock.advance(timeout)
            return []
        ready = self._real.select(_STUCK_AFTER_S)
        if not ready:
            raise RuntimeError("deadlock: every task waits, and no timer is set")
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()
