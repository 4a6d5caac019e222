"""What was made last is given again for equals, and for nothing else."""

from __future__ import annotations

from gitkruise.world.alike import Alike


def test_equals_are_answered_with_what_was_made_last() -> None:
    alike = Alike()

    def made(*given: list[str]) -> list[str]:
        return alike.made("joined", lambda one, two: [*one, *two], *given)

    first = made(["a"], ["b"])
    assert made(["a"], ["b"]) is first
    assert made(["a"], ["c"]) == ["a", "c"]
    assert made(["a"], ["b"]) == first
    assert alike.made("turned", lambda one, two: [*two, *one], ["a"], ["b"]) == ["b", "a"]
