"""Objects as bytes: each object version is encoded once, whoever asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gitkruise.kube.codec import encode
from gitkruise.wire.names import Obj
from gitkruise.wire.request import WatchEvent

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024


class Encoder:
    """Remembers the bytes of the objects it saw, by identity: objects never change in place.

    Replies, watch frames and the journal share one encoding. Forgets everything at its bound.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._known: dict[int, tuple[Obj, bytes]] = {}
        self._size = 0
        self._bytes_max = bytes_max

    def object(self, obj: Obj) -> bytes:
        """`obj` as JSON."""
        known = self._known.get(id(obj))
        if known is not None:
            return known[1]
        data = encode(obj)
        if self._size + len(data) > self._bytes_max:
            self._known.clear()
            self._size = 0
        self._known[id(obj)] = (obj, data)  # the object is kept, so its id stays its own
        self._size += len(data)
        return data

    def body(self, obj: Obj) -> bytes:
        """A reply: a list is put together from its items' bytes, anything else encoded."""
        items = obj.get("items")
        if not isinstance(items, list) or not items:
            return self.object(obj) if _is_stored(obj) else encode(obj)
        head = encode({key: value for key, value in obj.items() if key != "items"})
        return head[:-1] + b',"items":[' + b",".join(self._each(items)) + b"]}"

    def frame(self, event: WatchEvent) -> bytes:
        """One line of a watch."""
        obj = event.object
        data = self.object(obj) if _is_stored(obj) else encode(obj)
        return b'{"type":"%s","object":%s}\n' % (event.type.encode(), data)

    def _each(self, items: Iterable[Any]) -> Iterable[bytes]:
        return (self.object(item) if _is_stored(item) else encode(item) for item in items)


def _is_stored(obj: Obj) -> bool:
    """Only stored objects are remembered: Status, tables and reviews are made for one reply."""
    meta = obj.get("metadata")
    return isinstance(meta, Mapping) and "uid" in meta
