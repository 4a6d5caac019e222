"""The diary on the status branch: one commit for every piece of news, and none without."""

from __future__ import annotations

import pytest

from tests.gitops.reconcile.test_sidecars import mesh
from tests.gitops.stage import MakeStage, Stage, config_map, web
from tests.worlds import SPACE, create, pod


def diary(stage: Stage) -> list[str]:
    """Its lines without commits: `rolling`, `done 4/4`."""
    return [line.partition(": ")[2].partition(" at ")[0] for line in stage.diary()]


def start_pods(stage: Stage, count: int) -> None:
    """Pods that the SidecarSet matches, and no unit brings."""
    for number in range(count):
        made = pod(f"p{number}")
        made["metadata"] |= {"namespace": SPACE, "labels": {"app": "web"}}
        stage.world.handle(create(stage.world, made), stage.clock.now())
    stage.cluster.publish()


@pytest.mark.slow
def test_a_quick_rollout_is_two_lines(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("settings", mode="a"), message="first")
            await stage.rest()
            await stage.push(web("app:v2"), config_map("settings", mode="b"), message="second")
            await stage.rest()

    stage.play(script)
    assert diary(stage) == ["rolling", "done 4/4"] * 2


@pytest.mark.slow
def test_a_stuck_rollout_and_its_repair_are_two_lines_each(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            for image in ("app:v1", "app:bad", "app:v3"):
                await stage.push(web(image), message=image)
                await stage.rest()

    stage.play(script)
    lines = ["rolling", "done 4/4", "rolling", "stuck 1/4", "rolling", "done 4/4"]
    assert diary(stage) == lines


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
def test_pods_that_come_and_go_without_a_commit_are_at_most_one_line(
    staged: MakeStage, count: int
) -> None:
    """The pods of a SidecarSet are those of others, which have commits of their own."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), message="sidecars alone")
            await stage.rest()
            before = diary(stage)
            assert before == ["rolling", "done 0/0"]
            start_pods(stage, count)
            await stage.rest()
            assert diary(stage)[len(before) :] == [f"done {count}/{count}"]

    stage.play(script)
