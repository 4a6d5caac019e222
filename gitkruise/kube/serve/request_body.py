"""Request bodies of our servers: read whole, within a size and a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gitkruise.errors import BadRequest, GatewayTimeout, StatusDetails, TooLarge, Unavailable

SMALL: Final = 256 * 1024  # bytes; of these many bodies are read side by side
SMALL_WITHIN_S: Final = 5.0
TURN_WITHIN_S: Final = 5.0
LARGE_BYTES_PER_S: Final = 16 * 1024 * 1024  # what a sender of more has to keep up, a second late
GRACE_S: Final = 1.0
RETRY_AFTER_S: Final = 1


class Bodies:
    """Bodies of one server: small ones are read side by side, larger ones one after another.

    Slow senders hold up no other client: a small body needs no turn, and the turn of a large one
    is short. No more than one large body is in memory at a time.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def read(self, request: web.BaseRequest, *, limit: int) -> AsyncIterator[bytes]:
        """The whole body; the turn of a large one lasts as long as the block.

        Raises what read_body raises, and Unavailable when no turn came in time.
        """
        if (request.content_length or 0) > limit:
            raise _too_large(limit)
        pieces: list[bytes] = []
        if await _gather(request, pieces, most=SMALL, limit=limit, within_s=SMALL_WITHIN_S):
            yield b"".join(pieces)
            return
        try:
            async with asyncio.timeout(TURN_WITHIN_S):
                await self._turn.acquire()
        except TimeoutError:
            why = "other large requests are being read"
            raise Unavailable(why, StatusDetails(retry_after_s=RETRY_AFTER_S)) from None
        try:
            within_s = GRACE_S + (request.content_length or limit) / LARGE_BYTES_PER_S
            await _gather(request, pieces, most=limit, limit=limit, within_s=within_s)
            data = b"".join(pieces)
            pieces.clear()
            yield data
        finally:
            self._turn.release()


async def _gather(
    request: web.BaseRequest, pieces: list[bytes], *, most: int, limit: int, within_s: float | None
) -> bool:
    """Read on until there is more than `most`; whether the body is complete."""
    size = sum(map(len, pieces))
    if not request.body_exists:
        return True
    try:
        async with asyncio.timeout(within_s):
            if not pieces and request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            while piece := await request.content.readany():
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                pieces.append(piece)
                if size > most:
                    return False
    except TimeoutError:
        raise GatewayTimeout("the request's body did not arrive in time") from None
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise BadRequest("the request's body breaks off") from error
    return True


async def read_body(request: web.BaseRequest, *, limit: int, within_s: float | None) -> bytes:
    """The whole body. Raises TooLarge over `limit` bytes, GatewayTimeout when it does not arrive
    within `within_s` seconds (None: the caller minds the time), BadRequest when it breaks off."""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    if not request.body_exists:
        return b""
    if request.content.is_eof():  # it came with the header, as small ones do
        return _within(request.content.read_nowait(), limit)
    pieces: list[bytes] = []
    await _gather(request, pieces, most=limit, limit=limit, within_s=within_s)
    return b"".join(pieces)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request entity too large: limit is {limit}")
