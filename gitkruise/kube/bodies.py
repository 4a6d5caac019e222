"""Request bodies of our servers: read whole, within a size and a time."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gitkruise.errors import BadRequest, GatewayTimeout, TooLarge


async def read_body(request: web.BaseRequest, *, limit: int, within_s: float | None) -> bytes:
    """The whole body. Raises TooLarge over `limit` bytes, GatewayTimeout when it does not arrive
    within `within_s` seconds (None: the caller minds the time), BadRequest when it breaks off."""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    if not request.body_exists:
        return b""
    pieces: list[bytes] = []
    size = 0
    try:
        if request.content.is_eof():  # it came with the header, as small ones do
            return _within(request.content.read_nowait(), limit)
        async with asyncio.timeout(within_s):
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            while piece := await request.content.readany():
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                pieces.append(piece)
    except TimeoutError:
        raise GatewayTimeout("the request's body did not arrive in time") from None
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise BadRequest("the request's body breaks off") from error
    return b"".join(pieces)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {limit}")
