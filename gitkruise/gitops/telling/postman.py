"""Sending letters one after another, again and again until they arrive."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Forbidden, Retry, Unauthorized
from gitkruise.gitops.telling.box import LetterBox, Waiting
from gitkruise.kube.clock import Clock, wait_for
from gitkruise.kube.limits import pause_s
from gitkruise.model.telling import Letter

log = logging.getLogger(__name__)
PAUSE_FIRST_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0  # while a receiver does not answer
REFUSED_FIRST_S: Final = 5.0
REFUSED_MAX_S: Final = 3600.0
TROUBLE_AFTER: Final = timedelta(minutes=5)  # of silence; a refused token is told at once
TRIES_MAX: Final = 10  # for one that is refused for what it says: an hour and a half
Send = Callable[[Letter], Awaitable[None]]


class Postman:
    """Empties one channel of a box. Nobody waits for it but itself.

    A receiver that is silent, busy or does not let us in holds up the channel, with growing pauses
    and as long as it asks for; a letter that is refused for what it says steps back behind the
    others, and is given up after TRIES_MAX.
    """

    def __init__(self, box: LetterBox, channel: str, send: Send, clock: Clock) -> None:
        self.channel = channel
        self.problem = ""  # why the newest letters have not arrived
        self.trouble: Callable[[str], None] = lambda _: None  # told when that lasts, "" at its end
        self._since: datetime | None = None  # when the receiver answered badly first
        self._told = ""
        self._box, self._send, self._clock = box, send, clock
        self._failures = 0  # in a row, of the receiver as a whole
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            try:
                await self._turn()
            except sqlite3.Error as error:
                self.problem = f"the box of letters: {error}"
                log.warning("%s: %s", self.channel, self.problem)
                await self._clock.sleep(PAUSE_MAX_S)

    async def _turn(self) -> None:
        found = await asyncio.to_thread(self._box.next, self.channel, self._clock.now())
        if not isinstance(found, Waiting):
            await self._rest(found)
            return
        pause = await self.deliver(found)
        if pause:
            await self._clock.sleep(pause)

    async def _rest(self, until: datetime | None) -> None:
        limit = None if until is None else until - self._clock.now()
        await wait_for(self._wake, self._clock, limit)
        self._wake.clear()

    async def deliver(self, waiting: Waiting) -> float:
        """One try; for how many seconds to leave the receiver alone after it."""
        try:
            await self._send(waiting.letter)
        except ApiError as error:
            return await self._failed(waiting, error)
        await asyncio.to_thread(self._box.done, waiting)
        self._failures, self.problem, self._since = 0, "", None
        self._tell("")
        return 0.0

    async def _failed(self, waiting: Waiting, error: ApiError) -> float:
        self.problem = f"{error.status}: {error.message}"
        if error.retry is Retry.BACKOFF or isinstance(error, Unauthorized | Forbidden):
            return await self._hold_up(waiting, error)
        tries = waiting.tries + 1
        if tries >= TRIES_MAX:
            log.warning("%s: %s is given up: %s", self.channel, waiting.key, self.problem)
            await asyncio.to_thread(self._box.done, waiting)
            return 0.0
        pause = self._pause(tries, REFUSED_FIRST_S, REFUSED_MAX_S)
        await self._later(waiting, pause, tries)
        return 0.0

    def _tell(self, trouble: str) -> None:
        if trouble != self._told:
            self._told = trouble
            self.trouble(trouble)

    async def _hold_up(self, waiting: Waiting, error: ApiError) -> float:
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            log.warning("%s: not sent, try %d: %s", self.channel, self._failures, self.problem)
        now = self._clock.now()
        self._since = self._since or now
        if isinstance(error, Unauthorized | Forbidden) or now - self._since >= TROUBLE_AFTER:
            self._tell(self._told or str(error.message))
        pause = self._pause(self._failures, PAUSE_FIRST_S, PAUSE_MAX_S)
        pause = max(pause, float(error.details.retry_after_s))
        await self._later(waiting, pause, waiting.tries)
        return pause

    def _pause(self, tries: int, first_s: float, cap_s: float) -> float:
        return pause_s(tries, first_s=first_s, cap_s=cap_s, seed=self.channel)

    async def _later(self, waiting: Waiting, pause: float, tries: int) -> None:
        after = self._clock.now() + timedelta(seconds=pause)
        await asyncio.to_thread(self._box.later, waiting, after, tries=tries)
