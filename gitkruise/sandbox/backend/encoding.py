"""Objects as bytes; each version of an object is encoded once."""

from __future__ import annotations

from typing import Final

from gitkruise.kube.client.codec import encode
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import WatchEvent

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024


class Encoder:
    """Cache of encoded objects; stored objects never change in place.

    Replies, watch frames and the journal share one encoding, even where a list shows an object
    without its type in a dict of its own. The cache is cleared at its bound.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._known: dict[tuple[int, str], tuple[Obj, bytes]] = {}
        self._size = 0
        self._bytes_max = bytes_max

    def object(self, obj: Obj) -> bytes:
        """Encode `obj` as JSON."""
        meta = obj.get("metadata")
        if not isinstance(meta, dict) or "uid" not in meta:
            return encode(obj)  # a Status, a table, a review: created for one reply
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
        """Encode a reply; a list is joined from the bytes of its items."""
        items = obj.get("items")
        if not isinstance(items, list) or not items:
            return self.object(obj)
        head = encode({key: value for key, value in obj.items() if key != "items"})
        return head[:-1] + b',"items":[' + b",".join(map(self.object, items)) + b"]}"

    def frame(self, event: WatchEvent) -> bytes:
        """Encode one line of a watch."""
        return b'{"type":"%s","object":%s}\n' % (event.type.encode(), self.object(event.object))


def _same(one: Obj, other: Obj) -> bool:
    """Return whether both dicts hold the same values."""
    return one is other or (
        len(one) == len(other) and all(one.get(key) is value for key, value in other.items())
    )
