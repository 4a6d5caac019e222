"""Bytes of an API server's answers: size limits, lines of a watch, bodies, warnings, refusals."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import msgspec
from multidict import CIMultiDictProxy

from gitkruise.errors import ApiError, Forbidden, InternalError, TooLarge, Unauthorized, api_error
from gitkruise.kube.client.codec import EVENT_TYPES, decode, decode_event
from gitkruise.kube.client.rawobject import RawObject
from gitkruise.printable import visible
from gitkruise.wire.primitives.names import Obj, join_api_version
from gitkruise.wire.primitives.requests import PODS, ApiRequest, WatchEvent

EVENT_BYTES_MAX: Final = 16 * 2**20
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class _Envelope(msgspec.Struct, gc=False):
    """A list whose items stay bytes."""

    kind: str = ""
    metadata: dict[str, Any] | None = None
    items: list[msgspec.Raw] | None = None


class _EventEnvelope(msgspec.Struct, gc=False):
    """A watch event whose object stays bytes."""

    type: str
    object: msgspec.Raw


_LIST: Final = msgspec.json.Decoder(_Envelope)
_EVENT: Final = msgspec.json.Decoder(_EventEnvelope)


async def whole(content: aiohttp.StreamReader, size_max: int) -> bytes:
    """All bytes of a body. Raises TooLarge above `size_max`."""
    parts, size = [], 0
    async for part in content.iter_any():
        size += len(part)
        if size > size_max:
            raise TooLarge(f"the server's answer is larger than {size_max} bytes")
        parts.append(part)
    return b"".join(parts)


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Complete lines without their newline; a cut last line is dropped (it comes again)."""
    rest: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        *full, tail = part.split(b"\n")
        for line in full:
            text = b"".join([*rest, line])
            rest, size = [], 0
            if text.strip():
                yield text
        if tail:
            rest.append(tail)
            size += len(tail)
        if size > EVENT_BYTES_MAX:
            raise InternalError(f"a watch event is larger than {EVENT_BYTES_MAX} bytes")


def body(data: bytes, request: ApiRequest) -> Obj:
    """The decoded answer; pods, alone or in lists, stay bytes. Raises ValueError."""
    if request.resource != PODS or request.subresource not in {"", "status"}:
        value = decode(data) if data else {}
        if not isinstance(value, dict):
            raise ValueError("the answer is no object")
        return value
    if request.verb == "list":
        try:
            envelope = _LIST.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error
        items = [_lazy(bytes(item), request) for item in envelope.items or ()]
        return {"kind": envelope.kind, "metadata": envelope.metadata or {}, "items": items}
    value = decode(data)
    return value if value.get("kind") != "Pod" else _lazy(data, request)


def event(line: bytes, request: ApiRequest) -> WatchEvent:
    """One watch event. Raises InternalError on bytes that are none: the stream is out of step."""
    try:
        if request.resource == PODS:
            envelope = _EVENT.decode(line)
            if envelope.type in EVENT_TYPES - {"ERROR", "BOOKMARK"}:
                return WatchEvent(type=envelope.type, object=_lazy(bytes(envelope.object), request))
        return decode_event(line)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InternalError(f"the watch of {request.path} sent no JSON: {error}") from error


def warnings(headers: CIMultiDictProxy[str]) -> tuple[str, ...]:
    """Texts of the Warning headers (code 299) that API servers send along."""
    found = [text for value in headers.getall("Warning", ()) for text in _WARNING.findall(value)]
    return tuple(_ESCAPED.sub(r"\1", text) for text in found)


def refusal(status: int, headers: CIMultiDictProxy[str], data: bytes) -> ApiError:
    """The error of a non-2xx answer, whatever its body; Retry-After fills in for the body."""
    try:
        raw = decode(data)
    except ValueError:
        raw = None
    if not isinstance(raw, dict) or raw.get("kind") != "Status":
        text = data[:300].decode("utf-8", "replace").strip()
        raw = {"message": f"the server answered {status}: {text}" if text else None}
    after = headers.get("Retry-After", "")
    details = raw.get("details") or {}
    if after.isdecimal() and not details.get("retryAfterSeconds"):
        raw = {**raw, "details": {**details, "retryAfterSeconds": int(after)}}
    if 300 <= status < 400:
        place = visible(headers.get("Location", "").partition("?")[0])  # a query may hold a secret
        to = f" to {place}" if place else ""
        return InternalError(f"the server redirects ({status}){to}; redirects are not followed")
    if status == Unauthorized.status and str(raw.get("message")).startswith("admission webhook "):
        status = Forbidden.status  # a webhook chooses the code of its denial
    return api_error(raw, status)


def _lazy(data: bytes, request: ApiRequest) -> RawObject:
    ref = request.resource
    return RawObject(data, api_version=join_api_version(ref.group, ref.version), kind="Pod")
