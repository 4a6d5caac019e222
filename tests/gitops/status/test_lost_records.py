"""Records that others removed from the status branch: they are written again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gitkruise.git.plumbing.errors import push_refused
from gitkruise.git.plumbing.process import Result
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.model.gitops.unit_state import State
from gitkruise.sandbox.controllers import alongside
from tests.git.repos import run_git
from tests.gitops.stage import STATUS, UNIT, MakeStage, config_map

pytestmark = pytest.mark.slow

STATUS_FILE = f"units/{UNIT}/status.yaml"
ENDS = (State.ROLLING, State.DONE)


@pytest.mark.parametrize(
    "meddling", [("-d", STATUS), (STATUS, "main")],
    ids=["deleted", "another branch in its place"],
)  # fmt: skip
def test_a_branch_that_lost_the_records_gets_them_again(
    staged: MakeStage, meddling: tuple[str, ...]
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", mode="old"))
            await stage.rest()
            before = stage.status_file(STATUS_FILE)
            run_git(stage.origin.bare, "update-ref", *meddling)
            await stage.rest(90)
            assert stage.status_file(STATUS_FILE) == before
            written = len(stage.diary())
            await stage.rest(3600)
            assert len(stage.diary()) == written

    stage.play(script)


def test_a_refused_push_is_logged_with_its_cause(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged()

    async def refuse() -> None:
        raise push_refused("https://git/shop", "protected branch", Result(1, b"", ""))

    outbox = Outbox(
        stage.branch, None, stage.clock, coalesce=timedelta(seconds=1), renew=refuse
    )  # fmt: skip

    async def script() -> None:
        async with stage.running(), alongside(outbox.run()):
            await stage.push(config_map("a", mode="old"))
            await stage.rest()
            outbox.offer(stage.record)
            await stage.rest()

    stage.play(script)
    message = "GK3106: the push to https://git/shop was refused (protected branch)"
    assert f'status-branch-not-written ref={STATUS} error="{message}" next="check' in caplog.text
    assert caplog.text.count("status-branch-not-written") < 5, "rarer each time"


def test_the_records_of_the_process_that_leads_are_not_overwritten(staged: MakeStage) -> None:
    stage = staged()
    first, second = (
        Outbox(stage.branch, None, stage.clock, coalesce=timedelta(seconds=5)) for _ in range(2)
    )
    rolling, done = (replace(stage.record, message=str(state), state=state) for state in ENDS)
    leads = [first]
    first.yields = lambda: leads != [first]

    async def script() -> None:
        async with alongside(first.run()):
            first.offer(rolling)
            await stage.clock.sleep(30)
            leads[:] = [second]
            second.offer(done)
            await second.flush()
            first.offer(replace(rolling, message="out of date"))
            await stage.clock.sleep(300)
            assert await first.flush() is None
            assert first.idle
            assert "state: Done" in stage.status_file(STATUS_FILE)
            first.offer(rolling)
            leads[:] = [first]
            await stage.clock.sleep(30)
            assert "state: Rolling" in stage.status_file(STATUS_FILE)

    stage.play(script)


def test_a_write_that_outlives_the_lease_undoes_nothing(staged: MakeStage) -> None:
    """A process that is stopped between its look at the lease and its push goes on later."""
    stage = staged()
    second = Outbox(stage.branch, None, stage.clock, coalesce=timedelta(seconds=5))
    rolling, done = (replace(stage.record, message=str(state), state=state) for state in ENDS)
    leads: list[Outbox] = []

    async def taken_over() -> None:
        if not leads:
            leads.append(second)
            second.offer(done)
            await second.flush()

    first = Outbox(
        stage.branch, None, stage.clock, coalesce=timedelta(seconds=5), renew=taken_over
    )  # fmt: skip
    first.yields = lambda: bool(leads)

    async def script() -> None:
        async with alongside(first.run()):
            first.offer(rolling)
            await stage.clock.sleep(300)
            assert "state: Done" in stage.status_file(STATUS_FILE)
            assert (first.idle, first.problem) == (True, "")

    stage.play(script)


def test_a_commit_of_others_on_the_branch_is_no_loss(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("a", mode="old"))
            await stage.rest()
            tip = run_git(stage.origin.bare, "rev-parse", STATUS)
            tree = run_git(stage.origin.bare, "rev-parse", f"{STATUS}^{{tree}}")
            words = ("-p", tip, "-m", "empty")
            made = run_git(stage.origin.bare, "commit-tree", tree, *words)
            run_git(stage.origin.bare, "update-ref", STATUS, made)
            await stage.rest(3600)
            assert stage.diary()[-1] == "empty"

    stage.play(script)
