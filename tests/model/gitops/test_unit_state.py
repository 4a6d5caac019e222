"""How long a unit has to be Stuck before somebody gives up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitkruise.model.gitops.unit_state import State, stuck_for_good
from tests.worlds import START


@pytest.mark.parametrize(
    ("seconds", "for_good"),
    [(0, False), (9, False), (10, True), (-3, False), (-3600, True)],
    ids=["now", "a moment", "long", "a clock a little ahead", "another clock"],
)
def test_a_unit_that_is_stuck_for_good(seconds: int, *, for_good: bool) -> None:
    now = START + timedelta(seconds=seconds)
    assert stuck_for_good(State.STUCK, START, now) is for_good
    assert not stuck_for_good(State.ROLLING, START, now)


def test_a_unit_that_does_not_say_since_when() -> None:
    assert stuck_for_good(State.STUCK, None, START)
