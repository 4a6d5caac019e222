"""The comment of several clusters or shards, which write it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from gitkruise.gitops.forges.http import JsonReply
from gitkruise.gitops.notify.channel import deliver
from gitkruise.gitops.notify.outbox import NotificationOutbox, OutboxEntry
from gitkruise.gitops.notify.sender import Sender
from gitkruise.model.gitops.notifications import CommentItem
from gitkruise.planner.notify.comment import sections
from gitkruise.sandbox.controllers import alongside
from tests.clock import ManualClock
from tests.gitops.forges.forges import ModelForge, client
from tests.gitops.stage import Inline
from tests.worlds import START

CLUSTERS: Final = ("prod-eu", "prod-us", "staging")


class Distant:
    """A forge whose answers take a while."""

    def __init__(self, model: ModelForge, clock: ManualClock) -> None:
        self._model, self._clock = model, clock
        self.edits = 0

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> JsonReply:
        self.edits += method == "PATCH"
        await self._clock.sleep(0.1)
        answer = await self._model.exchange(method, url, headers, body)
        await self._clock.sleep(0.1)
        return answer


def test_no_section_is_lost_when_all_are_written_at_the_same_time(tmp_path: Path) -> None:
    clock, model = ManualClock(START), ModelForge("github")
    carrier = Distant(model, clock)
    outbox = NotificationOutbox(tmp_path / "outbox.sqlite")
    forges = {name: client(model, clock, carrier=carrier) for name in CLUSTERS}
    senders = {
        name: Sender(outbox, name, partial(deliver, forge), clock) for name, forge in forges.items()
    }

    async def write(text: str) -> None:
        for name, sender in senders.items():
            item = CommentItem(1, name, f"{text} on {name}")
            outbox.put(name, [OutboxEntry("comment/1", item, clock.now())])
            sender.wake()

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        for name, forge in forges.items():
            await deliver(forge, CommentItem(1, name, f"open on {name}"))
        async with alongside(*(sender.run() for sender in senders.values())):
            await write("planned")
            await clock.sleep(120)
            carrier.edits = 0
            await write("done")
            await clock.sleep(120)

    try:
        clock.run(main())
    finally:
        outbox.close()
    ((body,),) = [[note["body"] for note in notes] for notes in model.comments.values()]
    assert sections(body) == {name: f"done on {name}" for name in CLUSTERS}
    assert carrier.edits <= 2 * len(CLUSTERS)
