"""An object kept as the bytes it came in: 5 kB instead of 30, and invisible to the collector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gitkruise.kube.client.codec import decode, encode
from gitkruise.wire.primitives.names import Obj


class RawObject(Mapping[str, Any]):
    """A Mapping over JSON bytes, decoded on each access; `thaw` gives a plain dict once.

    `api_version` and `kind` stand in where the bytes have none (items of typed lists).
    """

    __slots__ = ("api_version", "kind", "raw")

    def __init__(self, raw: bytes, *, api_version: str, kind: str) -> None:
        self.raw, self.api_version, self.kind = raw, api_version, kind

    def thaw(self) -> dict[str, Any]:
        value: dict[str, Any] = decode(self.raw)
        return {"apiVersion": self.api_version, "kind": self.kind, **value}

    def without_managers(self) -> RawObject:
        """The same without metadata.managedFields, a third of a pod that has no reader here."""
        if b'"managedFields"' not in self.raw:
            return self
        try:
            parts = _PARTS.decode(self.raw)
            meta = _PARTS.decode(parts.get("metadata", b"{}"))
        except msgspec.ValidationError:
            return self  # its reader reports the error
        if meta.pop("managedFields", None) is None:
            return self
        raw = encode({**parts, "metadata": meta})
        return RawObject(raw, api_version=self.api_version, kind=self.kind)

    def __getitem__(self, key: str) -> Any:
        return self.thaw()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.thaw())

    def __len__(self) -> int:
        return len(self.thaw())


class RawOwner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of an owner reference that the store needs."""

    uid: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of an object's metadata that the store needs."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    owner_references: tuple[RawOwner, ...] | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_grace_period_seconds: int | None = None


class _Head(msgspec.Struct, gc=False):
    metadata: Meta = Meta()


_HEAD: Final = msgspec.json.Decoder(_Head)
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def thaw(obj: Obj) -> Obj:
    """A plain dict of `obj`, itself if it is one."""
    return obj.thaw() if isinstance(obj, RawObject) else obj


def meta_of(obj: Obj) -> Meta:
    """The metadata of an object in either form."""
    if isinstance(obj, RawObject):
        return _HEAD.decode(obj.raw).metadata
    return msgspec.convert(obj.get("metadata") or {}, Meta)
