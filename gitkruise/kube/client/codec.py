"""JSON of the Kubernetes API to and from raw objects; revision data keeps its exact bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gitkruise.errors import api_error
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.json_text import decode_problem
from gitkruise.wire.primitives.requests import WatchEvent

EVENT_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})


class _Revision(msgspec.Struct, gc=False):
    data: msgspec.Raw = msgspec.Raw(b"")


class _Revisions(msgspec.Struct, gc=False):
    items: list[_Revision] = []


class _Event(msgspec.Struct, gc=False):
    object: _Revision


def _as_json(value: Any) -> Any:
    if isinstance(value, RawJSON):
        # A raw newline is never inside a JSON string; without them a watch event stays one line.
        text = bytes(value)
        return msgspec.Raw(text if text.find(b"\n") < 0 else msgspec.json.format(text, indent=-1))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_as_json)
_ANY: Final = msgspec.json.Decoder()
_REVISION: Final = msgspec.json.Decoder(_Revision)
_REVISIONS: Final = msgspec.json.Decoder(_Revisions)
_EVENT: Final = msgspec.json.Decoder(_Event)


def encode(value: Any) -> bytes:
    """Compact JSON. Keys keep their order; RawJSON is written as it is. Raises TypeError."""
    return _ENCODER.encode(value)


def decode(data: bytes) -> Any:
    """The value of a JSON text, with `data` of ControllerRevisions (alone, in lists, in watch
    events) as RawJSON. Raises ValueError on anything that is not JSON or nests too deeply."""
    try:
        value = _ANY.decode(data)
        if b"ControllerRevision" in data and isinstance(value, dict):
            _restore(value, data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {decode_problem(error)}") from error
    return value


def decode_event(line: bytes) -> WatchEvent:
    """One line of a watch. Raises ValueError on a cut line, InternalError on an unknown shape."""
    value = decode(line)
    if isinstance(value, dict) and value.get("type") in EVENT_TYPES:
        return WatchEvent(type=value["type"], object=value.get("object") or {})
    raise api_error({"message": "a watch sent something that is no watch event"}, 500)


def _restore(value: dict[str, Any], data: bytes) -> None:
    """Put the bytes of revision data back where the plain decoding has values."""
    kind, items, inner = value.get("kind"), value.get("items"), value.get("object")
    if kind == "ControllerRevision":
        _keep(value, _REVISION.decode(data))
    elif isinstance(items, list) and kind in {"ControllerRevisionList", "List"}:
        for item, raw in zip(items, _REVISIONS.decode(data).items, strict=True):
            if kind == "ControllerRevisionList" or item.get("kind") == "ControllerRevision":
                _keep(item, raw)
    elif isinstance(inner, dict) and inner.get("kind") == "ControllerRevision":
        _keep(inner, _EVENT.decode(data).object)


def _keep(obj: dict[str, Any], raw: _Revision) -> None:
    if obj.get("data") is not None:
        obj["data"] = RawJSON(bytes(raw.data))


def readable(text: str) -> str:
    """A message without control characters and other marks that move a terminal's cursor.

    Messages quote what clients send; kube-apiserver prints such text with Go's %q. Lines stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def readable_status(value: Any) -> Any:
    """A Status with every text readable."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, list):
        return [readable_status(item) for item in value]
    return {k: readable_status(v) for k, v in value.items()} if isinstance(value, dict) else value
