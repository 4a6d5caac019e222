"""A pull request is planned as its merge, from what the units of its branch have live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.git.repos import run_git
from tests.gitops.notify.harness import CHECK, ForgeHarness
from tests.gitops.notify.test_flow import SETTINGS, two_units
from tests.gitops.promoted import promotion
from tests.gitops.stage import WEB, MakeStage, config_map, documents, web

pytestmark = pytest.mark.slow

Script = Callable[[ForgeHarness], Awaitable[None]]
DELETES = "DELETED"


def play(staged: MakeStage, folder: Path, script: Script, **spec: Any) -> None:
    """One commit live, then `script`."""
    harness = ForgeHarness(staged(**spec), folder)

    async def main() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await harness.stage.rest()
            await script(harness)

    harness.stage.play(main)


def branch_from(
    harness: ForgeHarness, start: str, number: int, *objects: Any, repo: int = 1
) -> str:
    """Push a pull request's branch: a commit on top of `start`; its head."""
    origin = harness.stage.origin
    run_git(origin.work, "checkout", "--quiet", "--detach", start)
    head = origin.commit({"app.yaml": documents(*objects)}, "pull", branch=f"pull-{number}")
    run_git(origin.bare, "update-ref", f"refs/pull/{number}/head", head)
    run_git(origin.work, "checkout", "--quiet", "main")
    harness.model.open_pull(number, head, repo=repo)
    harness.pulls.look_now()
    return head


@pytest.mark.parametrize("repo", [1, 99], ids=["own branch", "a stranger's"])
def test_a_branch_that_is_behind_keeps_what_the_other_one_has(
    staged: MakeStage, tmp_path: Path, repo: int
) -> None:
    async def script(harness: ForgeHarness) -> None:
        first = run_git(harness.stage.origin.bare, "rev-parse", "main")
        await harness.stage.push(message="flags", flags=documents(config_map("flags", a="b")))
        await harness.stage.rest()
        head = branch_from(harness, first, 1, web("app:v2"), repo=repo)
        await harness.stage.rest(5)
        shown = harness.comment(1)
        assert "containers[app].image v1 → v2" in shown
        assert "flags" not in shown
        assert DELETES not in shown
        assert harness.status(head, CHECK)[0] == "success"

    play(staged, tmp_path, script)


