"""Pages of a replica with shards: its own units as they are, those of others as they recorded."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import RunningController, RunOptions
from gitkruise.cli.commands.inspect.dashboard_answers import Answers
from gitkruise.cli.commands.inspect.dashboard_records import ReceivedRecords
from gitkruise.cli.commands.inspect.dashboard_sources import RunningSources
from gitkruise.cli.context.cluster import ChosenCluster
from gitkruise.dashboard.gate import Machine
from gitkruise.model.gitops.shards import Shard, shard_of
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.controllers import alongside
from gitkruise.sharding import sharded
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, unit
from tests.gitops.runtime.test_shards import COUNT, UNITS, Fleet, Replica
from tests.gitops.stage import MakeStage

pytestmark = pytest.mark.slow


class Watched(Fleet):
    """Replicas, each of which hears its records as `run --dashboard` does."""

    def __init__(self, *around: Any) -> None:
        super().__init__(*around)
        self.pages: dict[str, ReceivedRecords] = {}

    async def _live(self, replica: Replica, program: RunOptions, count: int) -> None:
        clock, pages = self.stage.clock, ReceivedRecords()
        self.pages[replica.name] = pages

        def record_shard(shard: Shard, running: RunningController | None) -> None:
            pages.receive_shard(shard, running.fleet if running else None, Gates(), clock)

        program = replace(program, listeners=(pages.receive,))
        async with sharded(
            program, replica.wire, clock, count=count, on_shard=record_shard
        ) as shards:
            pages.shards = shards
            async with alongside(pages.read_elsewhere("test", clock)):
                await asyncio.get_running_loop().create_future()

    def of(self, name: str) -> set[str]:
        """The units whose shard a replica holds."""
        mine = {number for number, holder in enumerate(self.holders) if holder == name}
        return {f"shop/{n}" for n in UNITS if shard_of(f"shop/{n}", COUNT) in mine}

    async def ask(self, name: str, about: str) -> Any:
        chosen = ChosenCluster(
            transport=self.stage.wire, clock=self.stage.clock, name="test", namespace="shop"
        )
        pages = self.pages[name]
        answers = Answers(chosen, RunningSources(lambda: pages.fleet))
        return await answers.find_out(about, Machine())


@pytest.fixture
def fleet(staged: MakeStage, tmp_path: Path) -> Watched:
    return Watched(staged(), tmp_path)


def states(pages: ReceivedRecords) -> dict[str, str]:
    return {one.unit: str(one.state) for one in pages.news()}


ALL = {f"shop/{n}" for n in UNITS}


def test_every_replica_shows_every_unit_and_says_who_has_it(fleet: Watched) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a")
        await fleet.stage.rest(40)
        assert states(fleet.pages["a"]) == dict.fromkeys(ALL, "Done")
        assert fleet.pages["a"].why_stale() == []
        fleet.start("b")
        await fleet.stage.rest(60)
        fleet.push("two")
        await fleet.stage.rest(90)
        for name, other in (("a", "b"), ("b", "a")):
            pages, mine = fleet.pages[name], fleet.of(name)
            assert mine
            assert mine < ALL
            assert states(pages) == dict.fromkeys(ALL, "Done")
            assert pages.elsewhere.holders.keys() == ALL - mine
            assert all(
                who.startswith(f"replica {other}_") for who in pages.elsewhere.holders.values()
            )
            (line,) = pages.why_stale()
            assert line.startswith(f"{len(ALL - mine)} unit")
            assert "as recorded on the status branch, written 20" in line
            about = {one.about.id for one in pages.news() if one.about}
            assert len(about) == 1

    fleet.play(script)


def test_units_of_a_replica_that_ended_are_shown_as_their_own_soon(fleet: Watched) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a")
        fleet.start("b")
        await fleet.stage.rest(60)
        assert fleet.of("b")
        await fleet.replicas["b"].leave()
        await fleet.stage.rest(60)
        pages = fleet.pages["a"]
        assert pages.units.keys() == ALL
        assert (pages.elsewhere.holders, pages.why_stale()) == ({}, [])
        ended = fleet.pages["b"]
        assert (ended.units, ended.fleet) == ({}, None)
        assert "has no shard now" in ended.why_stale()[0]

    fleet.play(script)


def test_units_without_a_record_are_counted(fleet: Watched) -> None:
    """Their replica knows their state in its memory only."""
    text = SOURCE + "".join(unit(n) for n in UNITS)

    async def script() -> None:
        fleet.push("one")
        fleet.start("a", text=text)
        fleet.start("b", text=text)
        await fleet.stage.rest(60)
        pages, mine = fleet.pages["a"], fleet.of("a")
        assert states(pages).keys() == mine
        (line,) = pages.why_stale()
        assert line.startswith(f"{len(ALL - mine)} unit")
        assert "no record that this one can read" in line

    fleet.play(script)


def test_plans_are_of_all_units_and_drift_names_what_is_not_compared(fleet: Watched) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a")
        fleet.start("b")
        await fleet.stage.rest(60)
        fleet.push("two")
        await fleet.stage.rest(60)
        head = run_git(fleet.stage.origin.bare, "rev-parse", "main").strip()
        plan = await fleet.ask("a", f"plan/{head}")
        assert plan["summary"].startswith("9 changed")
        drift = await fleet.ask("a", "drift")
        there = ALL - fleet.of("a")
        messages = [one["message"] for one in drift["findings"]]
        assert messages == [
            f"unit {name} is not in a shard of this replica" for name in sorted(there)
        ]
        assert drift["compared"] == 9 - len(there) - (1 if "shop/a" in there else 0)

    fleet.play(script)
