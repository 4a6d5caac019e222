"""Web hooks of a real Gitea: a push reaches the cluster at once, strangers reach nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.forge.fleet import PATIENCE_S, Fleet, Follower, following
from tests.forge.gitea import Gitea
from tests.gitops.stage import MakeStage, Stage, config_map

pytestmark = [pytest.mark.forge, pytest.mark.slow]
Scene = Callable[[Fleet, Follower, Stage], Awaitable[None]]


def play(forge: Gitea, staged: MakeStage, folder: Path, name: str, scene: Scene) -> None:
    """A repository with one commit, followed and live; then `scene`."""

    async def main() -> None:
        stage, fleet = staged(), Fleet(forge, folder, name)
        first = await asyncio.to_thread(fleet.push, config_map("settings", mode="slow"))
        async with asyncio.timeout(PATIENCE_S), following(stage, fleet) as follower:
            await follower.until("Done", first)
            await scene(fleet, follower, stage)

    asyncio.run(main())


def test_a_push_to_gitea_reaches_the_cluster_by_its_hook(
    forge: Gitea, staged: MakeStage, tmp_path: Path
) -> None:
    async def scene(fleet: Fleet, follower: Follower, stage: Stage) -> None:
        await asyncio.to_thread(fleet.hook, follower.running.hooks["shop/forge"])
        second = await asyncio.to_thread(fleet.push, config_map("settings", mode="fast"))
        await follower.until("Done", second)
        assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}

    play(forge, staged, tmp_path, "hooked", scene)


def test_a_test_delivery_of_gitea_makes_us_look(
    forge: Gitea, staged: MakeStage, tmp_path: Path
) -> None:
    async def scene(fleet: Fleet, follower: Follower, _stage: Stage) -> None:
        second = await asyncio.to_thread(fleet.push, config_map("settings", mode="fast"))
        hook = await asyncio.to_thread(fleet.hook, follower.running.hooks["shop/forge"])
        assert follower.record is not None
        assert follower.record.causal is not None
        assert follower.record.causal.id != second  # nobody told us of the push
        await asyncio.to_thread(fleet.test_hook, hook)
        await follower.until("Done", second)

    play(forge, staged, tmp_path, "tested", scene)


def test_a_hook_with_another_key_is_refused_and_counted(
    forge: Gitea, staged: MakeStage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(fleet: Fleet, follower: Follower, stage: Stage) -> None:
        logged = asyncio.Event()
        handler = logging.Handler()
        handler.emit = lambda record: logged.set() if "signature" in record.msg else None  # type: ignore[method-assign]  # a handler for one test
        log = logging.getLogger("gitkruise.gitops.receiver")
        log.addHandler(handler)
        try:
            url = follower.running.hooks["shop/forge"]
            await asyncio.to_thread(fleet.hook, url, key="a key of somebody else")
            await asyncio.to_thread(fleet.push, config_map("settings", mode="fast"))
            await logged.wait()
        finally:
            log.removeHandler(handler)
        assert stage.get("ConfigMap", "settings")["data"] == {"mode": "slow"}

    with caplog.at_level(logging.WARNING):
        play(forge, staged, tmp_path, "stranger", scene)
    assert "event=signature-invalid" in caplog.text
