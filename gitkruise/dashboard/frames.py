"""Frames that several browsers get: each is encoded once, however many of them there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gitkruise.dashboard.board import Encoded, frame
from gitkruise.dashboard.source import Topic

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
