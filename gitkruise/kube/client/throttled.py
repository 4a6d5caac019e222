"""A transport of which many share one, so that those who do not share it are not kept waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent


class QueuedTransport:
    """Implements kube.transport.Transport over another: at most `at_once` sends are handed on.

    The others wait here, in order. A thousand units that all have something to send would fill
    the queue of the transport itself, and a lease that is to be renewed would wait behind them.
    """

    def __init__(self, inner: Transport, *, at_once: int) -> None:
        self._inner = inner
        self._turns = asyncio.Semaphore(at_once)

    async def send(self, request: ApiRequest) -> ApiReply:
        async with self._turns:
            return await self._inner.send(request)

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()
