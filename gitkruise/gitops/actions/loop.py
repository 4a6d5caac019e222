"""The loop of automatic actions: check again until it is time to act."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, NoReturn, Protocol

from gitkruise.errors import ApiError, DiagnosticError
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for

PAUSE_MAX_S: Final = 300.0


class Following(Protocol):
    """The part of UnitReconciler that automatic actions read."""

    @property
    def live_commit(self) -> str:
        """Return the commit of this unit that the cluster has."""
        ...


async def keep_looking(
    look: Callable[[], Awaitable[timedelta | None]],
    failed: Callable[[RefMoved | DiagnosticError | ApiError], float],
    wake: asyncio.Event,
    clock: Clock,
    *,
    seed: str,
    containment: Containment = UNREPORTED,
    part: str = "promotion",
    kind: str = "Unit",
) -> NoReturn:
    """`look` again after the pause it gives (None: without end) or on `wake`, until cancelled.

    Failures in a row make the pauses grow from the seconds that `failed` gives to PAUSE_MAX_S;
    news do not shorten those. Reports of a crash name the `part` of the `seed`, of a `kind`.
    """
    failures = 0
    while True:
        try:
            with containment.of(f"{kind} {seed}: its {part}", RefMoved):
                pause = await look()
        except (RefMoved, DiagnosticError, ApiError) as error:
            failures += 1
            first_s = failed(error)
            await clock.sleep(pause_s(failures, first_s=first_s, cap_s=PAUSE_MAX_S, seed=seed))
        else:
            failures = 0
            await wait_for(wake, clock, pause)
        wake.clear()


def error_line(error: DiagnosticError | ApiError) -> str:
    """An error in one line, with the words of the server that refused a push."""
    return error.message if isinstance(error, ApiError) else error.findings[0].with_cause
