"""A NodeImage that becomes unreadable while the agent pulls an image for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gitkruise.agent.cri.runtime import Runtime, connected_runtime
from gitkruise.agent.pull import PullAgent, node_image_feed
from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.kube.client.events import Recorder
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.node.node_image import NODE_IMAGE
from tests.agent.cri_server import MemoryRuntime
from tests.agent.scenes import HANG_S, NODE, play, scene
from tests.agent.test_pull import APP, changed, entry, over, reported, tag, tags_of, wanted

V1 = {APP: entry(tag("v1", imagePullPolicy="IfNotPresent"))}


@dataclass(frozen=True)
class SlowRuntime(Runtime):
    """A runtime that lists its images when the test lets it."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def images(self) -> Any:
        self.asked.set()
        await self.answers.wait()
        return await Runtime.images(self)


class EventTexts(Recorder):
    """The texts of the agent's Events, in a queue."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.texts: asyncio.Queue[str] = asyncio.Queue()

    def record(self, subject: Any, event: Any, component: str) -> None:
        self.texts.put_nowait(event.message)


@pytest.mark.slow
def test_the_pull_fails_with_the_reason_and_the_agent_goes_on(tmp_path: Path) -> None:
    async def body() -> None:
        clock, store, news = SystemClock(), InformerCache(), asyncio.Queue[StoreChange]()
        memory = MemoryRuntime(registry={f"{APP}:v1": ""})
        async with (
            scene(tmp_path, memory) as here,
            connected_runtime(here.socket) as runtime,
            clock.timeout(HANG_S),
            asyncio.TaskGroup() as tasks,
        ):
            slow = SlowRuntime(runtime.name, runtime.version, runtime.calls)
            informer = Informer(
                node_image_feed(NODE), here.transport, store, clock, outages=WatchOutages()
            )
            recorder = EventTexts(here.transport, clock)
            agent = PullAgent(NODE, store, here.transport, slow, recorder, clock)
            running = [tasks.create_task(part) for part in (informer.run(), agent.run())]
            await wanted(here, V1)
            await slow.asked.wait()
            store.subscribe(news.put_nowait, frozenset({NODE_IMAGE}))
            await changed(here, {APP: {"tags": "v1"}})
            await news.get()
            slow.answers.set()
            assert "the NodeImage cannot be read: Expected `array`" in await recorder.texts.get()
            await changed(here, {APP: entry(tag("v1", version=1))})
            assert tags_of(await reported(here, over))["v1"]["phase"] == "Succeeded"
            for task in running:
                task.cancel()

    play(body)
