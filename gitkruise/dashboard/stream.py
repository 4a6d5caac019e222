"""Server-sent events: to each browser what changed since the frame before."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import msgspec

from gitkruise.dashboard.board import FRAME_S, Board, Encoded, Watcher, frame
from gitkruise.dashboard.source import TOPIC_MAX, Topic
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.wire.primitives.times import format_time

PING: Final = timedelta(seconds=10)  # a browser takes 25 s of silence for a lost connection
TOPICS_MAX: Final = 64  # of one browser, with all its tabs
STREAMS_MAX: Final = 1_500


@dataclass(slots=True)
class Streams:
    """The open streams by their ids, which only the browser that opened one knows."""

    board: Board
    clock: Clock
    _open: dict[str, Watcher] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        return len(self._open) >= STREAMS_MAX

    def choose(self, stream: str, topics: frozenset[Topic]) -> bool:
        """Change the topics of a stream; False when it is not open."""
        watcher = self._open.get(stream)
        if watcher is not None:
            self.board.choose(watcher, topics)
        return watcher is not None

    async def events(self, topics: frozenset[Topic]) -> AsyncGenerator[bytes, None]:
        """Yield events for ever: the stream's id, then frames, and pings while nothing changes."""
        stream, watcher = secrets.token_urlsafe(16), Watcher(topics)
        sent: dict[Topic, Encoded] = {}
        self._open[stream] = watcher
        try:
            with self.board.watching(watcher):
                yield _event("hello", {"stream": stream})
                while True:
                    watcher.news.clear()
                    for told in self._frames(watcher.topics, sent):
                        yield b"event: rows\ndata: " + told + b"\n\n"
                    await self.clock.sleep(FRAME_S)
                    if not await wait_for(watcher.news, self.clock, PING):
                        yield _event("ping", {"now": format_time(self.clock.now())})
        finally:
            del self._open[stream]

    def _frames(self, topics: frozenset[Topic], sent: dict[Topic, Encoded]) -> Iterable[bytes]:
        for topic in sent.keys() - topics:
            del sent[topic]
        for topic in sorted(topics):
            after = self.board.rows(topic)
            told = frame(topic, sent.get(topic), after)
            sent[topic] = after
            if told is not None:
                yield told


def topics_of(words: Iterable[str]) -> frozenset[Topic] | None:
    """Return the topics that a request names; None for too many or one that is too long."""
    found = frozenset(words)
    good = len(found) <= TOPICS_MAX and all(len(topic) <= TOPIC_MAX for topic in found)
    return found if good else None


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(value) + b"\n\n"
