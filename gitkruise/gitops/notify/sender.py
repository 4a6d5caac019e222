"""Sender of outbox items: one after another, repeated until they arrive."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Crashed, Forbidden, Retry, Unauthorized
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.notify.outbox import NotificationOutbox, QueuedItem
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.notifications import OutboxItem
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
PAUSE_FIRST_S: Final = 1.0
YIELDED_S: Final = 5.0  # between two looks for the end of another leader
PAUSE_MAX_S: Final = 60.0  # while a receiver does not answer
REFUSED_FIRST_S: Final = 5.0
REFUSED_MAX_S: Final = 3600.0
PROBLEM_AFTER_S: Final = 300.0  # without an arrival; a rejected token is reported immediately
TRIES_MAX: Final = 10  # of an item whose content is rejected, within an hour
REPORTED_FROM: Final = 5  # tries of such an item: the forge may not know its commit yet
FORBIDDEN_MAX_S: Final = 600.0  # between two tries of a forbidden item
# Returns after how long to send the item again, to see if it was written over; None for never.
Send = Callable[[OutboxItem], Awaitable[timedelta | None]]


@dataclass(frozen=True, slots=True)
class _RefusedItem:
    """An item that the receiver did not take, as often as `tries`."""

    tries: int
    why: str


class Sender:
    """Send the items of one channel, independently of other channels.

    A receiver that is silent, busy or rejects our credentials holds up the channel, with growing
    pauses and for as long as it requests. An item that is forbidden goes behind the others: the
    token may lack the right to comment only, or one conversation is locked. So does one whose
    content is rejected, which is dropped after TRIES_MAX.
    """

    def __init__(
        self,
        outbox: NotificationOutbox,
        channel: str,
        send: Send,
        clock: Clock,
        *,
        containment: Containment = UNREPORTED,
        yields: Callable[[], bool] = lambda: False,
    ) -> None:
        """`yields` returns whether another process reports: what waits here may be out of date."""
        self.channel = channel
        self.problem = ""  # the reason why the newest items did not arrive
        # Called with a problem that lasts, and with "" at its end.
        self.on_problem: Callable[[str], None] = lambda _: None
        self._since: float | None = None  # monotonic: when the receiver answered badly first
        self._reported = ""
        self._silent = ""  # the reported problem of the receiver as a whole
        self._refused: dict[str, _RefusedItem] = {}  # by key; all others may have arrived
        self._arrived: QueuedItem | None = None  # the last one; a full disk keeps it in the outbox
        self._outbox, self._send, self._clock = outbox, send, clock
        self._latest = clock.now()  # that the clock showed
        self._failures = 0  # in a row, of the receiver as a whole
        self._wake = asyncio.Event()
        self._containment, self._yields = containment, yields

    def wake(self) -> None:
        """Look for items to send."""
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            try:
                await self._turn()
            except sqlite3.Error as error:
                self.problem = f"the outbox cannot be used: {error}"
                log.warning(log_line("outbox-failed", channel=self.channel, error=self.problem))
                await self._clock.sleep(PAUSE_MAX_S)

    async def _turn(self) -> None:
        if self._yields():
            await self._clock.sleep(YIELDED_S)
            return
        now = self._clock.now()
        if now < self._latest:
            await asyncio.to_thread(self._outbox.hasten, self.channel, self._latest - now)
        self._latest = now
        found = await asyncio.to_thread(self._outbox.next, self.channel, now)
        if not isinstance(found, QueuedItem):
            await self._rest(found)
            return
        pause = await self.deliver(found)
        if pause:
            await self._clock.sleep(pause)

    async def _rest(self, until: datetime | None) -> None:
        limit = None if until is None else until - self._clock.now()
        await wait_for(self._wake, self._clock, limit)
        self._wake.clear()

    async def deliver(self, waiting: QueuedItem) -> float:
        """Try to send an item; return the pause in seconds before the next one."""
        again = None
        try:
            if waiting != self._arrived:
                with self._containment.of(f"Sink {self.channel}"):
                    again = await self._send(waiting.item)
        except ApiError as error:
            return await self._failed(waiting, error)
        except Crashed as error:
            self.problem = self._silent = str(error)
            self._report()
            await self._step_back(waiting, self.problem)
            return 0.0
        if again is not None:
            await self._later(waiting, again.total_seconds(), waiting.tries)
        else:
            self._arrived = waiting
            await asyncio.to_thread(self._outbox.done, waiting)
        self._refused.pop(waiting.key, None)
        self._answers()
        return 0.0

    def _answers(self) -> None:
        """The receiver works: what is refused is one item."""
        self._failures, self._since, self._silent = 0, None, ""
        self.problem = next((one.why for one in self._refused.values()), "")
        self._report()

    async def _failed(self, waiting: QueuedItem, error: ApiError) -> float:
        self.problem = f"{error.status}: {error.message}"
        if isinstance(error, Forbidden) and error.retry is not Retry.BACKOFF:
            await self._forbidden(waiting, error)
            return 0.0
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if isinstance(error, Unauthorized) or now - self._since >= PROBLEM_AFTER_S:
            self._silent = self._silent or str(error.message)
            self._report()
        if isinstance(error, Unauthorized) or error.retry is Retry.BACKOFF:
            return await self._hold_up(waiting, error)
        await self._step_back(waiting, error.message)
        return 0.0

    async def _forbidden(self, waiting: QueuedItem, error: ApiError) -> None:
        """Put an item behind the others until the receiver lets us send it."""
        before = self._refused.get(waiting.key)
        one = _RefusedItem(before.tries + 1 if before else 1, error.message)
        self._refused[waiting.key] = one
        if one.tries & (one.tries - 1) == 0:
            log.warning(
                log_line(
                    "item-forbidden", channel=self.channel, item=waiting.key, tries=one.tries,
                    error=self.problem,
                )
            )  # fmt: skip
        self._answers()
        pause = self._pause(one.tries, REFUSED_FIRST_S, FORBIDDEN_MAX_S)
        await self._later(waiting, pause, waiting.tries)

    async def _step_back(self, waiting: QueuedItem, why: str) -> None:
        """Put an item behind the others, or drop it after TRIES_MAX."""
        tries = waiting.tries + 1
        if tries >= REPORTED_FROM:
            self._refused[waiting.key] = _RefusedItem(tries, why)
            self._report()
        if tries >= TRIES_MAX:
            self._refused.pop(waiting.key, None)
            self._report()
            log.warning(
                log_line("item-dropped", channel=self.channel, item=waiting.key, error=self.problem)
            )
            await asyncio.to_thread(self._outbox.done, waiting)
            return
        pause = self._pause(tries, REFUSED_FIRST_S, REFUSED_MAX_S)
        await self._later(waiting, pause, tries)

    def _report(self) -> None:
        """Say what does not arrive, if that is news."""
        refused = next((one.why for one in self._refused.values()), "")
        problem = f"some messages do not arrive: {refused}" if refused else ""
        if self._silent:
            problem = f"messages do not arrive: {self._silent}"
        if problem != self._reported:
            self._reported = problem
            self.on_problem(problem)

    async def _hold_up(self, waiting: QueuedItem, error: ApiError) -> float:
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            log.warning(
                log_line(
                    "item-not-sent", channel=self.channel, tries=self._failures, error=self.problem
                )
            )
        pause = self._pause(self._failures, PAUSE_FIRST_S, PAUSE_MAX_S)
        pause = max(pause, float(error.details.retry_after_s))
        await self._later(waiting, pause, waiting.tries)
        return pause

    def _pause(self, tries: int, first_s: float, cap_s: float) -> float:
        return pause_s(tries, first_s=first_s, cap_s=cap_s, seed=self.channel)

    async def _later(self, waiting: QueuedItem, pause: float, tries: int) -> None:
        after = self._clock.now() + timedelta(seconds=pause)
        await asyncio.to_thread(self._outbox.postpone, waiting, after, tries=tries)
