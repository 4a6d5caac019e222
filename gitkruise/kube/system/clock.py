"""The only reader of clock and entropy: real time, and sped-up time."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

# A laptop that was suspended must not take a lease of hours ago for its own.
_WITH_SLEEP: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


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
