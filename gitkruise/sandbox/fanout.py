"""What watches have in common: the events of one stretch of the log are found and encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gitkruise.sandbox.encoding import Encoder
from gitkruise.wire.request import ApiRequest, ResourceRef, WatchEvent
from gitkruise.world.cluster import World

CHUNK_BYTES: Final = 1 << 20  # frames joined into one write are about this many, or one frame
_KNOWN_MAX: Final = 1_000
# resource, namespace, name, labels, fields, position: what decides which events a watch sees
_Key = tuple[ResourceRef, str, str, str, str, int]


class Stretch:
    """Events of a watch, told together; `end` is the position after them."""

    __slots__ = ("_chunks", "end", "events")

    def __init__(self, events: Sequence[WatchEvent], end: int) -> None:
        self.events = events
        self.end = end
        self._chunks: list[bytes] | None = None

    def chunks(self, encoder: Encoder) -> Sequence[bytes]:
        """The frames, in pieces for one write each."""
        if self._chunks is None:
            self._chunks = list(joined(encoder, self.events))
        return self._chunks


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


class Fanout:
    """Stretches up to the newest version asked for; watches that keep step share them."""

    def __init__(self, world: World) -> None:
        self._world = world
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
