"""Waiting for commits over records as a running unit writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitkruise.errors import Finding
from gitkruise.gitops.inspect.wait import WaitCondition, WaitResult, verdict
from gitkruise.gitops.status.reader import read_units
from gitkruise.model.gitops.config import Config, GitRef, GitSource, GitSourceSpec, Unit
from gitkruise.model.gitops.unit_state import State
from tests.git.repos import run_git
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow

CANARY = {"partition": "50%"}


def met(stage: Stage, commit: str, goal: str) -> bool | None:
    """The verdict on the one unit now."""
    source = GitSource("shop", "src", GitSourceSpec(url="."))
    unit = Unit("shop", "web", stage.spec)
    config = Config({"shop/src": source}, {unit.id: unit}, {})
    wait = WaitCondition(stage.repository, stage.world.catalog, commit, goal, config)
    (answer,) = wait.ask(read_units(stage.repository, STATUS), stage.clock.now())
    return answer.met


def test_a_bad_image_ends_a_wait_and_its_fix_is_not_judged_by_it(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="good")
            await stage.rest()
            bad = await stage.push(web("app:bad"), message="bad")
            await stage.rest(120)
            assert stage.record.state is State.STUCK
            assert [met(stage, bad, goal) for goal in ("applied", "held")] == [True, False]
            fix = stage.origin.commit({"README": "x"}, "unrelated")
            assert met(stage, fix, "held") is False
            fix = await stage.push(web(), message="fix")
            assert met(stage, fix, "held") is None  # not read yet
            await stage.rest(120)
            assert met(stage, fix, "done") is True

    stage.play(script)


@pytest.mark.slow
def test_pausing_a_held_canary_is_reached(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            await stage.push(web("app:v2", **CANARY))
            await stage.rest()
            paused = await stage.push(web("app:v2", paused=True, **CANARY))
            await stage.rest()
            assert stage.record.state is State.PAUSED
            assert [met(stage, paused, goal) for goal in ("applied", "held", "done")] == [
                True, True, None,
            ]  # fmt: skip
            ((_, steps),) = stage.record.steps
            assert [(step.state, step.done is not None) for step in steps] == [
                (State.DONE, True), (State.HELD, True), (State.PAUSED, False),
            ]  # fmt: skip

    stage.play(script)


REFS = [
    (GitRef(tag="v1.0.0"), "tag v1.0.0"),
    (GitRef(name="refs/tags/v1.0.0"), "tag v1.0.0"),
    (GitRef(semver=">=1.0.0"), "tag v1.0.0"),
    (GitRef(branch="main"), ""),
    (GitRef(tag="v9"), ""),  # the controller may know it
]


@pytest.mark.parametrize(("ref", "text"), REFS)
def test_a_unit_at_a_tag_is_not_awaited_for_what_the_tag_lacks(
    staged: MakeStage, ref: GitRef, text: str
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            run_git(stage.origin.work, "tag", "v1.0.0")
            run_git(stage.origin.work, "push", "-q", "origin", "v1.0.0")
            await stage.rest()
            commit = stage.origin.commit({"web.yaml": documents(web("app:v2"))})
            source = GitSource("shop", "src", GitSourceSpec(url=".", ref=ref))
            unit = Unit("shop", "web", stage.spec)
            config = Config({"shop/src": source}, {unit.id: unit}, {})

            def answer(commit: str) -> WaitResult:
                wait = WaitCondition(stage.repository, stage.world.catalog, commit, "done", config)
                (found,) = wait.ask(read_units(stage.repository, STATUS), stage.clock.now())
                return found

            found = answer(commit)
            assert (found.met, found.passed_by) == ((False, True) if text else (None, False))
            assert text in found.why
            assert verdict([found]) is found.met
            assert verdict([found, replace(found, met=True, passed_by=False)]) is (
                True if text else None
            )
            run_git(stage.origin.work, "tag", "v1.1.0")
            run_git(stage.origin.work, "push", "-q", "origin", "v1.1.0")
            assert answer(commit).passed_by == (bool(text) and not ref.semver)

    stage.play(script)


def test_drift_that_stays_hides_no_rollout(staged: MakeStage) -> None:
    stage = staged(drift={"mode": "detect"})
    settings = config_map("settings", mode="fast")

    async def script() -> None:
        async with stage.running():
            await stage.push(settings, web())
            await stage.rest()
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest()
            held = await stage.push(settings, web("app:v2", **CANARY))
            await stage.rest(1)
            assert met(stage, held, "held") is None
            await stage.rest()
            assert stage.record.state is State.DRIFTED
            assert [met(stage, held, goal) for goal in ("held", "done")] == [True, None]
            stage.meddle(web("app:other", **CANARY))
            await stage.rest(120)
            assert met(stage, held, "held") is None

    stage.play(script)


def test_a_wait_for_rewritten_history_ends_and_the_live_commit_is_met(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web(), message="first")
            live = await stage.push(web("app:v2"), message="second")
            await stage.rest()
            run_git(stage.origin.work, "reset", "-q", "--hard", first)
            run_git(stage.origin.work, "commit", "-q", "--allow-empty", "-m", "rewritten")
            run_git(stage.origin.work, "push", "-q", "--force", "origin", "HEAD:main")
            tip = run_git(stage.origin.work, "rev-parse", "HEAD")
            assert met(stage, tip, "held") is None  # not seen yet
            await stage.follower.check()
            await stage.rest()
            assert stage.record.about is not None
            assert (stage.record.state, stage.record.about.id) == (State.REJECTED, tip)
            assert [met(stage, tip, goal) for goal in ("applied", "held")] == [False, False]
            assert met(stage, live, "held") is True

    stage.play(script)


def test_a_rewritten_commit_is_not_met_by_the_content_of_the_live_one(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="first")
            await stage.rest()
            stage.origin.commit({"README": "x"}, "unrelated")
            await stage.follower.check()
            await stage.rest()
            run_git(stage.origin.work, "commit", "-q", "--amend", "-m", "rewritten")
            run_git(stage.origin.work, "push", "-q", "--force", "origin", "HEAD:main")
            await stage.follower.check()
            await stage.rest()
            tip = run_git(stage.origin.work, "rev-parse", "HEAD")
            assert [met(stage, tip, goal) for goal in ("applied", "held")] == [False, False]

    stage.play(script)


def test_a_rejected_successor_does_not_decide_about_a_commit_that_rolls_out(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="good")
            await stage.rest()
            mine = await stage.push(web("app:bad"), message="mine")
            await stage.rest(5)
            unrelated = stage.origin.commit({"README": "x"}, "unrelated")
            await stage.follower.check()
            theirs = await stage.push(web("app:bad", partitoin=0), message="theirs")
            await stage.rest(5)
            assert stage.record.state is State.REJECTED
            for live in (mine, unrelated):
                assert [met(stage, live, goal) for goal in ("applied", "held")] == [True, None]
            assert [met(stage, theirs, goal) for goal in ("applied", "held")] == [False, False]

    stage.play(script)


def commit(stage: Stage, image: str, message: str) -> str:
    """Push without a look of the follower."""
    return stage.origin.commit({"app.yaml": documents(web(image))}, message)


def test_a_wait_for_a_commit_without_the_signature_it_needs_ends(staged: MakeStage) -> None:
    stage = staged()
    bad: set[str] = set()
    unsigned = Finding(code="GK3302", message="not signed", notes=(("next", "sign it"),))

    def judged(commit: str, ref: str = "") -> Finding | None:
        return unsigned if commit in bad else None

    stage.trusted = lambda _: judged
    stage.start_over()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), message="signed")
            await stage.rest()
            bad.add(one := commit(stage, "app:v2", "unsigned"))
            await stage.follower.check()
            await stage.rest()
            assert met(stage, one, "held") is False
            bad.add(other := commit(stage, "app:v3", "unsigned, too"))
            await stage.follower.check()
            await stage.rest()
            assert met(stage, other, "applied") is False
            bad.clear()
            await stage.follower.check()
            await stage.rest()
            assert met(stage, other, "done") is True

    stage.play(script)
