"""Messages that arrive: signed as our own Receiver checks them, and again after a refusal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

from aiohttp import web

from gitkruise.gitops.forges import authentic, delivery_of
from gitkruise.gitops.telling.box import LetterBox
from gitkruise.gitops.telling.http import HttpCarrier
from gitkruise.gitops.telling.notify import Notifier, Receiver
from gitkruise.gitops.telling.outlet import Outlet
from gitkruise.gitops.telling.postman import Postman
from gitkruise.kube.clock import SystemClock
from gitkruise.model.config import Notify, Reference
from gitkruise.model.states import State
from gitkruise.sandbox.live import alongside
from tests.telling.test_statuses import TWO, record
from tests.worlds import START

KEY: Final = "a key that both of us know"


def test_a_message_is_signed_named_and_sent_until_it_arrives(tmp_path: Path) -> None:
    heard: list[tuple[bool, str, bytes]] = []
    answers = iter([500, 200, 200])
    done = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        good = authentic("generic-hmac", (KEY,), request.headers, body, START)
        heard.append((good, delivery_of("generic-hmac", request.headers), body))
        if len(heard) == 3:
            done.set()
        return web.Response(status=next(answers), text="ok")

    async def main() -> None:
        runner = web.ServerRunner(web.Server(handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        carrier, clock = HttpCarrier(), SystemClock(speed=20)
        box = LetterBox(tmp_path / "letters.sqlite")
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        postman = Postman(box, "bus", Receiver(carrier, address, KEY, clock).send, clock)
        rule = Notify(type="webhook", secret_ref=Reference(name="bus"), severity="info")
        outlet = Outlet(box, "bus", postman.wake)
        notifier = Notifier(outlet, rule, frozenset({"shop/web"}), clock)
        async with asyncio.timeout(60), alongside(postman.run(), notifier.run()):
            notifier.offer(record("shop/web", State.HELD))
            notifier.offer(record("mesh/other", State.HELD))
            notifier.offer(record("shop/web", State.STUCK, TWO))
            await done.wait()
        box.close()
        await carrier.close()
        await runner.cleanup()

    asyncio.run(main())
    assert [good for good, _, _ in heard] == [True] * 3
    assert len({delivery for _, delivery, _ in heard}) == 2  # the first came twice, by one name
    states = {json.loads(body)["state"] for _, _, body in heard}
    assert states == {"Held", "Stuck"}
