"""A commit that is not live: the record names it, and what it waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gitkruise.gitops.status.serializer import commit_subject
from gitkruise.model.gitops.config import Suspend, UnitSpec
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.commit_statuses import statuses
from gitkruise.wire.primitives.times import format_time
from tests.gitops.stage import MakeStage, Stage, config_map

pytestmark = pytest.mark.slow

OLD, NEW = config_map("a", mode="old"), config_map("a", mode="new")
BLOCKS: list[dict[str, Any]] = [
    {"approval": "always"},
    {"windows": [{"kind": "deny", "schedule": "* * * * *", "duration": "2h"}]},
    {"suspend": {"by": "dana", "reason": "freeze"}},
    {"dependsOn": [{"name": "db"}]},
]
WORDS = ["approval (", "a window (", "the end of its suspension by dana (freeze)", "shop/db ("]


async def live(stage: Stage, spec: dict[str, Any]) -> None:
    """Apply a first commit, then start again with a unit that `spec` blocks."""
    async with stage.running():
        await stage.push(OLD, message="old")
        await stage.rest()
        assert stage.state == "Done"
    stage.spec = msgspec.convert({"sourceRef": {"name": "src"}, **spec}, UnitSpec)
    stage.start_over()


@pytest.mark.parametrize(("spec", "words"), list(zip(BLOCKS, WORDS, strict=True)), ids=WORDS)
def test_a_commit_that_waits(staged: MakeStage, spec: dict[str, Any], words: str) -> None:
    stage = staged()

    async def script() -> None:
        await live(stage, spec)
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, stage.record.waits) == ("Done", "")
            new = await stage.push(NEW, message="new")
            await stage.rest()
        record = stage.record
        assert stage.get("ConfigMap", "a")["data"] == {"mode": "old"}
        assert record.state is State.WAITING
        assert record.waits.startswith(words)
        assert record.message == f"waits for {record.waits}"
        assert record.attempted is not None
        assert record.applied is not None
        assert (record.attempted.id, record.applied.subject) == (new, "old")
        assert new[:7] in commit_subject([record])
        letters = statuses(
            {record.unit: record}, "gitkruise/{unit}", "test", aggregate_above=9, alone=True
        )
        assert [(one.commit, one.state) for one in letters] == [(new, "pending")]
        assert "\nwaits: " in stage.status_file(f"units/{record.unit}/status.yaml")

    stage.play(script)


def test_deletions_wait_for_the_end_of_a_suspension(staged: MakeStage) -> None:
    stage = staged(prune={"maxDeletePercent": 100})

    async def script() -> None:
        async with stage.running():
            await stage.push(OLD, config_map("b", a="b"), message="old")
            await stage.rest()
        stage.spec = msgspec.structs.replace(stage.spec, suspend=Suspend(by="dana"))
        stage.start_over()
        async with stage.running():
            await stage.push(OLD, message="one leaves")
            await stage.rest(120)
            assert stage.get("ConfigMap", "b")
            assert (stage.state, stage.record.waits) == (
                "Waiting",
                "the end of its suspension by dana",
            )

    stage.play(script)


def test_a_waiting_commit_replaces_a_rejected_one(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        await live(stage, {"approval": "always"})
        async with stage.running():
            await stage.push(app="kind: {", message="bad")
            await stage.rest()
            assert stage.state == "Rejected"
            new = await stage.push(NEW, message="good")
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Waiting", ())
            assert stage.record.attempted is not None
            assert stage.record.attempted.id == new

    stage.play(script)


def test_the_end_of_waiting_clears_the_record(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        until = format_time(stage.clock.now() + timedelta(minutes=10))
        await live(stage, {"suspend": {"until": until}})
        async with stage.running():
            await stage.push(NEW, message="new")
            await stage.rest()
            assert stage.record.waits == f"the end of its suspension until {until}"
            await stage.rest(600)
            assert (stage.state, stage.record.waits) == ("Done", "")
            assert stage.get("ConfigMap", "a")["data"] == {"mode": "new"}

    stage.play(script)
