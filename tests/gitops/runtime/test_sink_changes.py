"""A unit that reports to another Sink leaves no record on the branch of the one before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.git.repos import run_git
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map

TWO = {"sinkRef": {"name": "two"}}


def units_on(hands: House, branch: str) -> list[str]:
    """The units of the index, which are those that have files."""
    bare = hands.stage.origin.bare
    if not run_git(bare, "for-each-ref", f"refs/heads/{branch}"):
        return []
    index = run_git(bare, "show", f"{branch}:index.tsv")
    names = [line.split("\t")[0] for line in index.splitlines()[1:]]
    files = run_git(bare, "ls-tree", "-r", "--name-only", branch).splitlines()
    assert sorted({"/".join(f.split("/")[1:3]) for f in files if f.startswith("units/")}) == names
    return names


async def start(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")], other=[config_map("b", x="1")])
    await hands.source()
    for name in ("one", "two"):
        git = {"sourceRef": {"name": "src"}, "branch": f"gitkruise/{name}"}
        await hands.apply("Sink", name, git=git)
    for name in ("web", "other"):
        await hands.unit(name, sinkRef={"name": "one"})
    await hands.rest(60)
    assert units_on(hands, "gitkruise/one") == ["shop/other", "shop/web"]


@pytest.mark.parametrize(("spec", "there"), [(TWO, ["shop/web"]), ({}, [])], ids=["two", "none"])
def test_a_unit_that_moved_is_on_one_branch(
    hands: House, spec: dict[str, Any], there: list[str]
) -> None:
    async def script(hands: House) -> None:
        await start(hands)
        await hands.unit("web", **spec)
        await hands.rest(60)
        assert units_on(hands, "gitkruise/one") == ["shop/other"]
        assert units_on(hands, "gitkruise/two") == there
        why = "its Sink is shop/two now" if there else "it has no Sink now"
        subjects = run_git(hands.stage.origin.bare, "log", "--format=%s", "gitkruise/one")
        assert subjects.splitlines()[0] == f"shop/web: removed, {why} [skip ci]"
        commits = len(subjects.splitlines())
        await hands.unit("other", sinkRef={"name": "one"}, interval="7m")
        await hands.rest(60)
        again = run_git(hands.stage.origin.bare, "log", "--format=%s", "gitkruise/one")
        assert ": removed" not in "".join(again.splitlines()[:-commits])
        await hands.unit("web", sinkRef={"name": "one"})
        await hands.rest(60)
        assert units_on(hands, "gitkruise/one") == ["shop/other", "shop/web"]
        assert units_on(hands, "gitkruise/two") == []

    play(hands, script)


@pytest.mark.slow
def test_a_unit_that_moved_between_two_runs_is_on_one_branch(hands: House) -> None:
    async def move() -> None:
        await hands.unit("web", **TWO)

    async def later(hands: House) -> None:
        await hands.rest(60)
        assert units_on(hands, "gitkruise/one") == ["shop/other"]
        assert units_on(hands, "gitkruise/two") == ["shop/web"]

    play(hands, start)
    hands.stage.play(move)
    play(hands, later)


@pytest.mark.slow
def test_sinks_that_share_a_branch_leave_it_each_other_s_units(hands: House) -> None:
    """A Secret, a forge or a signing key is the Sink's own; the branch need not be."""

    async def begin(hands: House) -> None:
        await start(hands)
        await hands.apply(
            "Sink", "two", git={"sourceRef": {"name": "src"}, "branch": "gitkruise/one"}
        )
        await hands.unit("web", **TWO)
        await hands.rest(60)
        assert units_on(hands, "gitkruise/one") == ["shop/other", "shop/web"]

    async def later(hands: House) -> None:
        await hands.rest(60)
        assert units_on(hands, "gitkruise/one") == ["shop/other", "shop/web"]

    play(hands, begin)
    play(hands, later)
