"""Objects in Kubernetes' protobuf, as a typed Go client sends them; the decoder's counterpart."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gitkruise.kube.system.package_data import read_json
from gitkruise.sandbox.discovery.openapi_v2 import double, message, text, varint
from gitkruise.sandbox.http.protobuf_decoder import MAGIC
from gitkruise.wire.primitives.names import split_api_version
from gitkruise.wire.primitives.times import parse_time

TABLE: Final[Mapping[str, list[list[Any]]]] = read_json("protobuf.json")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def encoded(obj: Mapping[str, Any]) -> bytes:
    """The body of a request that carries `obj`."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    raw = _message(obj, package_of(api_version) + "." + kind)
    return MAGIC + message(1, text(1, api_version) + text(2, kind)) + message(2, raw)


def package_of(api_version: str) -> str:
    """The folder and version of the Go package of an API version."""
    group, version = split_api_version(api_version)
    return f"{group.partition('.')[0] or 'core'}/{version}"


def _message(value: Any, name: str) -> bytes:
    rows = TABLE[name]
    if any("|" in row[3] for row in rows):
        return _alternative(value, rows)
    return b"".join(_field(value, row) for row in rows)


def _alternative(value: Any, rows: list[list[Any]]) -> bytes:
    for number, _, of, marks in rows:
        if isinstance(value, list) and "[]" in marks:
            return b"".join(_one(number, item, of) for item in value)
        if isinstance(value, bool) and of == "bool":
            return _one(number, value, of)
        if isinstance(value, Mapping) and "*" in marks:
            allowed = b"".join(_one(r[0], 1, "bool") for r in rows if r[2] == "bool")
            return allowed + _one(number, value, of)
    raise AssertionError(f"{value!r} fits none of {rows}")


def _field(parent: Any, row: list[Any]) -> bytes:
    number, name, of, marks = row
    value = parent if "+" in marks else parent.get(name)
    if value is None:
        return b""
    if of.startswith("map:"):
        return b"".join(_pair(number, key, item, of[4:]) for key, item in value.items())
    if "[]" in marks:
        return b"".join(_one(number, item, of) for item in value)
    return _one(number, value, of)


def _pair(number: int, key: str, value: Any, of: str) -> bytes:
    return message(number, text(1, key) + _one(2, value, of))


def _one(number: int, value: Any, of: str) -> bytes:
    if of in {"int", "bool"}:
        return varint(number << 3) + varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF)
    if of == "double":
        return double(number, float(value)) or varint(number << 3 | 1) + bytes(8)
    return message(number, b"".join(_content(value, of)))


def _content(value: Any, of: str) -> Iterator[bytes]:
    match of:
        case "string":
            yield value.encode()
        case "bytes":
            yield b64decode(value)
        case "quantity":
            yield text(1, str(value))
        case "time" | "microtime":
            instant = parse_time(value)
            assert instant is not None
            since = instant - EPOCH
            yield varint(1 << 3) + varint(since.days * 86400 + since.seconds)
            yield varint(2 << 3) + varint(since.microseconds * 1000)
        case "intstr" if isinstance(value, str):
            yield varint(1 << 3) + varint(1) + text(3, value)
        case "intstr":
            yield varint(2 << 3) + varint(value)
        case "raw":
            yield message(1, json.dumps(value).encode())
        case "items":
            yield b"".join(message(1, item.encode()) for item in value)
        case _:
            yield _message(value, of)
