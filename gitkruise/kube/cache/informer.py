"""Drive list and watch over a transport into a store, for ever, and say how it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime

import msgspec

from gitkruise.errors import ApiError, Unavailable, WatchExpired
from gitkruise.kube.cache.list_watch import (
    SHORT_S,
    SILENCE_S,
    Doubted,
    Empty,
    Ended,
    Failed,
    Feed,
    Got,
    Init,
    InitDone,
    ListPage,
    Silent,
    StoreEvent,
    Watching,
    WatchReply,
    WatchState,
    error_in,
    pause,
    step,
    wanted,
)
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.rawobject import meta_of
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.requests import OPENED, ApiRequest, ResourceRef

log = logging.getLogger(__name__)


class WatchOutages:
    """Log of the watches of one API server that fail: one line for each reason when the first
    watch fails for it, and one when the last of them works again."""

    def __init__(self) -> None:
        self._reasons: dict[Informer, str] = {}  # of those that fail

    def failed(self, informer: Informer, error: ApiError) -> None:
        """Log a reason that no watch failed for until now."""
        reason = str(error)
        if reason not in self._reasons.values():
            log.warning(log_line("watch-failed", kind=informer.feed, error=reason))
        self._reasons[informer] = reason

    def recovered(self, informer: Informer) -> None:
        """Log that no watch fails any more for the reason of this one."""
        reason = self._reasons.pop(informer)
        if reason not in self._reasons.values():
            log.warning(log_line("watch-recovered", kind=informer.feed, error=reason))

    def ended(self, informer: Informer) -> None:
        """Forget a watch that is stopped."""
        self._reasons.pop(informer, None)


class Informer:
    """Keeps `store` up to date for one feed. `run` ends only by cancellation."""

    def __init__(
        self,
        feed: Feed,
        transport: Transport,
        store: InformerCache,
        clock: Clock,
        recovered: Callable[[], None] = lambda: None,
        outages: WatchOutages | None = None,
    ) -> None:
        """`recovered` is called when a feed that was held up goes on. Informers of one API server
        share `outages`."""
        self.feed = feed
        self._outages = outages or WatchOutages()
        self._recovered = recovered
        self.error: ApiError | None = None  # the error that holds up the feed, or None
        self.failing_since: datetime | None = None  # while there is an error
        self.synced = asyncio.Event()  # a complete list has been taken in
        self._transport, self._store, self._clock = transport, store, clock
        self._asked = feed  # `feed` in the version that is asked for
        store.follow(feed)

    @property
    def ref(self) -> ResourceRef:
        """Return the resource that is asked for, in its version."""
        return self._asked.ref

    def shows(self, feed: Feed) -> bool:
        """Return whether every object of `feed` is among those of this informer."""
        mine = self.feed
        whole = not (mine.namespace or mine.field_selector or mine.name_ends)
        selected = mine.label_selector in {"", feed.label_selector}
        return whole and selected and self.ref == feed.ref

    def use(self, ref: ResourceRef) -> None:
        """Ask for another version of the same kind; what is known stays known."""
        self._asked = replace(self.feed, ref=ref)

    async def run(self) -> None:
        try:
            await self._follow()
        finally:
            self._outages.ended(self)

    async def _follow(self) -> None:
        state: WatchState = Empty()
        while True:
            await self._clock.sleep(pause(state, self.feed))
            request = wanted(state, self._asked)
            if isinstance(state, Watching):
                async with aclosing(self._watch(request)) as replies:
                    async for reply in replies:
                        state = self._take(state, reply)
                        if not isinstance(state, Watching) or error_in(reply):
                            break  # the pause after a failure comes before the next request
            else:
                state = self._take(state, await self._list(request))

    async def _list(self, request: ApiRequest) -> WatchReply:
        try:
            reply = await self._transport.send(request)
        except ApiError as error:
            return Failed(error)
        return ListPage(reply.body)

    async def _watch(self, request: ApiRequest) -> AsyncGenerator[WatchReply, None]:
        """Events of one watch, then how it ended.

        A connection that was lost later than SHORT_S after the watch was opened is a usual end:
        load balancers cut what is quiet.
        """
        began, events = self._clock.monotonic(), 0
        cut_after = float("inf")
        try:
            async with aclosing(self._transport.watch(request)) as stream:
                while True:
                    async with asyncio.timeout(SILENCE_S):
                        event = await anext(stream, None)
                    if event is None:
                        break
                    if event.type == OPENED:
                        cut_after = self._clock.monotonic() + SHORT_S
                    else:
                        events += 1
                    yield Got(event)
        except ApiError as error:
            if not isinstance(error, Unavailable) or self._clock.monotonic() < cut_after:
                yield Failed(error)
                return
            log.info(log_line("watch-cut", kind=self.feed, error=error))
        except TimeoutError:
            log.info(log_line("watch-silent", kind=self.feed, seconds=SILENCE_S))
            yield Silent()
            return
        yield Ended(self._clock.monotonic() - began, events)

    def _take(self, state: WatchState, reply: WatchReply) -> WatchState:
        """One step; the store gets it, and objects it cannot read are reported and skipped."""
        after, events = step(state, reply, self._asked)
        for event in events:
            try:
                if self._keeps(event):
                    self._store.apply(self.feed, event)
            except (msgspec.ValidationError, KeyError) as error:
                log.warning(log_line("object-skipped", kind=self.feed.kind, error=error))
        failure = error_in(reply)
        if isinstance(failure, WatchExpired) and not isinstance(state, Empty):
            log.info(log_line("watch-expired", kind=self.feed))  # no failure: a list follows
        elif failure is not None or not isinstance(state, Doubted):  # which only a watch ends
            self._say(failure)
        if isinstance(after, Watching):
            self.synced.set()
        return after

    def _keeps(self, event: StoreEvent) -> bool:
        if not self.feed.name_ends or isinstance(event, Init | InitDone):
            return True
        return meta_of(event.obj).name.endswith(self.feed.name_ends)

    def _say(self, error: ApiError | None) -> None:
        before, self.error = self.error, error
        if error is not None:
            self.failing_since = self.failing_since or self._clock.now()
            self._outages.failed(self, error)
        elif before is not None:
            self.failing_since = None
            self._outages.recovered(self)
            self._recovered()
