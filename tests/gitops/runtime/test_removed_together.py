"""Units that are removed together share one scan, which deletes what one for each would delete."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.errors import ApiError, Conflict, Unavailable
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.planner.sync.annotations import UNIT, UNIT_REF, unit_label
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.objects import House, play
from tests.gitops.programs import options, unit
from tests.gitops.runtime.test_finalizer import HEAD, SINK_REF, STAYS
from tests.gitops.stage import STATUS, MakeStage, config_map, documents

pytestmark = pytest.mark.slow
SCAN_S: Final = 10.0  # of a slow API server


def listed(requests: list[ApiRequest]) -> Counter[tuple[str, str]]:
    return Counter((r.resource.group, r.resource.plural) for r in requests if r.verb == "list")


def slow_scan(hands: House) -> list[ApiRequest]:
    """Let one list of each scan take its time; return those that began."""
    began: list[ApiRequest] = []

    async def wait(request: ApiRequest) -> None:
        if request.verb == "list" and request.resource.plural == "resourcequotas":
            began.append(request)
            await hands.stage.clock.sleep(SCAN_S)

    hands.stage.wire.before = wait
    return began


async def start(hands: House, *names: str, **spec: Any) -> None:
    """Units that each have a ConfigMap of their name."""
    hands.push(**{name: [config_map(name, x="1")] for name in names})
    await hands.source()
    for name in names:
        await hands.unit(name, **spec)
    await hands.rest(60)
    assert hands.has(*names) == [True] * len(names)


def gone(hands: House, *names: str) -> list[bool]:
    return [hands.get("Unit", name) is None for name in names]


@pytest.mark.parametrize("count", [1, 10, 40])
def test_lists_do_not_grow_with_the_number_of_units(hands: House, count: int) -> None:
    names = [f"web-{number}" for number in range(count)]

    async def script(hands: House) -> None:
        await start(hands, *names)
        before = len(hands.stage.wire.requests)
        for name in names:
            await hands.ask("delete", "Unit", name)
        await hands.rest()
        assert hands.has(*names) == [False] * count
        assert gone(hands, *names) == [True] * count
        assert set(listed(hands.stage.wire.requests[before:]).values()) == {1}

    play(hands, script)


@pytest.mark.parametrize("count", [1, 12])
def test_reads_and_commits_do_not_grow_with_the_units_that_left_a_file(
    staged: MakeStage, tmp_path: Path, count: int
) -> None:
    stage = staged()
    names = [f"left-{number}" for number in range(count)]
    texts = {f"{name}/a.yaml": documents(config_map(name, x="1")) for name in names}

    def log(form: str, start: str) -> list[str]:
        return run_git(
            stage.origin.bare, "log", f"--format={form}", f"{start}{STATUS}"
        ).splitlines()

    async def run(text: str) -> list[ApiRequest]:
        before = len(stage.wire.requests)
        async with controller(options(stage, tmp_path, text), stage.wire, stage.clock):
            await stage.rest(60)
        return stage.wire.requests[before:]

    async def script() -> None:
        stage.wire.before = lambda _: asyncio.sleep(0)  # units take turns
        stage.origin.commit({"stays/a.yaml": documents(STAYS), **texts}, "change")
        await run(HEAD + "".join(unit(name, SINK_REF) for name in names))
        assert all(stage.get("ConfigMap", name) for name in names)
        tip = run_git(stage.origin.bare, "rev-parse", STATUS)
        asked = await run(HEAD)
        assert not any(stage.get("ConfigMap", name) for name in names)
        assert "left-" not in stage.status_file("index.tsv")
        folder = f"{STATUS}:units/shop"
        assert run_git(stage.origin.bare, "ls-tree", "--name-only", folder) == "stays"
        removed = [s for s in log("%s", f"{tip}..") if ": removed, 1 object deleted" in s]
        assert 1 <= len(removed) <= 4  # those that wait for the branch share a commit
        ended = log("%(trailers:key=Gitkruise-Unit,valueonly,separator=%x0A)", f"{tip}..")
        assert {f"shop/{name}" for name in names} <= set(ended)
        leases = [f"{r.verb} {r.name}" for r in asked if r.resource.plural == "leases"]
        assert leases.count("get gitkruise-sync-units") <= 4
        assert leases.count("update gitkruise-sync-units") <= 2
        assert max(listed(asked).values()) <= 3  # discovered, followed, and scanned
        asked = await run(HEAD)  # all of them are forgotten
        assert "gitkruise-sync-units" not in {r.name for r in asked if r.verb == "update"}

    stage.play(script)


def test_a_unit_that_came_back_counts_its_own_deletions(
    hands: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gitkruise")

    async def script(hands: House) -> None:
        await start(hands, "a")
        for _ in range(2):
            await hands.ask("delete", "Unit", "a")
            await hands.rest()
            assert hands.has("a") == [False]
            await hands.unit("a")
            await hands.rest(60)
            assert hands.has("a") == [True]

    play(hands, script)
    lines = [line for line in caplog.messages if line.startswith("event=unit-removed")]
    assert lines == ['event=unit-removed unit=shop/a why="1 object deleted"'] * 2


def test_an_object_that_changes_before_its_deletion_is_deleted_afterwards(hands: House) -> None:
    changed: list[ApiRequest] = []

    def once(request: ApiRequest) -> ApiError | None:
        """A status is written just before the first deletion."""
        if request.verb != "delete" or request.resource.plural != "configmaps" or changed:
            return None
        changed.append(request)
        hands.stage.meddle(config_map("a", y="2"))
        return None

    async def script(hands: House) -> None:
        await start(hands, "a", "b")
        hands.stage.wire.refuse = once
        await hands.ask("delete", "Unit", "a")
        await hands.rest(2)
        assert len(changed) == 1
        assert hands.has("a", "b") == [False, True]
        assert gone(hands, "a", "b") == [True, False]

    play(hands, script)


@pytest.mark.parametrize("policy", ["Delete", "Orphan"])
def test_an_object_taken_over_during_the_scan_keeps_its_new_owner(
    hands: House, policy: str
) -> None:
    other = unit_label("another", "shop/other")

    async def script(hands: House) -> None:
        await start(hands, "a", "b", prune={"deletionPolicy": policy})
        began = slow_scan(hands)
        for name in ("a", "b"):
            await hands.ask("delete", "Unit", name)
        await hands.rest(SCAN_S / 2)
        assert (len(began), gone(hands, "a", "b")) == (1, [False, False])
        taken = config_map("a", x="1")
        taken["metadata"]["labels"] = {UNIT: other}
        hands.stage.meddle(taken)
        await hands.rest(3 * SCAN_S)
        assert gone(hands, "a", "b") == [True, True]
        assert hands.has("a", "b") == [True, policy == "Orphan"]
        assert hands.stage.get("ConfigMap", "a")["metadata"]["labels"][UNIT] == other

    play(hands, script)


def test_an_object_that_a_new_unit_wants_during_the_scan_is_not_deleted(hands: House) -> None:
    async def script(hands: House) -> None:
        await start(hands, "a", "b", prune={"deletionPolicy": "Delete"})
        uid = hands.stage.get("ConfigMap", "a")["metadata"]["uid"]
        began = slow_scan(hands)
        for name in ("a", "b"):
            await hands.ask("delete", "Unit", name)
        await hands.rest(SCAN_S / 2)
        assert (len(began), gone(hands, "a", "b")) == (1, [False, False])
        await hands.unit("other", path="a")
        await hands.rest(4 * SCAN_S)
        assert gone(hands, "a", "b") == [True, True]
        assert hands.has("a", "b") == [True, False]
        meta = hands.stage.get("ConfigMap", "a")["metadata"]
        assert (meta["uid"], meta["labels"][UNIT]) == (uid, unit_label("test", "shop/other"))

    play(hands, script)


def test_a_policy_that_changes_during_the_scan_counts(hands: House) -> None:
    async def script(hands: House) -> None:
        await start(hands, "a", "b")
        began = slow_scan(hands)
        for name in ("a", "b"):
            await hands.ask("delete", "Unit", name)
        await hands.rest(SCAN_S / 2)
        assert len(began) == 1
        await hands.unit("a", prune={"deletionPolicy": "Orphan"})
        await hands.rest(3 * SCAN_S)
        assert gone(hands, "a", "b") == [True, True]
        assert hands.has("a", "b") == [True, False]

    play(hands, script)


def test_a_unit_that_is_removed_during_a_scan_gets_one_of_its_own(hands: House) -> None:
    async def script(hands: House) -> None:
        await start(hands, "a", "b")
        began = slow_scan(hands)
        await hands.ask("delete", "Unit", "a")
        await hands.rest(SCAN_S / 2)
        marks = {
            "labels": {UNIT: unit_label("test", "shop/b")}, "annotations": {UNIT_REF: "shop/b"},
        }  # fmt: skip
        late = {"metadata": {"name": "late", **marks}}
        hands.stage.meddle({"apiVersion": "v1", "kind": "ServiceAccount", **late})
        await hands.ask("delete", "Unit", "b")
        await hands.rest(3 * SCAN_S)
        assert len(began) == 2
        assert gone(hands, "a", "b") == [True, True]
        assert hands.has("a", "b") == [False, False]
        assert hands.stage.get("ServiceAccount", "late") is None

    play(hands, script)


def test_a_scan_that_fails_ends_no_unit_and_is_repeated(hands: House) -> None:
    failed: list[ApiRequest] = []

    def at_first(request: ApiRequest) -> ApiError | None:
        if request.verb == "list" and request.resource.plural == "workloadspreads" and not failed:
            failed.append(request)
            return Unavailable("down")
        return None

    async def script(hands: House) -> None:
        await start(hands, "a", "b")
        hands.stage.wire.refuse = at_first
        for name in ("a", "b"):
            await hands.ask("delete", "Unit", name)
        await hands.rest(2)
        assert len(failed) == 1
        assert (hands.has("a", "b"), gone(hands, "a", "b")) == ([True, True], [False, False])
        await hands.rest()
        assert (hands.has("a", "b"), gone(hands, "a", "b")) == ([False, False], [True, True])

    play(hands, script)


def test_a_write_that_fails_delays_no_other_unit(hands: House) -> None:
    def never(request: ApiRequest) -> ApiError | None:
        conflicts = request.verb == "delete" and request.name == "a"
        return Conflict("written all the time") if conflicts else None

    async def script(hands: House) -> None:
        await start(hands, "a", "b")
        hands.stage.wire.refuse = never
        for name in ("a", "b"):
            await hands.ask("delete", "Unit", name)
        await hands.rest()
        assert (hands.has("a", "b"), gone(hands, "a", "b")) == ([True, False], [False, True])

    play(hands, script)


def test_a_record_that_is_being_written_does_not_outlive_its_unit(staged: MakeStage) -> None:
    """A removal and a record may be due at the same moment: neither undoes the other."""
    stage = staged()
    outbox = Outbox(stage.branch, None, stage.clock, coalesce=timedelta(seconds=5))
    stays, *left = (replace(stage.record, unit=f"shop/u{number}") for number in range(5))

    async def write() -> None:
        for record in (stays, *left):
            outbox.offer(record)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(outbox.flush())
            for record in left:
                tasks.create_task(outbox.forget(record, "nothing was left"))

    asyncio.run(write())
    assert [line.split("\t")[0] for line in stage.status_file("index.tsv").splitlines()[1:]] == [
        "shop/u0"
    ]
    folder = f"{STATUS}:units/shop"
    assert run_git(stage.origin.bare, "ls-tree", "--name-only", folder) == "u0"
    assert stage.diary()[1:] == ["shop/u1: removed, nothing was left (+3 units) [skip ci]"]
