"""A rewrite that one process accepted, and the controller that stopped at it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.model.gitops.config import Config
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import Inline, MakeStage, Stage, documents, web

pytestmark = pytest.mark.slow


def push(stage: Stage, image: str) -> str:
    return stage.origin.commit({"web/app.yaml": documents(web(image))}, image)


def rewrite(stage: Stage, to: str) -> None:
    run_git(stage.origin.work, "reset", "--hard", "-q", to)
    run_git(stage.origin.bare, "update-ref", "refs/heads/main", to)


def accepting(config: Config, commit: str) -> Config:
    """Return the configuration as `sync --accept-rewrite` makes it."""
    sources = config.sources.items()
    accepted = {name: msgspec.structs.replace(s, accepted=commit) for name, s in sources}
    return msgspec.structs.replace(config, sources=accepted)


def seen(running: RunningController) -> tuple[str, str]:
    """Return the state of the unit, and its live commit."""
    (reporter,), (one,) = running.reporters.values(), running.units.values()
    return str(reporter.record.state), one.live_commit


def test_a_running_controller_follows_a_rewrite_that_sync_accepted(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    mine = options(stage, tmp_path, SOURCE + unit("web"))

    async def until(running: RunningController, commit: str) -> None:
        for _ in range(60):
            await stage.clock.sleep(5)
            if seen(running)[1] == commit:
                return
        raise AssertionError(f"not at {commit}: {seen(running)}")

    async def sync(theirs: RunOptions, commit: str) -> None:
        async with controller(theirs, stage.wire, stage.clock) as passing:
            await until(passing, commit)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        first = push(stage, "app:v1")
        async with controller(mine, stage.wire, stage.clock) as running:
            await until(running, first)
            lost = push(stage, "app:v2")
            await until(running, lost)
            rewrite(stage, first)
            accepted = push(stage, "app:v3")
            await stage.clock.sleep(120)
            assert seen(running) == ("Rejected", lost)
            by_hand = replace(
                mine, config=accepting(mine.config, accepted), acts=False,
                state_dir=tmp_path / "by-hand", identity="two",
            )  # fmt: skip
            await sync(by_hand, accepted)
            await until(running, accepted)
            newer = push(stage, "app:v4")
            await until(running, newer)
            rewrite(stage, accepted)
            push(stage, "app:v5")
            await stage.clock.sleep(120)
            assert seen(running) == ("Rejected", newer), "another rewrite is another acceptance"

    stage.clock.run(main())
