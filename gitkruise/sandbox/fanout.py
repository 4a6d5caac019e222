"""What watches have in common: events are found and encoded once, and told to all in one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from gitkruise.errors import ApiError
from gitkruise.sandbox.encoding import Encoder
from gitkruise.wire.request import ApiRequest, ResourceRef, WatchEvent
from gitkruise.world.cluster import World

CHUNK_BYTES: Final = 1 << 20  # frames joined into one write are about this many, or one frame
AT_ONCE: Final = 100  # written to before others get their turns
_KNOWN_MAX: Final = 1_000
# resource, namespace, name, labels, fields, position: what decides which events a watch sees
_Key = tuple[ResourceRef, str, str, str, str, int]


class Stretch:
    """Events of a watch, told together; `end` is the position after them."""

    __slots__ = ("_chunks", "_whole", "end", "events")

    def __init__(self, events: Sequence[WatchEvent], end: int) -> None:
        self.events = events
        self.end = end
        self._chunks: list[bytes] | None = None
        self._whole: bytes | None = None

    def chunks(self, encoder: Encoder) -> Sequence[bytes]:
        """The frames, in pieces for one write each."""
        if self._chunks is None:
            self._chunks = list(joined(encoder, self.events))
        return self._chunks

    def whole(self, encoder: Encoder) -> bytes | None:
        """All frames as one chunk of an HTTP body; None where they are too much for one write."""
        if self._whole is None:
            chunks = self.chunks(encoder)
            if len(chunks) > 1:
                return None
            self._whole = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        return self._whole


def joined(encoder: Encoder, events: Sequence[WatchEvent]) -> Iterator[bytes]:
    """Frames in pieces of about CHUNK_BYTES."""
    piece: list[bytes] = []
    size = 0
    for event in events:
        frame = encoder.frame(event)
        if piece and size + len(frame) > CHUNK_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(frame)
        size += len(frame)
    if piece:
        yield b"".join(piece)


class Reader(Protocol):
    """The far end of a watch: an HTTP body in chunks."""

    @property
    def keeps_up(self) -> bool:
        """Whether more may be written without waiting."""
        ...

    def take(self, data: bytes) -> None:
        """Write without waiting."""
        ...


class Seat:
    """A watch: up to which version it was told, and when (of the loop's clock) for the last time.

    `free` is set when only its own task can go on.
    """

    __slots__ = ("free", "position", "request", "told")

    def __init__(self, request: ApiRequest, position: int, told: float) -> None:
        self.request = request
        self.position = position
        self.told = told
        self.free = asyncio.Event()


class Fanout:
    """Stretches up to the newest version asked for; watches that keep step share them.

    Those that sit here are told by one loop: waking a task for each costs more than the writing.
    """

    def __init__(self, world: World, encoder: Encoder) -> None:
        self.seats: dict[Seat, Reader] = {}
        self._world = world
        self._encoder = encoder
        self._until = 0
        self._known: dict[_Key, Stretch] = {}

    def after(self, request: ApiRequest, position: int, until: int) -> Stretch:
        """What a watch at `position` sees up to version `until`. Raises WatchExpired."""
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
            found = Stretch(*self._world.watch(request, position, until=until))
            self._known[key] = found
        return found

    async def sit(self, seat: Seat, reader: Reader) -> None:
        """Have `seat` told by `tell` until it is freed."""
        self.seats[seat] = reader
        try:
            await seat.free.wait()
        finally:
            seat.free.clear()
            self.seats.pop(seat, None)

    async def tell(self, version: int) -> None:
        """Write everything up to `version`, which is durable, to those that sit.

        Who does not take it all, needs more than one write or a past that is forgotten is freed.
        """
        now = asyncio.get_running_loop().time()
        for number, (seat, reader) in enumerate(tuple(self.seats.items()), start=1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            if seat in self.seats and seat.position < version:
                self._tell(seat, reader, version, now)

    def _tell(self, seat: Seat, reader: Reader, version: int, now: float) -> None:
        try:
            stretch = self.after(seat.request, seat.position, version)
        except ApiError:
            seat.free.set()  # its task meets the same error, and tells it
            return
        data = stretch.whole(self._encoder)
        if data is None:
            seat.free.set()
            return
        seat.position = stretch.end
        if data:
            reader.take(data)
            seat.told = now
            if not reader.keeps_up:
                seat.free.set()

    def free_all(self) -> None:
        """Leave every watch to its own task."""
        for seat in self.seats:
            seat.free.set()
