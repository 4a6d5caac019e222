"""A transport that tells how every request went."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from gitkruise.errors import ApiError
from gitkruise.kube.transport import Transport
from gitkruise.wire.request import ApiReply, ApiRequest, WatchEvent

Answered = Callable[[ApiRequest, int], None]


class Counted:
    """Implements kube.transport.Transport over another: `answered` hears each request's HTTP
    status; of watches only those that failed, for one that goes on has no end to be told at."""

    def __init__(self, inner: Transport, answered: Answered) -> None:
        self._inner, self._answered = inner, answered

    async def send(self, request: ApiRequest) -> ApiReply:
        try:
            reply = await self._inner.send(request)
        except ApiError as error:
            self._answered(request, error.status)
            raise
        self._answered(request, reply.status)
        return reply

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        try:
            async with aclosing(self._inner.watch(request)) as events:
                async for event in events:
                    yield event
        except ApiError as error:
            self._answered(request, error.status)
            raise

    async def close(self) -> None:
        await self._inner.close()
