"""Kubernetes' protobuf encoding of built-in kinds, read into plain objects.

kubectl sends it from 1.32 on. The envelope is runtime.Unknown behind the bytes `k8s\\0`; field
numbers come from schemas/protobuf.json. What Go's JSON would leave out (empty strings, zeros that
are no pointers) is left out here too.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

from gitkruise.kube.client.codec import decode
from gitkruise.kube.system.package_data import read_json
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.names import split_api_version
from gitkruise.wire.primitives.times import format_micro_time, format_time

MAGIC: Final = b"k8s\0"
DEPTH_MAX: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_META_KINDS: Final = frozenset({"DeleteOptions", "PatchOptions", "UpdateOptions", "CreateOptions"})
_SUBGROUP: Final = ".authorization"  # rbac.authorization.k8s.io, the only group with two names
_ALONE: Final = "|"
_WHOLE_MAX: Final = 1e21  # from here on Go's JSON writes an exponent
Raw: TypeAlias = int | bytes


class ProtobufField(NamedTuple):
    name: str
    type: str
    marks: str


def read(data: bytes) -> dict[str, Any]:
    """The object of a request body. Raises ValueError on anything cut, unknown or too deep."""
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin with the protobuf prefix of Kubernetes")
    envelope = dict(_fields(data[len(MAGIC) :]))
    types = dict(_fields(_bytes(envelope.get(1, b""))))
    api_version, kind = (_bytes(types.get(n, b"")).decode() for n in (1, 2))
    group, version = split_api_version(api_version)
    package = f"{(group.removesuffix('.k8s.io') or 'core').removesuffix(_SUBGROUP)}/{version}"
    name = f"meta/v1.{kind}" if kind in _META_KINDS else f"{package}.{kind}"
    if name not in _table():
        raise ValueError(f"kind {kind!r} of {api_version!r} has no protobuf form here")
    body = _message(_bytes(envelope.get(2, b"")), name, DEPTH_MAX)
    return {"apiVersion": api_version, "kind": kind, **body}


@cache
def _table() -> Mapping[str, Mapping[int, ProtobufField]]:
    raw = read_json("protobuf.json")
    return {
        name: {number: ProtobufField(*rest) for number, *rest in rows} for name, rows in raw.items()
    }


def _fields(data: bytes) -> Iterator[tuple[int, Raw]]:
    """(number, value) of every field: varints and fixed numbers as int, the rest as bytes."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == 2:
            size, position = _varint(data, position)
        elif wire_type in {1, 5}:
            size = 8 if wire_type == 1 else 4
        else:
            raise ValueError(f"wire type {wire_type} is not used by Kubernetes")
        if position + size > end:
            raise ValueError("it is cut off")
        piece = data[position : position + size]
        position += size
        yield number, piece if wire_type == 2 else int.from_bytes(piece, "little")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("it is cut off")


def _bytes(value: Raw) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field has the wrong wire type")  # noqa: TRY004  bad input, not a bug
    return value


def _message(data: bytes, name: str, depth: int) -> Any:
    if depth == 0:
        raise ValueError("it nests too deeply")
    known = _table()[name]
    out: dict[str, Any] = {}
    for number, raw in _fields(data):
        field = known.get(number)
        if field is None:
            continue  # a field newer than the table, as an older server does
        _store(out, field, raw, depth)
    alone = any(_ALONE in field.marks for field in known.values())
    return _alternative(known.values(), out) if alone else out


def _alternative(fields: Iterable[ProtobufField], out: Mapping[str, Any]) -> Any:
    """The one field that is the message's JSON: a list before an object before a bool, as in Go."""
    ranked = sorted(fields, key=lambda field: ("[]" not in field.marks, "*" not in field.marks))
    for field in ranked:
        if field.name in out:
            return out[field.name]
    return False if ranked[-1].type == "bool" else None


def _store(out: dict[str, Any], field: ProtobufField, raw: Raw, depth: int) -> None:
    if field.type.startswith("map:"):
        key, value = _entry(_bytes(raw), field.type.removeprefix("map:"), depth)
        out.setdefault(field.name, {})[key] = value
        return
    value = _value(raw, field.type, depth)
    if "+" in field.marks:
        out.update(value)
    elif "[]" in field.marks:
        out.setdefault(field.name, []).append(value)
    elif value is not None and ("*" in field.marks or value not in ("", 0, False)):
        out[field.name] = value


def _entry(data: bytes, of: str, depth: int) -> tuple[str, Any]:
    parts = dict(_fields(data))
    empty: Raw = 0 if of in {"int", "bool"} else b""
    return _bytes(parts.get(1, b"")).decode(), _value(parts.get(2, empty), of, depth)


def _value(raw: Raw, of: str, depth: int) -> Any:
    scalar = _SCALARS.get(of)
    if scalar is not None:
        return scalar(raw)
    return _message(_bytes(raw), of, depth - 1)


def _int(raw: Raw) -> int:
    if isinstance(raw, bytes):
        raise ValueError("a field has the wrong wire type")  # noqa: TRY004  bad input, not a bug
    return raw - (1 << 64) if raw >> 63 else raw


def _double(raw: Raw) -> float:
    """A number; a whole one as Go's JSON writes it, without a fraction."""
    bits = _int(raw) & 0xFFFF_FFFF_FFFF_FFFF
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    if not isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return int(value) if value.is_integer() and abs(value) < _WHOLE_MAX else value


def _time(raw: Raw) -> str | None:
    instant = _instant(raw)
    return format_time(instant) if instant else None


def _micro_time(raw: Raw) -> str | None:
    instant = _instant(raw)
    return format_micro_time(instant) if instant else None


def _instant(raw: Raw) -> datetime | None:
    """None for the zero time, which Go writes as null."""
    parts = {number: _int(value) for number, value in _fields(_bytes(raw))}
    seconds = parts.get(1, 0)
    if not parts or not 0 <= seconds < 253_402_300_800:
        return None
    return _EPOCH + timedelta(seconds=seconds, microseconds=parts.get(2, 0) // 1000)


def _quantity(raw: Raw) -> str:
    return _bytes(dict(_fields(_bytes(raw))).get(1, b"")).decode()


def _int_or_string(raw: Raw) -> int | str:
    parts = dict(_fields(_bytes(raw)))
    if _int(parts.get(1, 0)) == 1:
        return _bytes(parts.get(3, b"")).decode()
    return _int(parts.get(2, 0))


def _raw_json(raw: Raw) -> Any:
    """RawExtension and FieldsV1 hold JSON text."""
    text = _bytes(dict(_fields(_bytes(raw))).get(1, b""))
    if not text:
        return None
    decode(text)  # ValueError on what is no JSON
    return RawJSON(text)


_SCALARS: Final[Mapping[str, Callable[[Raw], Any]]] = {
    "string": lambda raw: _bytes(raw).decode(),
    "bytes": lambda raw: b64encode(_bytes(raw)).decode(),
    "int": _int,
    "bool": lambda raw: bool(_int(raw)),
    "double": _double,
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "raw": _raw_json,
    "items": lambda raw: [_bytes(item).decode() for _, item in _fields(_bytes(raw))],
}
