"""Statuses and outcomes of a merge that its unit rejects, or that waits for an approval."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.gitops.notify.harness import ForgeHarness
from tests.gitops.stage import MakeStage, Stage, config_map, documents

pytestmark = pytest.mark.slow
BEFORE, AFTER = config_map("keep", a="b"), config_map("keep", a="c")
FILE: Final = "apps/a.yaml"


def harness_of(staged: MakeStage, folder: Path, **spec: Any) -> ForgeHarness:
    return ForgeHarness(staged(path="apps", **spec), folder)


async def approve(harness: ForgeHarness) -> None:
    mark = harness.stage.record.message.rpartition("Gitkruise-Approve: ")[2][:12]
    await harness.push(message=f"agreed\n\nGitkruise-Approve: {mark}")
    await harness.stage.rest()


async def merged(harness: ForgeHarness, text: str) -> tuple[str, str]:
    """Merge a pull request with a text of the file; return its head and the merge."""
    head = harness.branch(1, files={FILE: text})
    await harness.stage.rest()
    merge = await harness.merge(1)
    await harness.stage.rest()
    return head, merge


def change(stage: Stage, value: str) -> None:
    stage.meddle(config_map("keep", a=value))


def test_drift_supersedes_no_commit_that_waits(staged: MakeStage, tmp_path: Path) -> None:
    """The state of the unit is about the live commit then, which is an older one."""
    harness = harness_of(staged, tmp_path, approval="always", drift={"mode": "detect"})
    stage = harness.stage

    async def script() -> None:
        async with harness.open():
            await harness.push(apps__a=documents(BEFORE), message="first")
            await stage.rest()
            await approve(harness)
            assert stage.state == "Done"
            commits = await merged(harness, documents(AFTER))
            change(stage, "x")
            await stage.rest(60)
            assert stage.state == "Drifted"
            for commit in commits:
                assert harness.status(commit)[0] == "pending"
                assert harness.status(commit)[1].startswith("waits for approval")
            assert "- … **shop/web** waits for approval" in harness.comment(1)
            assert "superseded" not in harness.comment(1)
            change(stage, "b")
            await stage.rest(60)
            await approve(harness)
            assert {harness.status(commit)[0] for commit in commits} == {"success"}
            assert "- ✓ **shop/web** 1 object as git asks" in harness.comment(1)

    stage.play(script)


def test_a_merge_that_a_unit_rejects_says_so_itself(staged: MakeStage, tmp_path: Path) -> None:
    harness = harness_of(staged, tmp_path)

    async def script() -> None:
        async with harness.open():
            await harness.push(apps__a=documents(BEFORE), message="first")
            await harness.stage.rest()
            for commit in await merged(harness, "a: ["):
                assert harness.status(commit)[0] == "error"
                assert "GK1101" in harness.status(commit)[1]

    harness.stage.play(script)
