"""A canary from pull request to Done, and a bad version back, as a real Gitea tells it."""

from __future__ import annotations

import asyncio
import time
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest

from tests.forge.fleet import PATIENCE_S, Fleet, Follower, following, living
from tests.forge.gitea import OWNER, Gitea
from tests.git.repos import run_git
from tests.gitops.stage import MakeStage, web

pytestmark = [pytest.mark.forge, pytest.mark.slow]
UNIT: Final = "gitkruise/test/shop/web"


def sink(fleet: Fleet) -> dict[str, Any]:
    return {
        "git": {"sourceRef": {"name": "src"}, "coalesce": "1s"},
        "forge": {
            "type": "gitea", "url": fleet.forge.url, "repo": fleet.repo,
            "secretRef": {"name": "forge"},
        },
    }  # fmt: skip


async def shown(check: Any, *words: Any) -> Any:
    """What Gitea shows, as soon as it shows something that `check` agrees to."""
    while True:
        if found := await asyncio.to_thread(check, *words):
            return found
        await asyncio.to_thread(time.sleep, 0.1)


def test_a_canary_is_planned_held_and_finished_through_pull_requests(
    forge: Gitea, staged: MakeStage, tmp_path: Path
) -> None:
    async def main() -> None:
        stage, fleet = staged(), Fleet(forge, tmp_path, "canary")
        first = await asyncio.to_thread(fleet.push, web(), message="first")
        async with (
            asyncio.timeout(PATIENCE_S),
            living(stage),
            following(stage, fleet, sink=sink(fleet)) as follower,
        ):
            await asyncio.to_thread(
                fleet.hook, follower.running.hooks["shop/forge"], events=("push", "pull_request")
            )
            await follower.until("Done", first)
            await has_status(fleet, first, "success", "done (4/4 updated)")
            number, head = await open_canary(fleet)
            await has_status(fleet, head, "success", "changed", context="gitkruise/plan")
            (comment,) = await shown(fleet.comments, number)
            assert comment["user"]["login"] == OWNER
            assert "✅ current" in comment["body"]
            assert "partition" in comment["body"]
            assert "shop/web" in comment["body"]
            merged = await asyncio.to_thread(fleet.merge, number)
            await held(fleet, follower, (number, head, merged))
            second = await asyncio.to_thread(fleet.act, "promote")
            await follower.until("Done", second)
            await has_status(fleet, second, "success", "done (4/4 updated)")
            assert stage.images() == ["app:v2"] * 4
            await ended(fleet, number, second)

    asyncio.run(main())


async def has_status(
    fleet: Fleet, commit: str, state: str, words: str, *, context: str = UNIT
) -> None:
    """Wait until the commit has this status."""

    def check() -> bool:
        found = fleet.statuses(commit).get(context, ("", ""))
        return found[0] == state and words in found[1]

    await shown(check)


async def open_canary(fleet: Fleet) -> tuple[int, str]:
    """A pull request that sends one pod of four ahead."""
    head = await asyncio.to_thread(
        fleet.push, web("app:v2", partition=3), message="canary", branch="canary"
    )
    return await asyncio.to_thread(fleet.open_pull, "canary", "One pod ahead"), head


async def held(fleet: Fleet, follower: Follower, pull: tuple[int, str, str]) -> None:
    """The merge is live: held, told on both commits and under the plan."""
    number, head, merged = pull
    assert merged != head
    await follower.until("Held")
    for commit in (head, merged):
        await has_status(fleet, commit, "success", "held at partition 3 (1/4 updated)")

    def outcome() -> bool:
        (comment,) = fleet.comments(number)
        return "⏸ Held" in comment["body"] and "held at partition 3" in comment["body"]

    await shown(outcome)
    (comment,) = fleet.comments(number)
    assert "<summary>The plan for" in comment["body"]


async def ended(fleet: Fleet, number: int, newer: str) -> None:
    def superseded() -> bool:
        (comment,) = fleet.comments(number)
        return f"superseded by {newer[:7]}" in comment["body"]

    await shown(superseded)


def test_a_bad_version_is_reported_and_rollback_brings_all_pods_back(
    forge: Gitea, staged: MakeStage, tmp_path: Path
) -> None:
    async def main() -> None:
        stage, fleet = staged(), Fleet(forge, tmp_path, "rollback")
        first = await asyncio.to_thread(fleet.push, web(), message="first")
        async with (
            asyncio.timeout(PATIENCE_S),
            living(stage),
            following(stage, fleet, sink=sink(fleet)) as follower,
        ):
            url = follower.running.hooks["shop/forge"]
            await asyncio.to_thread(fleet.hook, url, events=("push", "pull_request"))
            await follower.until("Done", first)
            bad = await asyncio.to_thread(
                fleet.push, web("app:broken", partition=2), message="bad", branch="bad"
            )
            number = await asyncio.to_thread(fleet.open_pull, "bad", "A bad version")
            await has_status(fleet, bad, "success", "changed", context="gitkruise/plan")
            merged = await asyncio.to_thread(fleet.merge, number, "squash")
            await follower.until("Stuck", merged)
            await has_status(fleet, merged, "failure", "stuck: ")
            await shown(lambda: "✗ Stuck" in fleet.comments(number)[0]["body"])
            undone = await asyncio.to_thread(fleet.act, "rollback")
            await follower.until("Done", undone)
            await has_status(fleet, undone, "success", "done (4/4 updated)")
            assert stage.images() == ["app:v1"] * 4
            short = stage.get("CloneSet", "web", "apps.kruise.io")["metadata"]["annotations"]
            assert short["gitkruise.io/commit"] == undone
            await ended(fleet, number, undone)
        await asyncio.to_thread(fleet.sync)
        status = "origin/gitkruise/status/test"
        subjects = run_git(fleet.work, "log", "--format=%s", status).splitlines()
        states = [line.split(": ")[1].split()[0] for line in reversed(subjects)]
        ends = [state for state in states if state in {"done", "stuck"}]
        assert [state for state, _ in groupby(ends)] == ["done", "stuck", "done"]

    asyncio.run(main())
