"""Waiting for commits over records as a running unit writes them."""

from __future__ import annotations

import pytest

from gitkruise.gitops.inspect.wait import WaitCondition
from gitkruise.gitops.status.reader import read_units
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit
from gitkruise.model.gitops.unit_state import State
from tests.gitops.stage import STATUS, MakeStage, Stage, web

CANARY = {"partition": "50%"}


def met(stage: Stage, commit: str, goal: str) -> bool | None:
    """The verdict on the one unit now."""
    source = GitSource("shop", "src", GitSourceSpec(url="."))
    unit = Unit("shop", "web", stage.spec)
    config = Config({"shop/src": source}, {unit.id: unit}, {})
    wait = WaitCondition(stage.repository, stage.world.catalog, commit, goal, config)
    (answer,) = wait.ask(read_units(stage.repository, STATUS), stage.clock.now())
    return answer.met


def test_a_bad_image_ends_a_wait_and_its_fix_is_not_judged_by_it(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="good")
            await stage.rest()
            bad = await stage.push(web("app:bad"), message="bad")
            await stage.rest(120)
            assert stage.record.state is State.STUCK
            assert [met(stage, bad, goal) for goal in ("applied", "held")] == [True, False]
            fix = stage.origin.commit({"README": "x"}, "unrelated")
            assert met(stage, fix, "held") is False
            fix = await stage.push(web(), message="fix")
            assert met(stage, fix, "held") is None  # not read yet
            await stage.rest(120)
            assert met(stage, fix, "done") is True

    stage.play(script)


@pytest.mark.slow
def test_pausing_a_held_canary_is_reached(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            await stage.push(web("app:v2", **CANARY))
            await stage.rest()
            paused = await stage.push(web("app:v2", paused=True, **CANARY))
            await stage.rest()
            assert stage.record.state is State.PAUSED
            assert [met(stage, paused, goal) for goal in ("applied", "held", "done")] == [
                True, True, None,
            ]  # fmt: skip

    stage.play(script)
