"""The page of a pull request has the plan of its comment, and is made for open ones only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import DiagnosticError
from gitkruise.gitops.build.untrusted import PagePart
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from tests.git.repos import run_git
from tests.gitops.notify.harness import ForgeHarness
from tests.gitops.notify.test_flow import play
from tests.gitops.stage import MakeStage, config_map, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow


async def page(harness: ForgeHarness, number: int, part: PagePart | None = None) -> Any:
    proposed = await harness.pulls.proposed(number)
    return await proposed.page(part or PagePart())


async def refused(harness: ForgeHarness, number: int) -> str:
    with pytest.raises(DiagnosticError) as caught:
        await page(harness, number)
    return " ".join(f"{finding} {finding.notes}" for finding in caught.value.findings)


def test_a_page_has_the_plan_of_the_comment(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2", partition=3), config_map("flags", a="b"))
        await harness.stage.rest(5)
        proposed = await harness.pulls.proposed(1)
        assert (proposed.name, proposed.into, proposed.head) == ("pull request 1", "main", head)
        assert proposed.base == run_git(harness.stage.origin.bare, "rev-parse", "main")
        found = await proposed.page(PagePart())
        assert found.document["source"] == "live objects of cluster test"
        entries = found.document["entries"]
        words = [field["words"] for entry in entries for field in entry["fields"]]
        assert "v1 → v2" in words
        assert "containers[app].image v1 → v2" in harness.comment(1)
        names = [entry["name"] for entry in entries]
        assert sorted(names) == ["+ ConfigMap shop/flags", "~ CloneSet shop/web"]
        assert {key.name for key in found.keys} == {"flags", "web"}
        flags = frozenset({ObjectKey("", "ConfigMap", SPACE, "flags")})
        part = await page(harness, 1, PagePart(shown=flags))
        assert "web" not in str(part)
        diff = await page(harness, 1, PagePart(diff=True, shown=flags))
        assert [entry["name"] for entry in diff.document["entries"]] == ["+ ConfigMap shop/flags"]

    play(staged, tmp_path, script)


def test_a_strangers_page_is_made_without_live_objects(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(3, web("app:v2"), repo=99)
        await harness.stage.rest(5)
        proposed = await harness.pulls.proposed(3)
        assert not proposed.live
        found = await proposed.page(PagePart())
        assert found.document["source"] == "offline: pods are counted, not named"
        pods = harness.stage.world.objects(GroupKind("", "Pod"), SPACE)
        assert len(pods) == 4
        assert not [pod for pod in pods if pod["metadata"]["name"] in str(found)]

    play(staged, tmp_path, script)


def test_a_pull_request_that_is_not_open_has_no_page(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        asked = len(harness.model.asked)
        why = await refused(harness, 7)
        assert "GK7092: pull request 7 is not open" in why
        assert len(harness.model.asked) == asked, "a viewer makes no requests to the forge"
        harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        merged = await harness.merge(1)
        await harness.stage.rest()
        why = await refused(harness, 1)
        assert f"was merged as {merged}" in why
        assert f"/commit/{merged}" in why

    play(staged, tmp_path, script)


def test_a_page_says_why_there_is_no_plan(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(1, web("app:v2"))
        await harness.push(web("app:v3"), message="other")
        harness.branch(2, text="a: [")
        await harness.stage.rest(60)
        assert "GK3212" in await refused(harness, 1)
        assert "app.yaml" in await refused(harness, 2)

    play(staged, tmp_path, script)
