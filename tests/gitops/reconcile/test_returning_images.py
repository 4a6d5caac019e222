"""Commits that return to an image that ran before: kubelet's back-off is no failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.paths import get
from tests.gitops.stage import MakeStage, Stage, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

IN_PLACE = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "100%"}


def waits(stage: Stage) -> Iterator[str]:
    """Yield the reasons why containers wait."""
    for pod in stage.world.objects(GroupKind("", "Pod"), SPACE):
        for entry in get(pod, "status", "containerStatuses", default=()):
            yield get(entry, "state", "waiting", "reason", default="")


def test_a_commit_that_returns_to_an_earlier_image_is_never_stuck(staged: MakeStage) -> None:
    """v1, v2, v1, v2, v1: the last update waits in CrashLoopBackOff, after exits with code 0."""
    stage = staged()
    seen: set[str] = set()
    backed_off = False

    async def script() -> None:
        nonlocal backed_off
        async with stage.running():
            for image in ("app:v1", "app:v2", "app:v1", "app:v2", "app:v1"):
                await stage.push(web(image, **IN_PLACE))
                end = stage.clock.now() + timedelta(seconds=60)
                while stage.clock.now() < end:
                    await stage.rest(0.5)
                    seen.add(stage.state)
                    backed_off |= "CrashLoopBackOff" in waits(stage)
                    if stage.rollout.updated_ready == 4 and stage.images() == [image] * 4:
                        break
                assert (stage.state, stage.images()) == ("Done", [image] * 4)

    stage.play(script)
    assert backed_off
    assert "Stuck" not in seen
