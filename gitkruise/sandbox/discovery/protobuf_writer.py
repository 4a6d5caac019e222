"""Protocol-buffer wire format, the little of it that OpenAPI v2 needs: varints and lengths."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2


def varint(value: int) -> bytes:
    """An unsigned base-128 number."""
    if value < 0:
        raise ValueError(f"{value} has no unsigned form")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def message(field: int, content: bytes) -> bytes:
    """An embedded message (also bytes): present even when empty."""
    return _key(field, _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A string field; nothing for "" (proto3's default)."""
    return message(field, value.encode()) if value else b""


def texts(field: int, values: Iterable[str]) -> bytes:
    """A repeated string field."""
    return b"".join(message(field, value.encode()) for value in values)


def integer(field: int, value: int) -> bytes:
    """A non-negative int64 field; nothing for 0."""
    return _key(field, _VARINT) + varint(value) if value else b""


def boolean(field: int, value: object) -> bytes:
    """A bool field; nothing for false."""
    return _key(field, _VARINT) + b"\1" if value else b""


def double(field: int, value: float) -> bytes:
    """A double field; nothing for 0."""
    return _key(field, _FIXED64) + struct.pack("<d", value) if value else b""
