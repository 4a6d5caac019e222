"""A shared transport: limited concurrency, in order, without delay for other transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from gitkruise.kube.client.wrappers import QueuedTransport
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent
from tests.clock import ManualClock
from tests.kube.toy import CONFIG_MAPS


class Slow:
    """A transport that takes a second for each send."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.running, self.most = 0, 0
        self.order: list[str] = []

    async def send(self, request: ApiRequest) -> ApiReply:
        self.running += 1
        self.most = max(self.most, self.running)
        self.order.append(request.name)
        await self._clock.sleep(1)
        self.running -= 1
        return ApiReply(status=200, body={})

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        yield WatchEvent(type="BOOKMARK", object={})

    async def close(self) -> None:
        self.order.append("closed")


def _get(name: str) -> ApiRequest:
    return ApiRequest(verb="get", resource=CONFIG_MAPS, namespace="shop", name=name)


def test_sends_wait_in_order_and_others_do_not() -> None:
    clock = ManualClock()
    slow = Slow(clock)
    queued = QueuedTransport(slow, at_once=2)

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(5):
                tasks.create_task(queued.send(_get(str(number))))
            await clock.sleep(0.5)
            assert [event.type async for event in queued.watch(_get(""))] == ["BOOKMARK"]
            tasks.create_task(slow.send(_get("lease")))
        await queued.close()

    clock.run(main())
    assert slow.order == ["0", "1", "lease", "2", "3", "4", "closed"]
    assert slow.most == 3
    assert clock.monotonic() == 3.0
