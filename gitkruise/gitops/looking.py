"""How what acts for a unit by itself keeps looking whether it is time to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, NoReturn, Protocol

from gitkruise.errors import ApiError, Finding, Reported
from gitkruise.git.trouble import RefMoved
from gitkruise.kube.clock import Clock, wait_for
from gitkruise.kube.limits import pause_s

PAUSE_MAX_S: Final = 300.0


class Following(Protocol):
    """What it asks of the unit's own loop."""

    @property
    def live_commit(self) -> str:
        """The commit the cluster stands on for this unit."""
        ...


async def keep_looking(
    look: Callable[[], Awaitable[timedelta | None]],
    failed: Callable[[RefMoved | Reported | ApiError], float],
    wake: asyncio.Event,
    clock: Clock,
    *,
    seed: str,
) -> NoReturn:
    """`look` again after the pause it gives (None: without end) or on `wake`, until cancelled.

    Failures in a row make the pauses grow from the seconds that `failed` gives to PAUSE_MAX_S;
    news do not shorten those.
    """
    failures = 0
    while True:
        try:
            pause = await look()
        except (RefMoved, Reported, ApiError) as error:
            failures += 1
            first_s = failed(error)
            await clock.sleep(pause_s(failures, first_s=first_s, cap_s=PAUSE_MAX_S, seed=seed))
        else:
            failures = 0
            await wait_for(wake, clock, pause)
        wake.clear()


def told(error: Reported | ApiError) -> str:
    """An error in one line."""
    if isinstance(error, ApiError):
        return error.message
    finding: Finding = error.findings[0]
    return f"{finding.code}: {finding.message}"
