"""Open pull requests of a whole program with a forge, as its pages list and plan them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitkruise.cli.commands.inspect.dashboard_answers import Answers
from gitkruise.cli.commands.inspect.dashboard_sources import RunningSources
from gitkruise.cli.context.cluster import ChosenCluster
from gitkruise.dashboard.gate import Machine
from gitkruise.gitops.runtime.fleet_questions import RunningFleet
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.repos import run_git
from tests.gitops.forges.forges import REPO, TOKEN, ModelForge, served
from tests.gitops.programs import SOURCE, unit
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import config_map, documents
from tests.observer.program import Program
from tests.observer.pulls import CHECK, SINK

pytestmark = pytest.mark.slow
PLACE = "pr/shop/git/7"


def opened(program: Program, forge: ModelForge) -> str:
    """Open a pull request that changes both units; return its head."""
    origin = program.origin
    run_git(origin.work, "checkout", "--quiet", "--detach", "main")
    files = {f"{n}/a.yaml": documents(config_map(n, x="2")) for n in ("one", "two")}
    head = origin.commit(dict(files), "both", branch="topic")
    run_git(origin.bare, "update-ref", "refs/pull/7/head", head)
    run_git(origin.work, "checkout", "--quiet", "main")
    forge.open_pull(7, head, branch="topic")
    return head


def test_an_open_pull_request_is_listed_with_its_units_and_has_a_plan(tmp_path: Path) -> None:
    program, forge = Program(tmp_path, ""), ModelForge("github")
    stage, found = program.stage, dict[str, Any]()
    program.origin.commit(
        {f"{n}/a.yaml": documents(config_map(n, x="1")) for n in ("one", "two")}, "first"
    )

    async def script() -> None:
        async with served(forge) as url:
            put_secret(stage, "forge", token=TOKEN)
            sink = SINK.format(forge=url, repo=REPO, check=CHECK)
            units = [unit(n, ", sinkRef: {{name: git}}") for n in ("one", "two")]
            program.configure(SOURCE + sink + "".join(units))
            async with program.up() as running:
                found["early"] = dict(
                    RunningSources(
                        lambda: RunningFleet(running.fleet, Gates(), stage.clock)
                    ).listed()
                )
                head = opened(program, forge)
                await stage.rest(60)
                fleet = RunningFleet(running.fleet, Gates(), stage.clock)
                sources = RunningSources(lambda: fleet)
                chosen = ChosenCluster(
                    transport=stage.wire, clock=stage.clock, name="test", namespace="shop"
                )
                answers = Answers(chosen, sources)
                found.update(sources.listed())
                found["head"] = head
                for question in ("commit", "plan"):
                    found[question] = await answers.find_out(f"{question}/{PLACE}", Machine())

    try:
        program.play(script, inside=True)
    finally:
        stage.close()
    row = found[PLACE]
    assert (row["number"], row["into"], row["branch"]) == (7, "main", "topic")
    assert (row["head"], row["units"]) == (found["head"], ["shop/one", "shop/two"])
    assert found["branch/shop/src"]["units"] == ["shop/one", "shop/two"]
    assert found["early"]["forge/shop/git"]["problem"] == "not read yet"
    assert found["forge/shop/git"]["problem"] == ""
    assert found["forge/shop/git"]["units"] == ["shop/one", "shop/two"]
    assert found["commit"]["name"] == "pull request 7"
    assert found["plan"]["source"] == "live objects of cluster test"
    assert found["plan"]["summary"].startswith("2 changed")


def test_a_source_that_follows_a_tag_has_no_plan_of_its_branch(tmp_path: Path) -> None:
    """A merge moves no unit of it: the tag comes first where the GitSource names both."""
    program, forge = Program(tmp_path, ""), ModelForge("github")
    stage, listed = program.stage, dict[str, Any]()
    program.origin.commit(
        {f"{n}/a.yaml": documents(config_map(n, x="1")) for n in ("one", "two")}, "first"
    )
    run_git(program.origin.work, "push", "--quiet", "origin", "HEAD:refs/tags/v1")

    async def script() -> None:
        async with served(forge) as url:
            put_secret(stage, "forge", token=TOKEN)
            sink = SINK.format(forge=url, repo=REPO, check=CHECK)
            units = [unit(n, ", sinkRef: {{name: git}}") for n in ("one", "two")]
            source = SOURCE.replace("branch: main", "branch: main, tag: v1")
            program.configure(source + sink + "".join(units))
            async with program.up() as running:
                head = opened(program, forge)
                await stage.rest(60)
                fleet = RunningFleet(running.fleet, Gates(), stage.clock)
                listed.update(RunningSources(lambda: fleet).listed())
                assert {str(r.record.state) for r in running.reporters.values()} == {"Done"}
                assert (head, CHECK) not in forge.statuses

    try:
        program.play(script, inside=True)
    finally:
        stage.close()
    assert forge.comments == {}
    assert PLACE not in listed
    assert "branch/shop/src" not in listed


def test_a_source_without_a_ref_has_plans_of_the_default_branch(tmp_path: Path) -> None:
    program, forge = Program(tmp_path, ""), ModelForge("github")
    stage, listed = program.stage, dict[str, Any]()
    program.origin.commit(
        {f"{n}/a.yaml": documents(config_map(n, x="1")) for n in ("one", "two")}, "first"
    )
    run_git(program.origin.bare, "branch", "trunk", "main")

    async def script() -> None:
        async with served(forge) as url:
            put_secret(stage, "forge", token=TOKEN)
            sink = SINK.format(forge=url, repo=REPO, check=CHECK)
            units = [unit(n, ", sinkRef: {{name: git}}") for n in ("one", "two")]
            source = SOURCE.replace(", ref: {{branch: main}}", "")
            assert source != SOURCE
            program.configure(source + sink + "".join(units))
            async with program.up() as running:
                head = opened(program, forge)
                await stage.rest(60)
                fleet = RunningFleet(running.fleet, Gates(), stage.clock)
                listed.update(RunningSources(lambda: fleet).listed())
                assert forge.last(head, CHECK) == ("success", "2 changed")
                assert listed[PLACE]["units"] == ["shop/one", "shop/two"]
                run_git(program.origin.bare, "symbolic-ref", "HEAD", "refs/heads/trunk")
                await stage.rest(60)
                into = "outdated: it asks for `main` now, which no unit follows"
                assert into in forge.comments[7][0]["body"]
                forge.pulls[7]["base"] = "trunk"
                await stage.rest(60)
                assert "→ `trunk` on `test` · ✅ current" in forge.comments[7][0]["body"]

    try:
        program.play(script, inside=True)
    finally:
        stage.close()
