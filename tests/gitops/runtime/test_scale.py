"""What many units of one repository cost grows with what changes, not with how many there are."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.gitops.cluster.ownership import Claims
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.kube.cache.subscriptions import Interests
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

UNITS: Final = 6
OBJECTS: Final = 2  # a unit
KEYS: Final = [ObjectKey("", "ConfigMap", SPACE, f"k{number}") for number in range(4)]


class Fleet:
    """Units u0, u1, … in folders of their own, driven by the assembled program."""

    def __init__(self, stage: Stage, folder: Path, count: int) -> None:
        self.stage, self.count = stage, count
        self.records: list[UnitRecord] = []
        for made in ("heads/gitkruise/status", "notes/gitkruise"):  # before they are watched
            (stage.origin.bare / "refs" / made).mkdir(parents=True)
        config = folder / "config.yaml"
        config.write_text("---\n".join(f"{json.dumps(one)}\n" for one in self._documents()))
        self.options = RunOptions(
            config=load_config(config), cluster="test", state_dir=folder / "state",
            identity="one", listeners=(self.records.append,),
        )  # fmt: skip

    def _documents(self) -> list[dict[str, Any]]:
        ref, url = {"sourceRef": {"name": "src"}}, str(self.stage.origin.bare)
        specs: list[tuple[str, str, dict[str, Any]]] = [
            ("GitSource", "src", {"url": url, "ref": {"branch": "main"}}),
            ("Sink", "out", {"git": {**ref, "branch": "gitkruise/status/{cluster}"}}),
        ]
        for number in range(self.count):
            spec = {**ref, "path": f"units/u{number}", "sinkRef": {"name": "out"}}
            specs.append(("Unit", f"u{number}", spec))
        meta = {"apiVersion": "gitkruise.io/v1alpha1"}
        return [
            {**meta, "kind": kind, "metadata": {"name": name, "namespace": SPACE}, "spec": spec}
            for kind, name, spec in specs
        ]

    def files(self) -> dict[str, str]:
        return {f"units/u{n}/app.yaml": self.text(n) for n in range(self.count)}

    def text(self, number: int) -> str:
        return documents(*(config_map(f"u{number}-{one}", a="b") for one in range(OBJECTS)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningController]:
        async with controller(self.options, self.stage.wire, self.stage.clock) as running:
            await self.stage.rest(60)
            yield running

    @property
    def requests(self) -> list[ApiRequest]:
        """All but the lease's."""
        return [r for r in self.stage.wire.requests if r.resource.plural != "leases"]

    def writes(self, *, dry: bool = False) -> list[str]:
        return [
            request.name
            for request in self.requests
            if request.verb not in {"get", "list"} and ("dryRun" in request.params) == dry
        ]


def test_objects_are_looked_for_once_however_many_units_there_are(tmp_path: Path) -> None:
    reads = []
    for count in (2, UNITS):
        folder = tmp_path / str(count)
        folder.mkdir()
        stage = Stage(folder)
        fleet = Fleet(stage, folder, count)
        stage.origin.commit(fleet.files())

        async def script(fleet: Fleet = fleet, stage: Stage = stage) -> None:
            async with fleet.running() as running:
                assert {str(r.record.state) for r in running.reporters.values()} == {"Done"}
            assert len(fleet.writes()) == fleet.count * OBJECTS
            assert len(fleet.writes(dry=True)) == fleet.count * OBJECTS
            reads.append(sum(request.verb in {"get", "list"} for request in fleet.requests))

        stage.play(script)
        stage.close()
    assert reads[0] == reads[1]


