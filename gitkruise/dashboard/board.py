"""Rows of the topics that browsers watch, each encoded once per change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from gitkruise.dashboard.past_rows import NOTHING, RowMemory
from gitkruise.dashboard.source import Source, Topic
from gitkruise.kube.system.clock import Clock, wait_for

# Encoded rows by key. A row that did not change stays the same object, so that a comparison of
# identities finds the changed ones.
Encoded: TypeAlias = Mapping[str, bytes]
FRAME_S: Final = 0.2  # at most five frames a second
SHARE: Final = 0.2  # of the event loop's time, at most, for reading rows


@dataclass(eq=False, slots=True)
class Watcher:
    """One browser: the topics that it watches. `news` is set when one of them may have changed."""

    topics: frozenset[Topic] = frozenset()
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Board:
    """Reads the watched topics of a source after each change, not oftener than FRAME_S."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._rows: dict[Topic, Encoded] = {}
        self._watchers: set[Watcher] = set()
        self.memory = RowMemory()

    @contextmanager
    def watching(self, watcher: Watcher) -> Iterator[None]:
        """Keep the topics of a watcher up to date while the block runs."""
        self._watchers.add(watcher)
        try:
            yield
        finally:
            self._watchers.discard(watcher)
            self._forget()

    def choose(self, watcher: Watcher, topics: frozenset[Topic]) -> None:
        """Change what a watcher watches."""
        watcher.topics = topics
        self._forget()
        watcher.news.set()

    def rows(self, topic: Topic) -> Encoded:
        """Return the newest rows of a watched topic."""
        if topic not in self._rows:
            self.read(topic)
        return self._rows[topic]

    def read_all(self) -> None:
        """Read every watched topic, and notify the watchers.

        Rows that are remembered hold until something changes which no browser watches.
        """
        watched = self._watched()
        for topic in tuple(self._rows):
            if topic in watched:
                self.read(topic)
            else:
                del self._rows[topic]
                self.memory.leave(topic, self._clock.now())
        for watcher in self._watchers:
            watcher.news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await wait_for(self._source.changed, self._clock, None)
            self._source.changed.clear()
            began = self._clock.monotonic()
            self.read_all()
            spent = self._clock.monotonic() - began
            await self._clock.sleep(max(FRAME_S, spent / SHARE))

    def read(self, topic: Topic) -> None:
        """Read a topic; rows that are as before stay the same objects."""
        before = self._rows.get(topic) or self.memory.last(topic)
        after = {}
        for key, row in self._source.rows(topic).items():
            text = msgspec.json.encode(row)
            known = before.get(key)
            after[key] = known if known == text else text
        self._rows[topic] = after
        self.memory.note(topic, self._clock.now(), after)

    def _forget(self) -> None:
        """Drop the rows that no browser watches any more, and that are not remembered."""
        for topic in self._rows.keys() - self._watched() - self.memory.topics.keys():
            del self._rows[topic]

    def _watched(self) -> frozenset[Topic]:
        return frozenset[Topic]().union(*(w.topics for w in self._watchers))


def frame(topic: Topic, before: Encoded | None, after: Encoded) -> bytes | None:
    """Return what turns `before` (None: nothing is known there) into `after`; None for no change.

    A JSON object {topic, reset, set: rows by key, gone: keys}.
    """
    known = NOTHING if before is None else before
    fresh = {key: msgspec.Raw(row) for key, row in after.items() if known.get(key) is not row}
    gone = sorted(known.keys() - after.keys())
    if before is not None and not fresh and not gone:
        return None
    message: dict[str, Any] = {"topic": topic, "reset": before is None, "set": fresh, "gone": gone}
    return msgspec.json.encode(message)
