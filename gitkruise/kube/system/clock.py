"""The only reader of clock and entropy: real time, sped-up time, and time that jumps for tests."""

from __future__ import annotations

import asyncio
import math
import secrets
import selectors
import time
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")
_TURNS_MAX: Final = 300_000  # of a virtual loop at one instant
# A laptop that was suspended must not take a lease of hours ago for its own.
_WITH_SLEEP: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_STUCK_AFTER_S: Final = 5.0  # real seconds without timers, callbacks or I/O in a virtual loop


class Clock(Protocol):
    """The source of time for everything that waits."""

    def now(self) -> datetime:
        """The wall clock, aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, also while the machine is suspended; for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; 0 or less only lets others run."""
        ...

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        """An `asyncio.timeout` in this clock's seconds; None never ends."""
        ...

    def seed(self) -> int:
        """63 bits to derive names from; fresh entropy on a real clock."""
        ...


async def wait_for(event: asyncio.Event, clock: Clock, limit: timedelta | None) -> bool:
    """Until `event` is set (True), or the time is over (False); None waits as long as it takes."""
    try:
        async with clock.timeout(None if limit is None else limit.total_seconds()):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _elapsed_s() -> float:
    """Return the seconds since the machine started, with those that it was suspended."""
    return time.clock_gettime(_WITH_SLEEP)


class SystemClock:
    """The machine's clock; from its start it runs `speed` times as fast as real time."""

    def __init__(self, *, speed: float = 1.0) -> None:
        if not 0 < speed < float("inf"):
            raise ValueError(f"a clock cannot run at speed {speed}")
        self._speed = speed
        self._wall, self._mono = datetime.now(UTC), _elapsed_s()  # noqa: TID251  this is the clock

    def now(self) -> datetime:
        if self._speed == 1.0:
            return datetime.now(UTC)  # noqa: TID251  this is the clock
        return self._wall + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (_elapsed_s() - self._mono) * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0) / self._speed)

    def timeout(self, seconds: float | None) -> asyncio.Timeout:
        return asyncio.timeout(None if seconds is None else max(seconds, 0.0) / self._speed)

    def seed(self) -> int:
        return secrets.randbits(63)


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
