"""Objects as bytes: each object version is encoded once, whoever asks for it."""

from __future__ import annotations

from typing import Final

from gitkruise.kube.codec import encode
from gitkruise.wire.names import Obj
from gitkruise.wire.request import WatchEvent

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024


class Encoder:
    """Remembers the bytes of the objects it saw: stored objects never change in place.

    Replies, watch frames and the journal share one encoding, even where a list shows an object
    without its type in a dict of its own. Forgets everything at its bound.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._known: dict[tuple[int, str], tuple[Obj, bytes]] = {}
        self._size = 0
        self._bytes_max = bytes_max

    def object(self, obj: Obj) -> bytes:
        """`obj` as JSON."""
        meta = obj.get("metadata")
        if not isinstance(meta, dict) or "uid" not in meta:
            return encode(obj)  # a Status, a table, a review: made for one reply
        key = (id(meta), obj.get("apiVersion", ""))
        known = self._known.get(key)
        if known is not None and _same(known[0], obj):
            return known[1]
        data = encode(obj)
        if self._size + len(data) > self._bytes_max:
            self._known.clear()
            self._size = 0
        self._known[key] = (obj, data)  # the object is kept, so the id of its metadata stays
        self._size += len(data)
        return data

    def body(self, obj: Obj) -> bytes:
        """A reply: a list is put together from its items' bytes, anything else encoded."""
        items = obj.get("items")
        if not isinstance(items, list) or not items:
            return self.object(obj)
        head = encode({key: value for key, value in obj.items() if key != "items"})
        return head[:-1] + b',"items":[' + b",".join(map(self.object, items)) + b"]}"

    def frame(self, event: WatchEvent) -> bytes:
        """One line of a watch."""
        return b'{"type":"%s","object":%s}\n' % (event.type.encode(), self.object(event.object))


def _same(one: Obj, other: Obj) -> bool:
    """The same parts, whichever dict holds them."""
    return one is other or (
        len(one) == len(other) and all(one.get(key) is value for key, value in other.items())
    )
