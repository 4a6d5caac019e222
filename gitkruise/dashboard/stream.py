"""Server-sent events: to each browser what changed since the frame before."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple

import msgspec

from gitkruise.dashboard.board import FRAME_S, Board, Encoded, Watcher, frame
from gitkruise.dashboard.gate import Machine, Viewer
from gitkruise.dashboard.source import TOPIC_MAX, Topic
from gitkruise.errors import ApiError
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import format_time

log: Final = logging.getLogger(__name__)
PING: Final = timedelta(seconds=10)  # a browser takes 25 s of silence for a lost connection
TOPICS_MAX: Final = 64  # of one browser, with all its tabs
STREAMS_MAX: Final = 1_500
KEPT_MAX: Final = 256  # frames
_ROW_BYTES: Final = 200
KEPT_BYTES: Final = 16 * 1024 * 1024


class _KeptFrame(NamedTuple):
    """A frame, and the rows that it leads from and to, whose identities are its key."""

    before: Encoded | None
    after: Encoded
    data: bytes | None

    @property
    def size(self) -> int:
        """Bytes that it holds, roughly: the rows that it leads to live as long as it does."""
        return len(self.data or b"") + _ROW_BYTES * len(self.after)


class Frames:
    """The newest frames. Rows do not change once they are given out, so identities suffice."""

    def __init__(self) -> None:
        self.encoded = 0  # frames so far
        self._kept: dict[tuple[Topic, int, int], _KeptFrame] = {}
        self._bytes = 0

    @property
    def kept(self) -> Mapping[tuple[Topic, int, int], _KeptFrame]:
        return self._kept

    def frame(self, topic: Topic, before: Encoded | None, after: Encoded) -> bytes | None:
        """Return what turns `before` into `after`, as `board.frame` does."""
        key = (topic, id(before), id(after))
        found = self._kept.get(key)
        if found is not None:
            return found.data
        if before is after:
            return None
        self.encoded += 1
        found = _KeptFrame(before, after, frame(topic, before, after))
        self._kept[key] = found
        self._bytes += found.size
        while len(self._kept) > KEPT_MAX or (self._bytes > KEPT_BYTES and len(self._kept) > 1):
            oldest = self._kept.pop(next(iter(self._kept)))
            self._bytes -= oldest.size
        return found.data


@dataclass(slots=True)
class Streams:
    """The open streams by their ids, which only the browser that opened one knows."""

    board: Board
    clock: Clock
    most: int = STREAMS_MAX
    frames: Frames = field(default_factory=Frames)
    _open: dict[str, Watcher] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        return len(self._open) >= self.most

    def choose(self, stream: str, topics: frozenset[Topic]) -> bool:
        """Change the topics of a stream; False when it is not open."""
        watcher = self._open.get(stream)
        if watcher is not None:
            self.board.choose(watcher, topics)
        return watcher is not None

    async def events(
        self, topics: frozenset[Topic], viewer: Viewer | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield events while the viewer's session lasts: the stream's id, then frames, and pings
        while nothing changes; `bye` at the end."""
        stream, watcher = secrets.token_urlsafe(16), Watcher(topics)
        session = _StreamSession(viewer or Machine())
        self._open[stream] = watcher
        try:
            with self.board.watching(watcher):
                yield _event("hello", {"stream": stream})
                while True:
                    watcher.news.clear()
                    if not await session.viewer.valid():
                        break
                    for topic in session.narrowed(watcher.topics):
                        async for event in self._news(topic, session):
                            yield event
                    await self.clock.sleep(FRAME_S)
                    if not await wait_for(watcher.news, self.clock, PING):
                        yield _event("ping", {"now": format_time(self.clock.now())})
        except ApiError as error:  # nobody says what may be shown
            log.warning(log_line("dashboard-access-unknown", error=error))
        finally:
            del self._open[stream]
        yield _event("bye", {})

    async def _news(self, topic: Topic, session: _StreamSession) -> AsyncGenerator[bytes, None]:
        """Yield what changed in a topic for a viewer, or that it may not see it."""
        denied = await session.viewer.denied(topic)
        if denied:
            session.sent.pop(topic, None)
            if session.denied.get(topic) != denied:
                session.denied[topic] = denied
                yield _event("denied", {"topic": topic, "message": denied})
            return
        session.denied.pop(topic, None)
        after = await session.viewer.see(topic, self.board.rows(topic))
        data = self.frames.frame(topic, session.sent.get(topic), after)
        session.sent[topic] = after
        if data is not None:
            yield b"event: rows\ndata: " + data + b"\n\n"


@dataclass(slots=True)
class _StreamSession:
    """A viewer, the rows that it has, and the topics of which it knows that it may not see them."""

    viewer: Viewer
    sent: dict[Topic, Encoded] = field(default_factory=dict)
    denied: dict[Topic, str] = field(default_factory=dict)

    def narrowed(self, topics: frozenset[Topic]) -> list[Topic]:
        """Forget all but `topics`, and return them in order."""
        for known in (self.sent, self.denied):
            for topic in known.keys() - topics:
                del known[topic]
        return sorted(topics)


def topics_of(words: Iterable[str]) -> frozenset[Topic] | None:
    """Return the topics that a request names; None for too many or one that is too long."""
    found = frozenset(words)
    good = len(found) <= TOPICS_MAX and all(len(topic) <= TOPIC_MAX for topic in found)
    return found if good else None


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(value) + b"\n\n"
