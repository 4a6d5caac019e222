"""The steps of a promotion as pull requests: opened once, merged, declined, overtaken."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.forges.http import JsonReply
from tests.git.repos import run_git
from tests.gitops.forges.forges import REPO, ModelForge, away, client, reply
from tests.gitops.promoted import promoting, promotion, standing, written
from tests.gitops.stage import MakeStage, Stage, web

KINDS = ["github", "gitlab", "gitea"]


def forge_of(stage: Stage, kind: str = "gitea") -> ModelForge:
    """A forge that has the stage's repository."""
    bare, work = stage.origin.bare, stage.origin.work

    def merged(number: int) -> str:
        run_git(work, "fetch", "--quiet", "origin")
        run_git(work, "checkout", "--quiet", "-B", "main", "origin/main")
        head = model.pulls[number]["head"]
        run_git(work, "merge", "--quiet", "--no-ff", "-m", f"Merge #{number}", head)
        run_git(work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
        return run_git(work, "rev-parse", "HEAD")

    def head_of(branch: str) -> str:
        found = run_git(bare, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return found.partition("\n")[0]

    model = ModelForge(kind, head_of=head_of, on_merge=merged)
    return model


async def canary(stage: Stage) -> str:
    await stage.push(web(), message="first")
    await stage.rest()
    commit = await stage.push(web("app:v2", partition="75%"), message="canary")
    await stage.rest(150)
    return commit[:7]


def shown(model: ModelForge) -> list[tuple[Any, Any]]:
    return [(p["branch"], p["state"]) for _, p in sorted(model.pulls.items())]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_proposed_once_and_the_next_after_people_merged_it(
    kind: str, staged: MakeStage
) -> None:
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage, kind)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            first = await canary(stage)
            branch = f"gitkruise/step/test/shop/web/web-50pct-{first}"
            assert shown(model) == [(branch, "open")]
            assert model.pulls[1]["title"] == "web: promote to partition 50%"
            assert standing(stage).offered.endswith("/1")
        stage.start_over()
        async with promoting(stage, client(model, stage.clock)):
            await stage.rest(120)
            assert shown(model) == [(branch, "open")]
            assert written(stage) == ["first", "canary"]
            model.end_pull(1, "merged", model.on_merge(1))
            await stage.rest(60)
            assert (stage.state, stage.images().count("app:v2")) == ("Held", 2)
            await stage.rest(240)
            assert [state for _, state in shown(model)] == ["merged", "open"]
            assert shown(model)[1][0].startswith("gitkruise/step/test/shop/web/web-0-")

    stage.play(script)


@pytest.mark.slow
def test_it_is_merged_as_soon_as_the_forge_lets_it(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request", merge="whenReady"))
    model = forge_of(stage)
    model.mergeable = False

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            assert [state for _, state in shown(model)] == ["open"]
            assert standing(stage).why == (
                f"the next step is proposed, and https://hub/{REPO}/pulls/1 is not merged: "
                "the server answered 405: "
                "the pull request is not mergeable: a required check has not run"
            )
            model.mergeable = True
            await stage.rest(10 * 60)
            assert [state for _, state in shown(model)] == ["merged", "merged"]
            assert (stage.state, stage.images()) == ("Done", ["app:v2"] * 4)

    stage.play(script)


@pytest.mark.slow
def test_what_somebody_else_pushed_to_its_branch_is_left_to_people(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request", merge="whenReady"))
    model = forge_of(stage)
    model.mergeable = False

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            branch = model.pulls[1]["branch"]
            run_git(stage.origin.work, "fetch", "--quiet", "origin")
            run_git(stage.origin.work, "checkout", "--quiet", "--detach", f"origin/{branch}")
            head = stage.origin.commit({"more.yaml": "# more\n"}, "and this", branch=branch)
            model.pulls[1]["head"] = head
            model.mergeable = True
            await stage.rest(10 * 60)
            assert [state for _, state in shown(model)] == ["open"]
            assert "/pulls/1 is not merged: a user pushed to gitkruise/step/" in standing(stage).why

    stage.play(script)


@pytest.mark.slow
def test_a_closed_pull_request_stops_it_where_it_is(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            model.end_pull(1, "closed")
            await stage.rest(60)
            assert standing(stage).why == "pull request #1 that proposed it was closed"
            model.pulls[1]["state"] = "open"
            await stage.rest(60)
            assert standing(stage).why == ""
            assert standing(stage).offered.endswith("/1")
            model.end_pull(1, "closed")
            await stage.rest(60)
            assert standing(stage).why == "pull request #1 that proposed it was closed"
        stage.start_over()
        async with promoting(stage, client(model, stage.clock)):
            await stage.rest(5 * 60)
            assert shown(model)[1:] == []
            await stage.push(web("app:v3", partition="75%"), message="better")
            await stage.rest(4 * 60)
            assert [state for _, state in shown(model)] == ["closed", "open"]

    stage.play(script)


@pytest.mark.slow
def test_a_newer_step_ends_the_older_ones_pull_request(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage)
    model.open_pull(40, "a" * 40, branch="gitkruise/promote-web-abc1234")

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            await stage.push(web("app:v3", partition="75%"), message="better")
            await stage.rest(4 * 60)
            assert [state for _, state in shown(model)] == ["open", "closed", "open"]
            assert model.comments[41][-1]["body"].endswith(": better")
            assert model.comments[41][-1]["body"].startswith("Superseded by ")
            assert model.pulls[41]["title"].startswith("Withdrawn: web: promote to")

    stage.play(script)


@pytest.mark.slow
def test_a_superseded_step_is_withdrawn_without_a_newer_one(staged: MakeStage) -> None:
    """A user goes on to the end by a commit, while the forge is away: it is asked again."""
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            assert [state for _, state in shown(model)] == ["open"]
            model.fails = lambda method, path: away(method, path) if method == "POST" else None
            await stage.push(web("app:v2", partition=0), message="all of them")
            await stage.rest(60)
            assert [state for _, state in shown(model)] == ["open"]
            model.fails = lambda _method, _path: None
            await stage.rest(5 * 60)
            assert [state for _, state in shown(model)] == ["closed"]
            (comment,) = model.comments[1]
            assert comment["body"].endswith(": all of them")

    stage.play(script)


@pytest.mark.slow
@pytest.mark.parametrize("edits", [0, 1])
def test_a_pull_request_that_cannot_be_closed_yet_gets_one_comment(
    staged: MakeStage, edits: int
) -> None:
    """The token may comment, and edits fail after so many: the title first, then the state."""
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage)
    edited = iter(range(edits))

    def fails(method: str, _path: str) -> JsonReply | None:
        if method != "PATCH" or next(edited, None) is not None:
            return None
        return reply(403, {"message": "token does not have at least one of required scope(s)"})

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            model.fails = fails
            await stage.push(web("app:v2", partition=0), message="all of them")
            await stage.rest(30 * 60)
            assert [state for _, state in shown(model)] == ["open"]
            model.fails = lambda _method, _path: None
            await stage.rest(6 * 60)
            assert [state for _, state in shown(model)] == ["closed"]
            assert model.pulls[1]["title"].startswith("Withdrawn: web: promote")
            (comment,) = model.comments[1]
            assert comment["body"].endswith(": all of them")

    stage.play(script)


@pytest.mark.slow
def test_a_step_that_a_user_sent_to_another_branch_is_proposed_again_and_not_merged_there(
    staged: MakeStage,
) -> None:
    stage = staged(promotion=promotion("pull-request", merge="whenReady"))
    model = forge_of(stage)
    model.mergeable = False

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            model.pulls[1]["base"] = "develop"
            await stage.rest(5 * 60)
            found = [(p["base"], p["state"]) for p in model.pulls.values()]
            assert found == [("develop", "open"), ("main", "open")]
            model.mergeable = True
            await stage.rest(5 * 60)
            assert [state for _, state in shown(model)][:2] == ["open", "merged"]

    stage.play(script)


@pytest.mark.slow
def test_the_step_of_the_workload_that_was_promoted_before_is_withdrawn(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request"))
    model, branch = forge_of(stage), "gitkruise/step/test/shop/web/db-50pct-1234567"

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await stage.push(web(), message="first")
            message = "db: promote\n\nGitkruise-Action: promote\nGitkruise-Object: CloneSet shop/db"
            model.open_pull(1, stage.origin.commit({"b.yaml": ""}, message, branch=branch))
            model.pulls[1] |= {"branch": branch, "title": "db: promote"}
            await stage.rest(60)
            assert [state for _, state in shown(model)] == ["closed"]
            assert model.pulls[1]["title"] == "Withdrawn: db: promote"

    stage.play(script)


@pytest.mark.slow
def test_a_step_that_was_withdrawn_is_proposed_again(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            (branch, _), *_ = shown(model)
            model.end_pull(1, "closed")
            model.pulls[1]["title"] = "Withdrawn: web: promote to partition 50%"
        stage.start_over()
        async with promoting(stage, client(model, stage.clock)):
            await stage.rest(3 * 60)
            assert shown(model) == [(branch, "closed"), (branch, "open")]

    stage.play(script)


@pytest.mark.slow
def test_a_forge_that_is_away_is_reported_and_asked_again(staged: MakeStage) -> None:
    stage = staged(promotion=promotion("pull-request"))
    model = forge_of(stage)
    model.fails = away

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            assert standing(stage).why.startswith("the next step cannot be prepared: connection")
            model.fails = lambda _method, _path: None
            await stage.rest(5 * 60)
            assert [state for _, state in shown(model)] == ["open"]
            assert standing(stage).why == ""

    stage.play(script)


@pytest.mark.slow
def test_the_step_of_another_cluster_is_neither_taken_for_ours_nor_closed(
    staged: MakeStage,
) -> None:
    """Two clusters follow one repository; their units and workloads have the same names."""
    stage = staged(promotion=promotion("pull-request"))
    model, work = forge_of(stage), stage.origin.work

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock)):
            await canary(stage)
            ours = model.pulls[1]["branch"]
            theirs = ours.replace("/test/", "/prod/")
            run_git(work, "fetch", "--quiet", "origin")
            run_git(work, "checkout", "--quiet", "--detach", "main")
            message = run_git(work, "log", "-1", "--format=%B", f"origin/{ours}")
            head = stage.origin.commit({"prod/app.yaml": "# step\n"}, message, branch=theirs)
            run_git(work, "checkout", "--quiet", "main")
            model.open_pull(2, head, branch=theirs)
            await stage.push(web("app:v3", partition="75%"), message="better")
            await stage.rest(4 * 60)
            assert [state for _, state in shown(model)] == ["closed", "open", "open"]
            assert ours.startswith("gitkruise/step/test/shop/web/")

    stage.play(script)
