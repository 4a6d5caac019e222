"""A transport that reports the outcome of every request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from gitkruise.errors import ApiError
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent

Answered = Callable[[ApiRequest, int], None]


class Counted:
    """Implements kube.transport.Transport over another: `answered` gets each request's HTTP status.

    Of watches it gets only those that failed: a watch that goes on has no end to report.
    """

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
