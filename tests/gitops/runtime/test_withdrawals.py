"""Pull requests of steps, rollbacks and images that no unit of a program asks for any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from tests.git.repos import run_git
from tests.gitops.forges.forges import REPO, TOKEN, ModelForge, away, served
from tests.gitops.objects import House
from tests.gitops.programs import SOURCE, unit
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import config_map, documents
from tests.observer.program import Program
from tests.observer.pulls import CHECK, SINK

pytestmark = pytest.mark.slow
SINK_REF: Final = ", sinkRef: {{name: git}}"
PROMOTION: Final = (
    ", promotion: {{workload: {{kind: CloneSet, name: web}}, steps: [{{partition: 0}}], via: %s}}"
)
PULLED, PUSHED = PROMOTION % "pull-request", PROMOTION % "commit"
REVERTED: Final = ", onFailure: revert-pr"
STEP, REVERT, IMAGES = (
    f"gitkruise/{name}" for name in ("step/test/shop/one/web-0-1234567",
                                     "revert/test/shop/one/web-1234567", "images/test/shop/one")
)  # fmt: skip
ACTIONS: Final = {STEP: "promote", REVERT: "rollback", IMAGES: "update-images"}


def proposed(program: Program, forge: ModelForge, number: int, branch: str, action: str) -> None:
    """Open a pull request of a branch whose commit names an action."""
    work = program.origin.work
    run_git(work, "checkout", "--quiet", "--detach", "main")
    trailers = f"Gitkruise-Action: {action}" if action else "Signed-off-by: A User"
    files = {f"one/{number}.yaml": "# changed\n"}
    head = program.origin.commit(files, f"subject\n\nbody\n\n{trailers}", branch=branch)
    run_git(work, "checkout", "--quiet", "main")
    forge.open_pull(number, head, branch=branch)
    forge.pulls[number]["title"] = "subject"


def left(forge: ModelForge) -> list[str]:
    return [p["branch"] for _, p in sorted(forge.pulls.items()) if p["state"] == "open"]


class Proposing:
    """A program with a forge on which three pull requests of its unit `one` are open."""

    def __init__(self, folder: Path) -> None:
        self.program, self.forge = Program(folder, ""), ModelForge("github")
        files = {f"{name}/a.yaml": documents(config_map(name, x="1")) for name in ("one", "two")}
        self.program.origin.commit(files, "first")

    def propose(self) -> None:
        for number, (branch, action) in enumerate(ACTIONS.items(), 1):
            proposed(self.program, self.forge, number, branch, action)

    async def start(self, url: str, more: str | None, seconds: float = 60) -> None:
        """Run with a unit `one` of these fields; None: without it."""
        sink = SINK.format(forge=url, repo=REPO, check=CHECK)
        one = unit("one", more) if more is not None else ""
        self.program.configure(SOURCE + sink + unit("two", SINK_REF) + one)
        async with self.program.up():
            await self.program.stage.rest(seconds)


@pytest.fixture
def proposing(tmp_path: Path) -> Any:
    made = Proposing(tmp_path)
    yield made
    made.program.stage.close()


ROWS: Final = [
    # fields of the unit, what stays open, why a step or a rollback does not
    (SINK_REF, [], "shop/one opens no pull requests for its `promotion` now."),
    (SINK_REF + PULLED, [STEP], "shop/one opens no pull requests for its `onFailure` now."),
    (SINK_REF + PUSHED, [], "shop/one opens no pull requests for its `promotion` now."),
    (SINK_REF + REVERTED, [REVERT], "shop/one opens no pull requests for its `promotion` now."),
    (SINK_REF + PULLED + REVERTED, [STEP, REVERT], ""),
    ("", [], "shop/one opens no pull requests for its `promotion` now."),
    (None, [], "shop/one left the configuration of test."),
]


@pytest.mark.parametrize(("more", "stays", "why"), ROWS)
def test_what_a_unit_does_not_ask_for_any_more_is_withdrawn_at_the_next_start(
    proposing: Proposing, more: str | None, stays: list[str], why: str
) -> None:
    async def script() -> None:
        async with served(proposing.forge) as url:
            put_secret(proposing.program.stage, "forge", token=TOKEN)
            await proposing.start(url, SINK_REF + PULLED + REVERTED)
            proposing.propose()
            await proposing.start(url, more)

    proposing.program.play(script, inside=True)
    forge = proposing.forge
    assert left(forge) == stays
    gone = [n for n, p in forge.pulls.items() if p["state"] == "closed"]
    assert all(forge.pulls[n]["title"] == "Withdrawn: subject" for n in gone)
    comments = [c["body"] for n in gone[:1] for c in forge.comments[n] if "<!--" not in c["body"]]
    assert comments == ([why] if why and gone[0] != 3 else comments)


def test_pull_requests_of_others_stay_open(proposing: Proposing) -> None:
    """Of another cluster, of a unit that never was of this configuration, and of a user, who
    pushed to our branch."""
    others = [
        STEP.replace("/test/", "/prod/"), STEP.replace("/one/", "/three/"), f"{STEP}-edited",
        "topic",
    ]  # fmt: skip

    async def script() -> None:
        async with served(proposing.forge) as url:
            put_secret(proposing.program.stage, "forge", token=TOKEN)
            await proposing.start(url, SINK_REF + PULLED)
            for number, branch in enumerate(others, 1):
                action = "promote" if branch not in others[2:] else ""
                proposed(proposing.program, proposing.forge, number, branch, action)
            await proposing.start(url, None)

    proposing.program.play(script, inside=True)
    assert left(proposing.forge) == others


def test_a_forge_that_is_away_is_asked_again(proposing: Proposing) -> None:
    async def script() -> None:
        async with served(proposing.forge) as url:
            put_secret(proposing.program.stage, "forge", token=TOKEN)
            await proposing.start(url, SINK_REF + PULLED)
            proposing.propose()
            proposing.forge.fails = away
            sink = SINK.format(forge=url, repo=REPO, check=CHECK)
            proposing.program.configure(SOURCE + sink + unit("two", SINK_REF))
            async with proposing.program.up():
                await proposing.program.stage.rest(60)
                assert left(proposing.forge) == list(ACTIONS)
                proposing.forge.fails = lambda _method, _path: None
                await proposing.program.stage.rest(5 * 60)
                assert left(proposing.forge) == []

    proposing.program.play(script, inside=True)


def test_a_unit_that_is_changed_or_deleted_in_the_cluster_withdraws_them_immediately(
    proposing: Proposing, tmp_path: Path
) -> None:
    program, forge = proposing.program, proposing.forge
    house = House(program.stage, tmp_path)
    promotion = {"workload": {"kind": "CloneSet", "name": "web"}, "steps": [{"partition": 0}],
                 "via": "pull-request"}  # fmt: skip
    sink = {"sinkRef": {"name": "git"}}

    async def script() -> None:
        async with served(forge) as url:
            put_secret(program.stage, "forge", token=TOKEN)
            async with controller(house.program(), program.stage.wire, program.stage.clock):
                await house.source()
                await house.apply(
                    "Sink", "git", git={"sourceRef": {"name": "src"}},
                    forge={"type": "github", "url": url, "repo": REPO,
                           "secretRef": {"name": "forge"}},
                )  # fmt: skip
                await house.unit("one", **sink, promotion=promotion, onFailure="revert-pr")
                await house.rest()
                proposing.propose()
                await house.unit("one", **sink, promotion=promotion)
                await house.rest()
                assert left(forge) == [STEP]
                await house.ask("delete", "Unit", "one")
                await house.rest()
                assert left(forge) == []

    program.play(script, inside=True)
