"""The page of a pull request has the plan of its comment, and is made for open ones only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import DiagnosticError
from gitkruise.gitops.build.untrusted import PagePart
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from tests.git.repos import run_git
from tests.gitops.notify.desk import Desk
from tests.gitops.notify.test_flow import play
from tests.gitops.stage import MakeStage, config_map, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow


async def page(desk: Desk, number: int, part: PagePart | None = None) -> Any:
    proposed = await desk.pulls.proposed(number)
    return await proposed.page(part or PagePart())


async def refused(desk: Desk, number: int) -> str:
    with pytest.raises(DiagnosticError) as caught:
        await page(desk, number)
    return " ".join(f"{finding} {finding.notes}" for finding in caught.value.findings)


def test_a_page_has_the_plan_of_the_comment(staged: MakeStage, tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        head = desk.branch(1, web("app:v2", partition=3), config_map("flags", a="b"))
        await desk.stage.rest(5)
        proposed = await desk.pulls.proposed(1)
        assert (proposed.name, proposed.into, proposed.head) == ("pull request 1", "main", head)
        assert proposed.base == run_git(desk.stage.origin.bare, "rev-parse", "main")
        found = await proposed.page(PagePart())
        assert found.document["source"] == "live objects of cluster test"
        entries = found.document["entries"]
        words = [field["words"] for entry in entries for field in entry["fields"]]
        assert "v1 → v2" in words
        assert "containers[app].image v1 → v2" in desk.comment(1)
        names = [entry["name"] for entry in entries]
        assert sorted(names) == ["+ ConfigMap shop/flags", "~ CloneSet shop/web"]
        assert {key.name for key in found.keys} == {"flags", "web"}
        flags = frozenset({ObjectKey("", "ConfigMap", SPACE, "flags")})
        part = await page(desk, 1, PagePart(shown=flags))
        assert "web" not in str(part)
        diff = await page(desk, 1, PagePart(diff=True, shown=flags))
        assert [entry["name"] for entry in diff.document["entries"]] == ["+ ConfigMap shop/flags"]

    play(staged, tmp_path, script)


def test_a_strangers_page_is_made_without_live_objects(staged: MakeStage, tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.branch(3, web("app:v2"), repo=99)
        await desk.stage.rest(5)
        proposed = await desk.pulls.proposed(3)
        assert not proposed.live
        found = await proposed.page(PagePart())
        assert found.document["source"] == "offline: pods are counted, not named"
        pods = desk.stage.world.objects(GroupKind("", "Pod"), SPACE)
        assert len(pods) == 4
        assert not [pod for pod in pods if pod["metadata"]["name"] in str(found)]

    play(staged, tmp_path, script)


def test_a_pull_request_that_is_not_open_has_no_page(staged: MakeStage, tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        asked = len(desk.model.asked)
        why = await refused(desk, 7)
        assert "GK7092: pull request 7 is not open" in why
        assert len(desk.model.asked) == asked, "a viewer makes no requests to the forge"
        desk.branch(1, web("app:v2"))
        await desk.stage.rest(5)
        merged = await desk.merge(1)
        await desk.stage.rest()
        why = await refused(desk, 1)
        assert f"was merged as {merged}" in why
        assert f"/commit/{merged}" in why

    play(staged, tmp_path, script)


def test_a_page_says_why_there_is_no_plan(staged: MakeStage, tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        desk.branch(1, web("app:v2"))
        await desk.push(web("app:v3"), message="other")
        desk.branch(2, text="a: [")
        await desk.stage.rest(60)
        assert "GK3212" in await refused(desk, 1)
        assert "app.yaml" in await refused(desk, 2)

    play(staged, tmp_path, script)
