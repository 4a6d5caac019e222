"""The memo returns the last result for equal arguments only."""

from __future__ import annotations

from gitkruise.world.store.memo import Memo


def test_equals_are_answered_with_what_was_made_last() -> None:
    memo = Memo()

    def made(*given: list[str]) -> list[str]:
        return memo.get("joined", lambda one, two: [*one, *two], *given)

    first = made(["a"], ["b"])
    assert made(["a"], ["b"]) is first
    assert made(["a"], ["c"]) == ["a", "c"]
    assert made(["a"], ["b"]) == first
    assert memo.get("turned", lambda one, two: [*two, *one], ["a"], ["b"]) == ["b", "a"]
