"""Frames: what is sent turns what a browser knows into what is so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.dashboard.board import Board, Encoded, Watcher, frame
from gitkruise.dashboard.past_rows import NOTHING
from gitkruise.kube.system.clock import SystemClock
from tests.dashboard.table import Table


def applied(known: dict[str, Any], data: bytes | None) -> dict[str, Any]:
    """What a browser knows after a frame."""
    if data is None:
        return known
    found = json.loads(data)
    rows = {} if found["reset"] else dict(known)
    rows |= found["set"]
    return {key: row for key, row in rows.items() if key not in found["gone"]}


rows = st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=5)


@given(st.lists(rows, min_size=1, max_size=6))
def test_frames_lead_to_the_newest_rows(states: list[dict[str, int]]) -> None:
    """Whatever the states between, and whichever of them a slow browser missed."""

    async def body() -> None:
        table = Table()
        board = Board(table, SystemClock())
        watcher = Watcher(frozenset({"fleet"}))
        known: dict[str, Any] = {}
        sent: Encoded | None = None
        with board.watching(watcher):
            for state in states:
                table.topics["fleet"] = state
                board.read("fleet")
                after = board.rows("fleet")
                known = applied(known, frame("fleet", sent, after))
                sent = after
                assert known == state

    asyncio.run(body())


def test_a_row_that_did_not_change_is_not_sent_again() -> None:
    before = {"a": b"1", "b": b"2", "c": b"3"}
    after = {"a": before["a"], "b": b"20"}
    data = frame("fleet", before, after)
    assert data is not None
    assert json.loads(data) == {"topic": "fleet", "reset": False, "set": {"b": 20}, "gone": ["c"]}
    assert frame("fleet", after, after) is None
    assert frame("fleet", None, NOTHING) is not None  # a topic without rows is told once


def test_topics_that_nobody_watches_are_not_read() -> None:
    async def body() -> None:
        table = Table()
        board = Board(table, SystemClock())
        watcher = Watcher(frozenset({"fleet", "events"}))
        with board.watching(watcher):
            board.rows("fleet")
            board.rows("events")
            board.choose(watcher, frozenset({"fleet"}))
            table.reads = 0
            board.read_all()
            assert table.reads == 1
        board.read_all()
        assert table.reads == 1

    asyncio.run(body())
