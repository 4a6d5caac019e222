"""On a real Gitea: steps of a promotion open and merge themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.forge.fleet import PATIENCE_S, Fleet, following, living
from tests.forge.gitea import Gitea
from tests.forge.test_canonical_flow import shown, sink
from tests.gitops.stage import MakeStage, web

pytestmark = [pytest.mark.forge, pytest.mark.slow]
STEPS = [{"partition": "75%", "soak": "1s"}, {"partition": "50%", "soak": "1s"}, {"partition": 0}]


def pulls(fleet: Fleet) -> list[dict[str, Any]]:
    return list(fleet.forge.api("GET", f"/repos/{fleet.repo}/pulls?state=all&sort=oldest"))


def test_each_step_is_a_pull_request_that_is_merged_when_the_forge_lets_it(
    forge: Gitea, staged: MakeStage, tmp_path: Path
) -> None:
    promotion = {
        "workload": {"kind": "CloneSet", "name": "web"}, "steps": STEPS, "merge": "whenReady",
    }  # fmt: skip

    async def main() -> None:
        stage, fleet = staged(), Fleet(forge, tmp_path, "promoted")
        # A merge commit, which is the default of the API, is refused here.
        ways = {"allow_merge_commits": False, "default_merge_style": "squash"}
        await asyncio.to_thread(forge.api, "PATCH", f"/repos/{fleet.repo}", ways)
        first = await asyncio.to_thread(fleet.push, web(), message="first")
        places = {"sink": sink(fleet), "unit": {"promotion": promotion}}
        async with (
            asyncio.timeout(PATIENCE_S),
            living(stage),
            following(stage, fleet, **places) as follower,
        ):
            url = follower.running.hooks["shop/forge"]
            await asyncio.to_thread(fleet.hook, url, events=("push", "pull_request"))
            await follower.until("Done", first)
            canary = web("app:v2", partition="75%")
            await follower.until("Held", await asyncio.to_thread(fleet.push, canary))
            await shown(lambda: len(pulls(fleet)) == 2 and all(p["merged"] for p in pulls(fleet)))
            await follower.until("Done", await asyncio.to_thread(fleet.sync))
            assert stage.images() == ["app:v2"] * 4
        titles = [p["title"] for p in pulls(fleet)]
        assert titles == ["web: promote to partition 50%", "web: promote to all"]
        assert pulls(fleet)[1]["body"].startswith("Step 3 of 3 of the promotion of CloneSet shop/")

    asyncio.run(main())
