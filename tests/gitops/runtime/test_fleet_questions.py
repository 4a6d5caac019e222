"""Answers of a running controller about commits and drift, for its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import RunningController, controller
from gitkruise.cli.commands.inspect.dashboard_answers import Answers
from gitkruise.cli.commands.inspect.dashboard_sources import RunningSources
from gitkruise.cli.context.cluster import ChosenCluster
from gitkruise.dashboard.gate import Machine
from gitkruise.errors import DiagnosticError
from gitkruise.gitops.runtime.fleet_questions import RunningFleet
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow

REF = ", ref: {{branch: main}}"
Body = Callable[[Answers, RunningController], Awaitable[Any]]


def ask(stage: Stage, folder: Path, body: Body, source: str = SOURCE) -> Any:
    """Run `body` next to a controller that follows the repository and has come to rest."""
    found: list[Any] = []
    program = options(stage, folder, source + unit("one") + unit("two"))

    async def script() -> None:
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(120)
            fleet = RunningFleet(running.fleet, Gates(), stage.clock)
            chosen = ChosenCluster(
                transport=stage.wire, clock=stage.clock, name="test", namespace="shop"
            )
            answers = Answers(chosen, RunningSources(lambda: fleet))
            found.append(await body(answers, running))

    stage.play(script)
    return found[0]


def pushed(stage: Stage, **folders: str) -> str:
    return stage.origin.commit({f"{name}/app.yaml": text for name, text in folders.items()}, "push")


def test_a_commit_and_its_plan_come_from_the_mirror(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    pushed(stage, one=documents(web("app:v1")), two=documents(config_map("b", x="1")))
    commit = pushed(stage, one=documents(web("app:v2", partition="60%")))

    async def body(answers: Answers, _: RunningController) -> Any:
        about = f"commit/{commit[:7]}", f"plan/{commit[:7]}"
        return [await answers.find_out(one, Machine()) for one in about]

    change, plan = ask(stage, tmp_path, body)
    assert (change["id"], change["subject"]) == (commit, "push")
    (entry,) = plan["entries"]
    assert entry["name"] == "~ CloneSet shop/web"
    assert {field["path"] for field in entry["fields"]} == {
        "template.spec.containers[app].image", "updateStrategy.rollingUpdate.partition",
    }  # fmt: skip
    assert plan["source"] == "offline: pods are counted, not named"


def test_live_objects_are_compared_with_what_their_unit_takes(
    staged: MakeStage, tmp_path: Path
) -> None:
    """A unit that only observes drift leaves it, so that the page has something to show."""
    stage = staged()
    pushed(stage, one=documents(config_map("a", x="1")), two=documents(config_map("b", x="1")))

    async def body(answers: Answers, _: RunningController) -> Any:
        before = await answers.find_out("drift", Machine())
        stage.meddle(config_map("a", x="2"))
        await asyncio.sleep(0)  # the watch tells of it; no round has run yet
        return before, await answers.find_out("drift", Machine())

    before, after = ask(stage, tmp_path, body)
    assert (before["compared"], before["items"]) == (2, [])
    (item,) = after["items"]
    assert (item["field"], item["git"], item["live"]) == ("data.x", "1", "2")


def test_a_unit_without_a_valid_commit_hides_no_drift_of_others(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    pushed(stage, one=documents(config_map("a", x="1")), two="kind: [\n")

    async def body(answers: Answers, _: RunningController) -> Any:
        return await answers.find_out("drift", Machine())

    found = ask(stage, tmp_path, body)
    assert (found["compared"], found["items"]) == (1, [])
    (finding,) = found["findings"]
    assert finding["places"][0]["file"] == "two/app.yaml"


@pytest.mark.parametrize("question", ["commit", "plan"])
def test_commits_that_no_source_follows_are_not_read(
    staged: MakeStage, tmp_path: Path, question: str
) -> None:
    """A pull request's commit is a stranger's: it may be in the mirror, and is not planned."""
    stage = staged()
    pushed(stage, one=documents(config_map("a", x="1")), two=documents(config_map("b", x="1")))
    tree = run_git(stage.origin.bare, "rev-parse", "main^{tree}").strip()
    other = run_git(stage.origin.bare, "commit-tree", tree, "-p", "main", "-m", "mine").strip()
    run_git(stage.origin.bare, "update-ref", "refs/pull/1/head", other)

    async def body(answers: Answers, _: RunningController) -> Any:
        with pytest.raises(DiagnosticError, match="GK3201") as refused:
            await answers.find_out(f"{question}/{other}", Machine())
        return str(refused.value)

    assert other in ask(stage, tmp_path, body)


@pytest.mark.parametrize("source", [SOURCE, SOURCE.replace(REF, "")], ids=["named", "by default"])
def test_a_branch_is_planned_as_its_merge_into_the_followed_one(
    staged: MakeStage, tmp_path: Path, source: str
) -> None:
    stage = staged()
    pushed(stage, one=documents(web("app:v1")), two=documents(config_map("b", x="1")))
    run_git(stage.origin.work, "checkout", "--quiet", "--detach", "main")
    stage.origin.commit({"one/app.yaml": documents(web("app:v2"))}, "new", branch="team/v2")
    run_git(stage.origin.work, "checkout", "--quiet", "main")
    tip = pushed(stage, two=documents(config_map("b", x="2")))

    async def body(answers: Answers, _: RunningController) -> Any:
        about = "branch/shop/src/team/v2"
        return [
            await answers.find_out(f"{q}/{about}", Machine()) for q in ("commit", "plan", "diff")
        ]

    change, plan, diff = ask(stage, tmp_path, body, source)
    head = run_git(stage.origin.bare, "rev-parse", "team/v2")
    assert (change["name"], change["into"], change["base"]) == ("branch team/v2", "main", tip)
    assert change["id"] == head
    assert [entry["name"] for entry in plan["entries"]] == ["~ CloneSet shop/web"]
    assert plan["source"] == "live objects of cluster test"
    assert plan["command"] == f"gitkruise plan {tip[:7]}...{head[:7]}"
    assert [entry["name"] for entry in diff["entries"]] == ["~ CloneSet shop/web"]


@pytest.mark.parametrize(("about", "code"), [
    ("branch/shop/src/other", "GK3201"), ("branch/shop/none/main", "GK7092"),
    ("pr/shop/none/7", "GK7092"), ("branch/shop/src/-x", "GK3201"),
    ("branch/shop/src/../x", "GK3201"),
])  # fmt: skip
def test_a_branch_or_pull_request_that_is_not_there_is_an_error(
    staged: MakeStage, tmp_path: Path, about: str, code: str
) -> None:
    stage = staged()
    pushed(stage, one=documents(config_map("a", x="1")), two=documents(config_map("b", x="1")))

    async def body(answers: Answers, _: RunningController) -> Any:
        with pytest.raises(DiagnosticError) as refused:
            await answers.find_out(f"plan/{about}", Machine())
        return refused.value

    error = ask(stage, tmp_path, body)
    assert error.findings[0].code == code, str(error)


@pytest.mark.parametrize("about", ["pr/shop/src/0", "pr/shop/7", "pr/7", "branch/shop", "pr/"])
def test_places_of_other_forms_have_no_answer(
    staged: MakeStage, tmp_path: Path, about: str
) -> None:
    stage = staged()
    pushed(stage, one=documents(config_map("a", x="1")), two=documents(config_map("b", x="1")))

    async def body(answers: Answers, _: RunningController) -> Any:
        return await answers.find_out(f"plan/{about}", Machine())

    assert ask(stage, tmp_path, body) is None


def test_a_plan_of_an_invalid_commit_says_why(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    pushed(stage, one=documents(config_map("a", x="1")), two=documents(config_map("b", x="1")))
    broken = pushed(stage, one="kind: [\n", two="kind: [\n")

    async def body(answers: Answers, _: RunningController) -> Any:
        with pytest.raises(DiagnosticError, match=r"one/app.yaml:\d+"):
            await answers.find_out(f"plan/{broken}", Machine())

    ask(stage, tmp_path, body)


PROMOTE = "forecast/promote/cloneset/shop/web"


def test_an_edit_is_foreseen_in_the_mirror_and_nothing_is_pushed(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    pushed(stage, one=documents(web("app:v1")), two=documents(config_map("b", x="1")))
    tip = pushed(stage, one=documents(web("app:v2", partition="60%")))

    async def body(answers: Answers, _: RunningController) -> Any:
        edits = PROMOTE, f"{PROMOTE}?partition=20%", PROMOTE.replace("promote", "hold")
        return [await answers.find_out(one, Machine()) for one in edits]

    whole, part, held = ask(stage, tmp_path, body)
    assert "-      partition: 60%" in whole["diff"]
    assert "+      partition: 20%" in part["diff"]
    (entry,) = part["plan"]["entries"]
    assert entry["name"] == "~ CloneSet shop/web"
    assert part["plan"]["source"] == "live objects of cluster test"
    assert part["command"] == "gitkruise promote cloneset/web -n shop --partition 20%"
    assert held.keys() >= {"message"}, "every pod stays where it is: git asks for that already"
    assert run_git(stage.origin.bare, "rev-parse", "main").strip() == tip
    refs = run_git(stage.origin.bare, "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/main"]


@pytest.mark.parametrize(("about", "code"), [
    ("forecast/promote/cloneset/shop/other", "GK7040"),
    ("forecast/rollback/cloneset/shop/web", "GK7041"),
    (f"{PROMOTE}?partition=100%", "GK7042"),
])  # fmt: skip
def test_an_edit_that_the_command_refuses_is_refused_in_its_words(
    staged: MakeStage, tmp_path: Path, about: str, code: str
) -> None:
    stage = staged()
    pushed(
        stage, one=documents(web("app:v1", partition="60%")), two=documents(config_map("b", x="1"))
    )

    async def body(answers: Answers, _: RunningController) -> Any:
        with pytest.raises(DiagnosticError) as refused:
            await answers.find_out(about, Machine())
        return refused.value

    error = ask(stage, tmp_path, body)
    assert error.findings[0].code == code, str(error)


@pytest.mark.parametrize(("about", "code"), [
    (PROMOTE, "GK7067"), ("drift", "GK7067"), ("plan/abcdef0", "GK7067"),
    ("commit/abcdef0", "GK7067"),
])  # fmt: skip
def test_what_a_controller_cannot_answer_is_refused(
    staged: MakeStage, about: str, code: str
) -> None:
    stage = staged()
    chosen = ChosenCluster(transport=stage.wire, clock=stage.clock, name="test", namespace="shop")
    answers = Answers(chosen, RunningSources(lambda: None))
    with pytest.raises(DiagnosticError, match=code) as refused:
        asyncio.run(answers.find_out(about, Machine()))
    assert refused.value.status == 422
