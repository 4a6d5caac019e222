"""Feeds of one part of a process, which are watched once where another part follows them, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.layered import OverlaidCache
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock


class FollowedCache(Protocol):
    """A cache that a part of this process keeps up to date."""

    @property
    def store(self) -> InformerCache:
        """Return the cache."""
        ...

    def informer_of(self, feed: Feed) -> Informer | None:
        """Return the informer that shows every object of `feed`, and perhaps others; or None."""
        ...


class SharedFeeds:
    """Keeps `store` up to date for `feeds`: by caches that the process follows, or by watches of
    its own, which write to the cache `own`.

    `note` is called for each change.
    """

    def __init__(
        self,
        feeds: Sequence[Feed],
        transport: Transport,
        store: OverlaidCache,
        note: Callable[[StoreChange], None],
    ) -> None:
        self.feeds, self._transport, self._store, self._note = feeds, transport, store, note
        self.own = InformerCache()
        store.others = {feed.group_kind: self.own for feed in feeds}
        self._watches: dict[Feed, tuple[Informer, asyncio.Task[None]]] = {}
        self._read: dict[Feed, tuple[FollowedCache, Callable[[], None]]] = {}  # how to leave it
        self._begin: Callable[[Feed], None] | None = None

    async def run(self, clock: Clock) -> None:
        """Follow the feeds until cancelled."""
        self.own.subscribe(self._note)
        outages = WatchOutages()
        async with asyncio.TaskGroup() as tasks:

            def begin(feed: Feed) -> None:
                informer = Informer(feed, self._transport, self.own, clock, outages=outages)
                self._watches[feed] = informer, tasks.create_task(informer.run())

            self._begin = begin
            for feed in self.feeds:
                begin(feed)
            await asyncio.get_running_loop().create_future()

    def share(self, caches: Sequence[FollowedCache]) -> None:
        """Read the feeds that one of `caches` shows there, and watch only the others.

        A feed that is shown no more is read where it was until a watch of our own has listed it.
        """
        if self._begin is None:
            return
        for feed in self.feeds:
            now = self._read[feed][0] if feed in self._read else None
            found = (cache for cache in caches if _shows(cache, feed, known=cache is now))
            cache = next(found, None)
            if cache is not None and cache is not now:
                self._read_in(cache, feed)
            elif cache is None and now is not None:
                self._take_back(feed, self._begin)

    def informers(self) -> Iterator[tuple[Feed, Informer]]:
        """Yield the informer of each feed, our own or another part's."""
        for feed in self.feeds:
            if feed in self._watches:
                yield feed, self._watches[feed][0]
            elif feed in self._read and (other := self._read[feed][0].informer_of(feed)):
                yield feed, other

    def _read_in(self, cache: FollowedCache, feed: Feed) -> None:
        if feed in self._read:
            self._read[feed][1]()
        kind = feed.group_kind
        leave = cache.store.subscribe(partial(self._note), frozenset({kind}))
        self._read[feed] = cache, leave
        self._store.others[kind] = cache.store
        if (own := self._watches.pop(feed, None)) is not None:
            own[1].cancel()
            self.own.forget(feed)

    def _take_back(self, feed: Feed, begin: Callable[[Feed], None]) -> None:
        if feed not in self._watches:
            begin(feed)
        elif self._watches[feed][0].synced.is_set():
            self._read.pop(feed)[1]()
            self._store.others[feed.group_kind] = self.own


def _shows(cache: FollowedCache, feed: Feed, *, known: bool) -> bool:
    informer = cache.informer_of(feed)
    return informer is not None and (known or informer.synced.is_set())