def test_one_changed_file_costs_one_unit_one_patch(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    fleet = Fleet(stage, tmp_path, UNITS)
    stage.origin.commit(fleet.files())

    async def script() -> None:
        async with fleet.running() as running:
            seen, recorded = len(fleet.requests), len(fleet.records)
            tip = run_git(stage.origin.bare, "rev-parse", STATUS)
            text = fleet.text(3).replace("a: b", "a: c", 1)
            commit = stage.origin.commit({"units/u3/app.yaml": text}, "one")
            await running.pollings[f"{SPACE}/src"].check()
            await stage.rest(60)
            asked = [(r.verb, r.name, "dryRun" in r.params) for r in fleet.requests[seen:]]
            assert asked == [("patch", "u3-0", True), ("patch", "u3-0", False)]
            assert {record.unit for record in fleet.records[recorded:]} == {f"{SPACE}/u3"}
            changed = run_git(stage.origin.bare, "diff", "--name-only", tip, STATUS, "--", "units")
            assert {path.split("/")[2] for path in changed.splitlines()} == {"u3"}
            assert {unit.live_commit for unit in running.units.values()} == {commit}

    stage.play(script)


def test_a_file_outside_of_every_unit_costs_nothing(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    fleet = Fleet(stage, tmp_path, UNITS)
    stage.origin.commit(fleet.files())

    async def script() -> None:
        async with fleet.running() as running:
            seen, recorded = len(fleet.requests), len(fleet.records)
            commit = stage.origin.commit({"README.md": "hello"}, "words")
            await running.pollings[f"{SPACE}/src"].check()
            await stage.rest(60)
            assert len(fleet.requests) == seen
            assert len(fleet.records) == recorded
            assert {unit.live_commit for unit in running.units.values()} == {commit}

    stage.play(script)


def test_a_restart_writes_nothing_and_reports_nothing(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    fleet = Fleet(stage, tmp_path, UNITS)
    stage.origin.commit(fleet.files())

    async def script() -> None:
        async with fleet.running():
            pass
        writes, tip = fleet.writes(), run_git(stage.origin.bare, "rev-parse", STATUS)
        async with fleet.running() as running:
            assert {str(r.record.state) for r in running.reporters.values()} == {"Done"}
        assert fleet.writes() == writes
        assert run_git(stage.origin.bare, "rev-parse", STATUS) == tip

    stage.play(script)


def test_a_record_costs_the_same_however_many_units_there_are(staged: MakeStage) -> None:
    stage = staged()

    def each_s(count: int) -> float:
        outbox = Outbox(stage.branch, None, stage.clock, coalesce=timedelta(seconds=5))
        records = [replace(stage.record, unit=f"{SPACE}/u{number}") for number in range(count)]
        begin = time.process_time()
        for record in records:
            outbox.offer(record)
            outbox.offer(replace(record, message="again"))
        assert not outbox.idle
        return (time.process_time() - begin) / count

    few = min(each_s(100) for _ in range(3))
    many = min(each_s(3000) for _ in range(3))
    assert many < 5 * few  # thirty times as much, if each looked at all others


def test_claims_wake_only_those_who_asked_about_what_changed() -> None:
    claims, woken = Claims(), []
    for name in ("a", "b", "c"):
        claims.join(name, "src", lambda name=name: woken.append(name))  # type: ignore[misc]  # bound early
    assert not claims.others("a", frozenset(KEYS[:2]))
    assert not claims.others("b", frozenset(KEYS[2:]))
    claims.set("c", KEYS[1:2])
    assert woken == ["a"]
    assert claims.others("a", frozenset(KEYS[:2])) == {KEYS[1]}
    claims.set("c", KEYS[1:3])  # what stays is no news
    claims.set("c", KEYS[1:3])
    assert woken == ["a", "b"]
    claims.set("c", [])
    assert sorted(woken) == ["a", "a", "b", "b"]
    assert not claims.others("a", frozenset(KEYS[:2]))


def test_who_waits_for_a_unit_to_read_is_woken_by_that_one() -> None:
    claims, woken = Claims(), []
    for name in ("a", "b", "c"):
        claims.join(name, "src", lambda name=name: woken.append(name))  # type: ignore[misc]  # bound early
    claims.read("a", "1")
    assert claims.behind("a", "1") == "b"
    claims.read("c", "1")
    assert not woken
    claims.read("b", "1")
    assert woken == ["a"]
    assert not claims.behind("a", "1")


def test_interests_forget_what_nobody_wants() -> None:
    interests: Interests[int] = Interests()
    assert interests.set("a", frozenset({1, 2})) == {1, 2}
    assert interests.set("b", frozenset({2, 3})) == {2, 3}
    assert interests.set("a", frozenset({2})) == {1}
    assert (interests.of(1), interests.of(2)) == ((), ("a", "b"))
    assert set(interests.in_any([2, 3])) == {"a", "b"}
    assert interests.set("b", frozenset()) == {2, 3}
    assert set(interests.in_any([1, 2, 3])) == {"a"}
