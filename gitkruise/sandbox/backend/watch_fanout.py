"""Fan-out of events: found and encoded once, and written to all watches in one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from gitkruise.errors import ApiError
from gitkruise.sandbox.backend.encoding import Encoder
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, WatchEvent
from gitkruise.world.api.cluster import World

CHUNK_BYTES: Final = 1 << 20  # frames joined into one write are about this many, or one frame
TURN_WATCHES: Final = 100  # watches written to before other tasks get their turns
WAITED_BYTES: Final = 1 << 16  # the same, where each write is waited for
OWED_MAX: Final = 32 << 20  # bytes written to watches that do not read, all together
_KNOWN_MAX: Final = 1_000
# resource, namespace, name, labels, fields, position: what decides which events a watch sees
_Key = tuple[ResourceRef, str, str, str, str, int]


class EventBatch:
    """Events that a watch gets together; `end` is the position after them."""

    __slots__ = ("_chunks", "_whole", "end", "events")

    def __init__(self, events: Sequence[WatchEvent], end: int) -> None:
        self.events = events
        self.end = end
        self._chunks: list[bytes] | None = None
        self._whole: bytes | None = None

    def chunks(self, encoder: Encoder) -> Sequence[bytes]:
        """Return the frames, in pieces of one write each."""
        if self._chunks is None:
            self._chunks = list(joined(encoder, self.events))
        return self._chunks

    def whole(self, encoder: Encoder) -> bytes | None:
        """Return all frames as one chunk of an HTTP body; None if they exceed one write."""
        if self._whole is None:
            chunks = self.chunks(encoder)
            if len(chunks) > 1:
                return None
            self._whole = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        return self._whole


def joined(
    encoder: Encoder, events: Sequence[WatchEvent], most: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """Join frames to pieces of about `most` bytes."""
    piece: list[bytes] = []
    size = 0
    for event in events:
        frame = encoder.frame(event)
        if piece and size + len(frame) > most:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(frame)
        size += len(frame)
    if piece:
        yield b"".join(piece)


class WatchReader(Protocol):
    """The far end of a watch: an HTTP body in chunks."""

    @property
    def keeps_up(self) -> bool:
        """Return whether more may be written without waiting."""
        ...

    def take(self, data: bytes) -> None:
        """Write without waiting."""
        ...

    def let_go(self) -> None:
        """End the watch; its client lists again."""
        ...


class Owed:
    """Unread bytes of slow watches; at the bound the oldest of them are closed."""

    def __init__(self, most: int = OWED_MAX) -> None:
        self._most = most
        self._owed: dict[WatchReader, int] = {}
        self.total = 0

    def add(self, reader: WatchReader, size: int) -> None:
        """Add `size` unread bytes of `reader`, which does not keep up."""
        self._owed[reader] = self._owed.get(reader, 0) + size
        self.total += size
        if self.total <= self._most:
            return
        for one in [one for one in self._owed if one.keeps_up]:
            self.paid(one)
        while self.total > self._most:
            oldest = next(iter(self._owed))
            self.paid(oldest)
            oldest.let_go()

    def paid(self, reader: WatchReader) -> None:
        """Remove the bytes of a reader that caught up or ended."""
        self.total -= self._owed.pop(reader, 0)


class WatchCursor:
    """Position of a watch, and the loop's time of its last write (`written`).

    `free` is set when only the task of the watch can continue.
    """

    __slots__ = ("free", "position", "request", "written")

    def __init__(self, request: ApiRequest, position: int, written: float) -> None:
        self.request = request
        self.position = position
        self.written = written
        self.free = asyncio.Event()


class Fanout:
    """Batches up to the newest requested version, shared by watches at the same position.

    One loop writes to all attached watches: waking a task for each costs more than the write.
    """

    def __init__(self, world: World, encoder: Encoder) -> None:
        self.cursors: dict[WatchCursor, WatchReader] = {}
        self._world = world
        self._encoder = encoder
        self._until = 0
        self._known: dict[_Key, EventBatch] = {}
        self.owed = Owed()

    def after(self, request: ApiRequest, position: int, until: int) -> EventBatch:
        """Return the events for a watch at `position` up to `until`. Raises WatchExpired."""
        if until != self._until or len(self._known) >= _KNOWN_MAX:
            self._known.clear()
            self._until = until
        key = (
            request.resource,
            request.namespace,
            request.name,
            request.params.get("labelSelector", ""),
            request.params.get("fieldSelector", ""),
            position,
        )
        found = self._known.get(key)
        if found is None:
            found = EventBatch(*self._world.watch(request, position, until=until))
            self._known[key] = found
        return found

    async def attach(self, cursor: WatchCursor, reader: WatchReader) -> None:
        """Let `broadcast` serve `cursor` until it is freed."""
        self.cursors[cursor] = reader
        try:
            await cursor.free.wait()
        finally:
            cursor.free.clear()
            self.cursors.pop(cursor, None)

    async def broadcast(self, version: int) -> None:
        """Write everything up to `version`, which is durable, to the attached watches.

        A watch is freed when it is slow, needs more than one write or an expired version.
        """
        now = asyncio.get_running_loop().time()
        for number, (cursor, reader) in enumerate(tuple(self.cursors.items()), start=1):
            if number % TURN_WATCHES == 0:
                await asyncio.sleep(0)
            if cursor in self.cursors and cursor.position < version:
                self._write(cursor, reader, version, now)

    def _write(self, cursor: WatchCursor, reader: WatchReader, version: int, now: float) -> None:
        try:
            batch = self.after(cursor.request, cursor.position, version)
        except ApiError:
            cursor.free.set()  # its task meets the same error, and reports it
            return
        data = batch.whole(self._encoder)
        if data is None:
            cursor.free.set()
            return
        cursor.position = batch.end
        if data:
            reader.take(data)
            cursor.written = now
            if not reader.keeps_up:
                self.owed.add(reader, len(data))
                cursor.free.set()

    def free_all(self) -> None:
        """Leave every watch to its own task."""
        for cursor in self.cursors:
            cursor.free.set()
