"""Messages of one unit over time: what a chat heard last is how the unit is."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from gitkruise.gitops.notify.channel import Channel
from gitkruise.gitops.notify.notifier import Notifier, WebhookTarget
from gitkruise.gitops.notify.outbox import NotificationOutbox
from gitkruise.gitops.notify.sender import Sender
from gitkruise.model.gitops.config import Notify, Reference
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.messages import AGAIN_AFTER
from gitkruise.sandbox.controllers import alongside
from tests.clock import ManualClock
from tests.gitops.notify.harness import Chat
from tests.gitops.notify.test_commit_statuses import record
from tests.gitops.stage import Inline
from tests.worlds import START


def test_a_state_that_a_unit_stays_in_is_reported_after_the_pause_of_its_flapping(
    tmp_path: Path,
) -> None:
    clock, chat = ManualClock(START), Chat()
    outbox = NotificationOutbox(tmp_path / "outbox.sqlite")
    sender = Sender(
        outbox, "chat", WebhookTarget(chat, "https://chat.example", "", clock).send, clock
    )
    rule = Notify(type="webhook", secret_ref=Reference(name="chat"), severity="info")
    notifier = Notifier(Channel(outbox, "chat", sender.wake), rule, frozenset({"shop/web"}), clock)

    def states() -> list[Any]:
        return [json.loads(body)["state"] for body in chat.received]

    async def script() -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        async with alongside(sender.run(), notifier.run()):
            for state in (State.STUCK, State.ROLLING, State.STUCK):
                notifier.offer(record("shop/web", state))
                await clock.sleep(10)
            assert states() == ["Stuck", "Rolling"]
            await clock.sleep(AGAIN_AFTER.total_seconds())
            assert states() == ["Stuck", "Rolling", "Stuck"]
            await clock.sleep(timedelta(hours=1).total_seconds())
            assert len(states()) == 3

    clock.run(script())
    outbox.close()


def test_a_clock_that_is_set_back_delays_no_message(tmp_path: Path) -> None:
    clock, chat = ManualClock(START), Chat()
    outbox = NotificationOutbox(tmp_path / "outbox.sqlite")
    sender = Sender(
        outbox, "chat", WebhookTarget(chat, "https://chat.example", "", clock).send, clock
    )
    rule = Notify(type="webhook", secret_ref=Reference(name="chat"), severity="info")
    notifier = Notifier(Channel(outbox, "chat", sender.wake), rule, frozenset({"shop/web"}), clock)

    async def script() -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        async with alongside(sender.run(), notifier.run()):
            for state in (State.STUCK, State.ROLLING):
                notifier.offer(record("shop/web", state))
                await clock.sleep(10)
            clock.step(-3600)
            notifier.offer(record("shop/web", State.STUCK))
            await clock.sleep(10)
            assert [json.loads(body)["state"] for body in chat.received] == [
                "Stuck", "Rolling", "Stuck",
            ]  # fmt: skip

    clock.run(script())
    outbox.close()
