"""Loop of every part of the agent: look at what changed, back off after failures, look again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import Conflict, GitkruiseError
from gitkruise.kube.cache.store import CachedObject, InformerCache, StoreChange
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, ObjectKey

FIRST_S, LONGEST_S = 0.5, 50.0
AGAIN_S: Final = 0.1  # after a write that met a newer version, which the watch delivers
log: Final = logging.getLogger(__name__)

# Carries out what is due for a key; returns when to look again without a change, None for never.
Look = Callable[[ObjectKey], Awaitable[datetime | None]]


def own_key(seen: CachedObject) -> ObjectKey:
    """Return the key of the object itself, for rounds over the watched kind."""
    return seen.key


@dataclass(slots=True)
class Rounds:
    """Looks at a key after each change of an object of `kind` that concerns it.

    `key_of` says which key an object concerns. One look at a time per key, `workers` in all.
    `event` names a failed look in the log. A failure is retried after a pause that doubles, and
    sooner when something changes; other keys do not wait for it.
    """

    store: InformerCache
    clock: Clock
    kind: GroupKind
    look: Look
    event: str
    workers: int = 1
    key_of: Callable[[CachedObject], ObjectKey] = own_key
    _news: dict[ObjectKey, asyncio.Event] = field(default_factory=dict)  # of keys being followed
    _following: dict[ObjectKey, asyncio.Task[None]] = field(default_factory=dict)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Until cancelled. Objects that are in the store already count as changed."""
        slots = asyncio.Semaphore(self.workers)
        leave = self.store.subscribe(self._changed, frozenset({self.kind}))
        try:
            for seen in self.store.all_seen(self.kind):
                self.wake(self.key_of(seen))
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._arrived.clear()
                    for key in self._news.keys() - self._following.keys():
                        self._following[key] = tasks.create_task(self._follow(key, slots))
                    await self._arrived.wait()
        finally:
            leave()

    def wake(self, key: ObjectKey) -> None:
        """Look at `key` now, or again once the look in progress has ended."""
        if key not in self._news:
            self._news[key] = asyncio.Event()
        self._news[key].set()
        self._arrived.set()

    def _changed(self, change: StoreChange) -> None:
        seen = change.after or change.before
        if seen is not None:
            self.wake(self.key_of(seen))

    async def _follow(self, key: ObjectKey, slots: asyncio.Semaphore) -> None:
        """Look until nothing is left to wait for."""
        news, failures = self._news[key], 0
        while True:
            news.clear()
            try:
                async with slots:
                    due = await self.look(key)
                failures = 0
            except Conflict:
                due = self.clock.now() + timedelta(seconds=AGAIN_S)
            except GitkruiseError as error:
                failures += 1
                pause = pause_s(failures, first_s=FIRST_S, cap_s=LONGEST_S, seed=str(key))
                log.warning(log_line(self.event, object=key, error=error, retry_s=pause))
                due = self.clock.now() + timedelta(seconds=pause)
            if due is None and not news.is_set():
                del self._news[key], self._following[key]
                return
            limit = None if due is None else max(due - self.clock.now(), timedelta(0))
            await wait_for(news, self.clock, limit)
