"""Memory of watched pods: lanes of revisions, rows at a moment, gaps and limits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from gitkruise.dashboard.board import Board, Watcher
from gitkruise.dashboard.past_rows import TOPICS_MAX, PastRows, RowMemory
from gitkruise.wire.primitives.times import format_time
from tests.clock import ManualClock
from tests.dashboard.scenes import pod, pods
from tests.dashboard.table import Table

CART = "pods/cloneset/shop/cart"
START = datetime(2026, 11, 26, 10, tzinfo=UTC)


def encoded(**rows: str) -> dict[str, bytes]:
    """Rows of pods by their revision."""
    found = {key: json.dumps({"revision": revision}).encode() for key, revision in rows.items()}
    return {"": b"{}", **found}


def at(seconds: int) -> str:
    return f"2026-11-26T10:00:{seconds:02}Z"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def remembered(*states: tuple[float, dict[str, bytes]]) -> PastRows:
    memory = RowMemory()
    for seconds, rows in states:
        memory.note(CART, after(seconds), rows)
    return memory.topics[CART]


def test_pods_are_counted_by_revision_at_every_moment() -> None:
    found = remembered(
        (0, encoded(a="v1", b="v1")), (3, encoded(a="v1", b="v2")), (5, encoded(b="v2", c="v2"))
    ).lanes()
    assert (found["since"], found["left"]) == (at(0), "")
    assert [(m["at"], m["pods"]) for m in found["moments"]] == [
        (at(0), {"v1": 2}), (at(3), {"v1": 1, "v2": 1}), (at(5), {"v2": 2}),
    ]  # fmt: skip


def test_every_moment_has_the_commit_of_the_workload() -> None:
    first = {**encoded(a="v1"), "": b'{"commit": "4f2c9e1"}'}
    second = {**first, "": b'{"commit": "8ab13d0"}'}
    pods = {**second, "a": encoded(a="v2")["a"]}
    found = remembered((0, first), (3, second), (5, pods)).lanes()
    assert [m["commit"] for m in found["moments"]] == ["4f2c9e1", "8ab13d0", "8ab13d0"]


def test_moments_are_read_from_a_known_one_on() -> None:
    found = remembered((0, encoded(a="v1")), (3, encoded(a="v2")), (5, encoded(a="v3")))
    lanes = found.lanes(at(3))
    assert [moment["pods"] for moment in lanes["moments"]] == [{"v2": 1}, {"v3": 1}]
    assert lanes["since"] == at(0)


def test_rows_are_those_of_the_moment() -> None:
    first, second = encoded(a="v1", b="v1"), encoded(b="v2")
    found = remembered((0, first), (4, second))
    assert found.rows_at(at(0)) == found.rows_at(at(3)) == (at(0), first)
    assert found.rows_at(at(4)) == found.rows_at(at(59)) == (at(4), second)
    assert found.rows_at("2026-11-26T09:59:59Z") is None


def test_changes_of_one_second_are_one_moment() -> None:
    last = encoded(a="v3")
    states = [(0, encoded(a="v0")), (0.5, encoded(a="v1")), (2.1, encoded(a="v2")), (2.7, last)]
    found = remembered(*states)
    assert [m["pods"] for m in found.lanes()["moments"]] == [{"v1": 1}, {"v3": 1}]
    assert found.rows_at(at(1)) == (at(0), encoded(a="v1"))
    assert found.rows_at(at(2)) == (at(2), last)


def test_the_time_without_a_browser_is_a_gap() -> None:
    memory, rows = RowMemory(), encoded(a="v1")
    memory.note(CART, after(0), rows)
    memory.leave(CART, after(2))
    assert memory.topics[CART].lanes()["left"] == at(2)
    memory.note(CART, after(9), rows)
    found = memory.topics[CART].lanes()
    assert [(m["at"], m["unseen"]) for m in found["moments"]] == [(at(0), ""), (at(9), at(2))]
    assert found["left"] == ""


def test_the_oldest_moments_are_forgotten() -> None:
    states = [encoded(a=f"v{n}", b="v1") for n in range(10)]
    found = PastRows.begin(at(0), states[0], moments_max=3)
    for n in range(1, 10):
        found.note(at(n), states[n])
    assert (found.since.at, len(found.moments)) == (at(6), 3)
    assert found.rows_at(at(5)) is None
    assert [found.rows_at(at(n)) for n in range(6, 10)] == [
        (at(n), states[n]) for n in range(6, 10)
    ]


def test_many_changes_leave_room_for_few_moments() -> None:
    rows = [encoded(a=f"v{n}", b=f"v{n}") for n in range(4)]
    found = PastRows.begin(at(0), rows[0], changes_max=3)
    for n in range(1, 4):
        found.note(at(n), rows[n])
    assert (found.since.at, found.changes, len(found.moments)) == (at(2), 2, 1)
    assert found.lanes()["moments"][-1]["pods"] == {"v3": 2}


def test_only_pods_are_remembered_and_of_few_workloads() -> None:
    memory = RowMemory()
    memory.note("fleet", START, encoded(a="v1"))
    memory.note(CART, START, {})
    assert memory.topics == {}
    for n in range(TOPICS_MAX + 1):
        memory.note(f"pods/cloneset/shop/{n}", START, encoded(a="v1"))
    assert len(memory.topics) == TOPICS_MAX
    assert "pods/cloneset/shop/0" not in memory.topics


def test_a_board_remembers_what_is_watched() -> None:
    clock, table = ManualClock(), Table()
    board, watcher = Board(table, clock), Watcher(frozenset({CART}))
    table.topics[CART] = pods(3, 0)

    async def body() -> None:
        with board.watching(watcher):
            board.rows(CART)
            await clock.sleep(5)
            table.topics[CART] = {**pods(3, 0), "cart-00000": pod(revision="v2")}
            board.read_all()
            await clock.sleep(5)
        reads = table.reads
        with board.watching(watcher):
            board.rows(CART)
        table.topics[CART] = pods(2, 0)
        await clock.sleep(5)
        board.read_all()
        assert table.reads == reads
        assert board.memory.topics[CART].left == format_time(clock.now())
        await clock.sleep(5)
        with board.watching(watcher):
            board.rows(CART)
        assert table.reads == reads + 1

    clock.run(body())
    lanes: dict[str, Any] = board.memory.topics[CART].lanes()
    counts = [moment["pods"] for moment in lanes["moments"]]
    assert counts == [{"6b5d4f7c9": 3}, {"6b5d4f7c9": 2, "v2": 1}, {"6b5d4f7c9": 2}]
    assert [bool(moment["unseen"]) for moment in lanes["moments"]] == [False, False, True]
    assert lanes["left"] == ""
