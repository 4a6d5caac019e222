"""Messages that arrive: signed as our own Receiver checks them, and again after a refusal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

from aiohttp import web

from gitkruise.gitops.forges.http import HttpForgeTransport
from gitkruise.gitops.forges.webhook_payloads import authentic, delivery_of
from gitkruise.gitops.notify.channel import Channel
from gitkruise.gitops.notify.notifier import Notifier, WebhookTarget
from gitkruise.gitops.notify.outbox import NotificationOutbox
from gitkruise.gitops.notify.sender import Sender
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import Notify, Reference
from gitkruise.model.gitops.unit_state import State
from gitkruise.sandbox.controllers import alongside
from tests.gitops.notify.test_commit_statuses import TWO, record
from tests.worlds import START

KEY: Final = "a key that both of us know"


def test_a_message_is_signed_named_and_sent_until_it_arrives(tmp_path: Path) -> None:
    received: list[tuple[bool, str, bytes]] = []
    answers = iter([500, 200, 200])
    done = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        good = authentic("generic-hmac", (KEY,), request.headers, body, START)
        received.append((good, delivery_of("generic-hmac", request.headers), body))
        if len(received) == 3:
            done.set()
        return web.Response(status=next(answers), text="ok")

    async def main() -> None:
        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        carrier, clock = HttpForgeTransport(), SystemClock(speed=20)
        outbox = NotificationOutbox(tmp_path / "outbox.sqlite")
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        sender = Sender(outbox, "bus", WebhookTarget(carrier, address, KEY, clock).send, clock)
        rule = Notify(type="webhook", secret_ref=Reference(name="bus"), severity="info")
        channel = Channel(outbox, "bus", sender.wake)
        notifier = Notifier(channel, rule, frozenset({"shop/web"}), clock)
        async with asyncio.timeout(60), alongside(sender.run(), notifier.run()):
            notifier.offer(record("shop/web", State.HELD))
            notifier.offer(record("mesh/other", State.HELD))
            notifier.offer(record("shop/web", State.STUCK, TWO))
            await done.wait()
        outbox.close()
        await carrier.close()
        await runner.cleanup()

    asyncio.run(main())
    assert [good for good, _, _ in received] == [True] * 3
    assert len({delivery for _, delivery, _ in received}) == 2  # the first came twice, by one name
    states = {json.loads(body)["state"] for _, _, body in received}
    assert states == {"Held", "Stuck"}