def test_a_conflict_is_reported_with_its_files_once_it_is_one(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        first = run_git(harness.stage.origin.bare, "rev-parse", "main")
        head = branch_from(harness, first, 1, web("app:v2"))
        await harness.stage.rest(5)
        assert "· ✅ current" in harness.comment(1)
        other = await harness.push(web("app:v3"), message="other")
        await harness.stage.rest()
        shown = harness.comment(1)
        assert "· ✗ no plan" in shown
        assert f"GK3212: {head[:7]} cannot be merged into {other[:7]}" in shown
        assert "app.yaml" in shown
        assert harness.status(head, CHECK)[0] == "failure"
        await harness.push(web(), message="back")
        await harness.stage.rest()
        assert "· ✅ current" in harness.comment(1)

    play(staged, tmp_path, script)


@pytest.mark.parametrize("repo", [1, 99], ids=["own branch", "a stranger's"])
def test_the_repair_of_a_rejected_commit_starts_from_what_is_live(
    staged: MakeStage, tmp_path: Path, repo: int
) -> None:
    async def script(harness: ForgeHarness) -> None:
        wrong = web()
        wrong["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        bad = await harness.push(wrong, config_map("flags", a="b"), message="bad")
        await harness.stage.rest()
        assert harness.stage.state == "Rejected"
        harness.branch(1, web("app:v2"), repo=repo)
        await harness.stage.rest(5)
        shown = harness.comment(1)
        assert f"GK2108]: unit shop/web rejects {bad[:7]}" in shown
        assert "containers[app].image v1 → v2" in shown
        assert "selector" not in shown.partition("GK2108")[2].partition("\n")[2]
        assert DELETES not in shown

    play(staged, tmp_path, script)


@pytest.mark.parametrize("how", ["rebase", "squash"])
def test_the_outcome_of_each_way_to_merge_is_found(
    staged: MakeStage, tmp_path: Path, how: str
) -> None:
    """The unit is at the commit that changed it, which a rebase leaves behind the last one."""
    harness = ForgeHarness(staged(path="apps"), tmp_path)

    async def main() -> None:
        origin = harness.stage.origin
        async with harness.open():
            await harness.push(apps__web=documents(web()), message="first")
            await harness.stage.rest()
            harness.branch(1, files={"apps/web.yaml": documents(web("app:v2"))})
            await harness.push(README="x", message="main moves")
            run_git(origin.work, "checkout", "--quiet", "--detach", "origin/pull-1-1")
            head = origin.commit({"docs.md": "x"}, "docs", branch="pull-1-1")
            run_git(origin.bare, "update-ref", "refs/pull/1/head", head)
            run_git(origin.work, "checkout", "--quiet", "main")
            harness.model.open_pull(1, head)
            await harness.stage.rest(60)
            assert "✅ current" in harness.comment(1)
            await harness.stage.rest(5)
            if how == "rebase":
                run_git(origin.work, "cherry-pick", f"{head}~1", head)
            else:
                run_git(origin.work, "merge", "--quiet", "--squash", head)
                run_git(origin.work, "commit", "--quiet", "-m", "pull (#1)")
            run_git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
            merged = run_git(origin.work, "rev-parse", "HEAD")
            harness.model.end_pull(1, "merged", merged)
            await harness.stage.follower.check()
            harness.pulls.look_now()
            await harness.stage.rest()
            assert f"### gitkruise: `{merged[:7]}` → `main` on `test` · ✓ Done" in harness.comment(
                1
            )
            assert "done (4/4 updated)" in harness.comment(1)

    harness.stage.play(main)


def test_a_merge_that_is_superseded_between_two_looks_waits_for_nothing(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Also where gitkruise is not running meanwhile."""
    harness = ForgeHarness(staged(), tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await harness.stage.rest()
            harness.branch(1, web("app:v2", partition=3))
            await harness.stage.rest(5)
            harness.pulls.look_now = lambda: None  # type: ignore[method-assign]
            await harness.merge(1)
            await harness.stage.rest(15)
            newer = await harness.push(web("app:v3"))
            harness.branch(2, web("app:v4"))
            await harness.stage.rest(60)
            assert "· ⏸ Held" in harness.comment(1)
            assert "held (1/4 updated); superseded by " + newer[:7] in harness.comment(1)
        harness.stage.start_over()
        harness.merge_unseen(2)
        newest = harness.stage.origin.commit({"app.yaml": documents(web("app:v5"))}, "newest")
        async with harness.open():
            await harness.stage.follower.check()
            await harness.stage.rest(60)
        assert f"superseded by {newest[:7]}" in harness.comment(2)

    harness.stage.play(main)


def test_a_merge_that_a_unit_has_not_taken_yet_is_not_done(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = two_units(staged, tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(apps__web=documents(web()), api__map=SETTINGS)
            await harness.stage.rest()
            changed = documents(config_map("settings", mode="fast"))
            files = {"apps/web.yaml": documents(web("app:v2")), "api/map.yaml": changed}
            harness.branch(1, files=files)
            await harness.stage.rest(5)
            await harness.merge(1)
            await harness.stage.rest()
            assert "· … Waiting" in harness.comment(1)
            assert "- … **shop/api** has not taken it yet" in harness.comment(1)
            assert "- ✓ **shop/web** done (4/4 updated)" in harness.comment(1)
            record = harness.stage.record
            assert record.causal is not None
            lost = replace(record.causal, id="d" * 40)  # as after a rewrite of the branch
            harness.pulls.offer(replace(record, unit="shop/api", causal=lost))
            newer = await harness.push(apps__web=documents(web("app:v3")))
            await harness.stage.rest(400)
            assert "- … **shop/api** has not taken it yet" in harness.comment(1)
            assert f"superseded by {newer[:7]}" in harness.comment(1)
            assert harness.pulls.problem == ""

    harness.stage.play(main)


@pytest.mark.parametrize("followed", [True, False])
def test_a_pull_request_that_was_merged_into_another_branch_says_so(
    staged: MakeStage, tmp_path: Path, *, followed: bool
) -> None:
    """Its base was changed and it was merged between two looks."""

    async def script(harness: ForgeHarness) -> None:
        origin = harness.stage.origin
        head = harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        assert "→ `main` on `test` · ✅ current" in harness.comment(1)
        if followed:
            harness.pulls.planners = {
                **harness.pulls.planners,
                "release": harness.planner("release"),
            }
        run_git(origin.work, "checkout", "--quiet", "--detach", "main")
        run_git(origin.work, "merge", "--quiet", "--no-ff", "-m", "Merge 1", head)
        run_git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/release")
        merged = run_git(origin.work, "rev-parse", "HEAD")
        run_git(origin.work, "checkout", "--quiet", "main")
        harness.model.pulls[1]["base"] = "release"
        harness.model.end_pull(1, "merged", merged)
        harness.pulls.look_now()
        await harness.stage.rest(60)
        assert harness.pulls.problem == ""
        if followed:
            assert f"### gitkruise: `{merged[:7]}` → `release` on `test` · mer" in harness.comment(
                1
            )
        else:
            line = "→ `main` on `test` · outdated: it was merged into `release`, which no unit"
            assert line in harness.comment(1)
            assert harness.status(head, CHECK) == ("success", "no units affected")

    play(staged, tmp_path, script)


def test_a_merge_that_another_push_replaced_ends_the_looks_for_it(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        harness.model.end_pull(1, "merged", "f" * 40)
        harness.pulls.look_now()
        await harness.stage.rest(60)
        assert "✅ current" in harness.comment(1), "git may get it yet"
        await harness.stage.rest(15 * 60)
        assert harness.pulls.problem == ""
        assert "### gitkruise: `fffffff` → `main` on `test` · merged" in harness.comment(1)

    play(staged, tmp_path, script)


@pytest.mark.parametrize("how", ["title", "trailers", "merge"])
def test_a_squash_that_loses_a_hold_is_reported(
    staged: MakeStage, tmp_path: Path, how: str
) -> None:
    """The hold is an empty commit: the promotion stays at its partition because a user says so."""
    trailers = f"web: hold\n\nGitkruise-Action: hold\nGitkruise-Object: {WEB}"

    async def script(harness: ForgeHarness) -> None:
        origin = harness.stage.origin
        await harness.push(web("app:v2", partition="75%"), message="canary")
        await harness.stage.rest()
        run_git(origin.work, "checkout", "--quiet", "--detach", "main")
        head = origin.commit({}, trailers, branch="hold")
        run_git(origin.bare, "update-ref", "refs/pull/1/head", head)
        run_git(origin.work, "checkout", "--quiet", "main")
        harness.model.open_pull(1, head)
        await harness.stage.rest(60)
        if how == "merge":
            run_git(origin.work, "merge", "--quiet", "--no-ff", "-m", "Merge 1", head)
        else:
            title = "web: hold (#1)"
            message = title if how == "title" else trailers.replace("web: hold", title)
            run_git(origin.work, "commit", "--quiet", "--allow-empty", "-m", message)
        run_git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
        merged = run_git(origin.work, "rev-parse", "HEAD")
        harness.model.end_pull(1, "merged", merged)
        harness.pulls.look_now()
        await harness.stage.rest(60)
        if how == "title":
            assert (
                f"\n\n⚠️ The message of `{merged[:7]}` lacks the trailers of "
                "`gitkruise hold cloneset/web -n shop`, so it counts for no promotion. "
                "Next: repeat the command.\n" in harness.comment(1) + "\n"
            )
        else:
            assert 1 not in harness.model.comments

    play(staged, tmp_path, script, promotion=promotion("pull-request"))


def test_one_head_for_two_branches_has_the_check_of_the_worse_one(
    staged: MakeStage, tmp_path: Path
) -> None:
    """As main has that goes to the branches of two environments: a commit has one status."""

    async def script(harness: ForgeHarness) -> None:
        origin, planner = harness.stage.origin, harness.planner("release")
        harness.pulls.planners = {**harness.pulls.planners, "release": planner}
        run_git(origin.work, "checkout", "--quiet", "--detach", "main")
        origin.commit({"app.yaml": documents(web("app:v9"))}, "other", branch="release")
        run_git(origin.work, "checkout", "--quiet", "main")
        head = harness.branch(1, web("app:v2"))
        for number in (2, 3):
            run_git(origin.bare, "update-ref", f"refs/pull/{number}/head", head)
            harness.model.open_pull(number, head, base="release" if number == 2 else "main")
        await harness.stage.rest(60)
        assert "· ✅ current" in harness.comment(1)
        assert "· ✗ no plan" in harness.comment(2)
        description = "into release: it cannot be merged or applied: see the comment"
        assert harness.status(head, CHECK) == ("failure", description)
        harness.model.end_pull(2, "closed")
        await harness.stage.rest(60)
        assert harness.status(head, CHECK)[0] == "success"
        assert harness.status(head, CHECK)[1].startswith("into main: 1 changed")
        sent = len(harness.model.statuses[head, CHECK])
        harness.model.end_pull(3, "closed")
        await harness.stage.rest(60)
        assert harness.status(head, CHECK)[1].startswith("1 changed")
        harness.model.end_pull(1, "closed")
        await harness.stage.rest(60)
        assert len(harness.model.statuses[head, CHECK]) == sent + 1

    play(staged, tmp_path, script)
