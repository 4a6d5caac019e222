"""The judge of histories sees what is wrong: each row is a history with one thing broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.sandbox.ledger import Change, Op, Watch, judge

OPS: Final = [
    Op("create", "a", 0, 1, 201, 11, "t0"),
    Op("patch", "a", 2, 3, 200, 12, "t1"),
    Op("put", "a", 4, 5, 200, 13, "t2", base=12),
    Op("get", "a", 6, 7, 200, 13, "t2"),
    Op("put", "a", 6, 8, 409, 0, "t3", base=12),
    Op("delete", "a", 9, 10, 200, 0, "t4"),
    Op("list", "", 11, 12, 200, 15),
    Op("create", "b", 11, 13, 0, 0, "t5"),
]
CHANGES: Final = [
    Change("ADDED", "a", 11, "t0", "v"),
    Change("MODIFIED", "a", 12, "t1", "w"),
    Change("MODIFIED", "a", 13, "t2", "v"),
    Change("DELETED", "a", 14, "t2", "v"),
    Change("ADDED", "b", 15, "t5", "v"),
]
MARK: Final = Change("BOOKMARK", "", 12)
ALL: Final = Watch(10, [*CHANGES[:2], MARK, *CHANGES[2:]])
ONLY_V: Final = Watch(
    10,
    [CHANGES[0], replace(CHANGES[0], type="DELETED", version=12), replace(CHANGES[2], type="ADDED"),
     *CHANGES[3:]],
    "v",
)  # fmt: skip
History = tuple[list[Op], list[Watch], list[Change]]
SOUND: Final[History] = (OPS, [ALL, ONLY_V, Watch(13, CHANGES[3:])], CHANGES)


def verdict(history: History) -> list[str]:
    ops, watches, changes = history
    return judge(ops, watches, {change.version: change for change in changes})


def asked(at: int, **changed: object) -> Callable[[History], History]:
    """The history with one request as it should not be."""

    def broken(history: History) -> History:
        ops, watches, changes = history
        ops = list(ops)
        ops[at] = replace(ops[at], **changed)  # type: ignore[arg-type]  # fields of an Op
        return ops, watches, changes

    return broken


def watched(*events: Change, tier: str = "", start: int = 10) -> Callable[[History], History]:
    """The history with one more watch."""

    def broken(history: History) -> History:
        ops, watches, changes = history
        return ops, [*watches, Watch(start, list(events), tier)], changes

    return broken


A, B, C, D, E = CHANGES
BROKEN: Final = {
    "STORE-1 a version twice": asked(1, version=11),
    "STORE-2 a version too low": asked(2, version=11),
    "STORE-2 an old list": asked(6, version=12),
    "STORE-2 a stale read": asked(3, version=12, token="t1"),
    "STORE-3 a lost update": asked(2, base=11),
    "STORE-4 an acknowledged write that is not there": asked(1, version=99),
    "STORE-5 what no client wrote is read": asked(3, token="t9"),
    "STORE-5 what no client wrote is there": asked(0, token="t9"),
    "STORE-15 refused, and done": asked(4, token="t5"),
    "WATCH-1 the wrong order": watched(A, C, B, D, E),
    "WATCH-1 an event twice": watched(A, B, B, C, D, E),
    "WATCH-3 an event left out": watched(A, B, D, E),
    "WATCH-3 an event of others": watched(*CHANGES, tier="w"),
    "WATCH-1 (WATCH-5) an event after its bookmark": watched(
        A, replace(MARK, version=13), B, C, D, E
    ),
    "WATCH-5 a bookmark that goes back": watched(A, B, C, MARK, D, E),
    "WATCH-3 (WATCH-7) what leaves goes unseen": watched(
        A, replace(C, type="ADDED"), D, E, tier="v"
    ),
    "WATCH-3 (WATCH-7) what comes looks known": watched(
        A, replace(A, type="DELETED", version=12), C, D, E, tier="v"
    ),
    "WATCH-1 (WATCH-10) a deletion of the old version": watched(A, B, C, replace(D, version=13), E),
}


def test_a_sound_history() -> None:
    assert verdict(SOUND) == []


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_seen(name: str) -> None:
    found = verdict(BROKEN[name](SOUND))
    assert [text for text in found if text.partition(" ")[0] == name.partition(" ")[0]], found


def test_a_write_without_an_answer_is_done_once_at_most() -> None:
    ops, watches, changes = SOUND
    again = replace(E, version=16, type="MODIFIED")
    assert any(text.startswith("STORE-6") for text in verdict((ops, watches, [*changes, again])))
