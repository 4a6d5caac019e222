"""An annotation that holds an object begins with a time, or is an error; spaces are no time."""

from __future__ import annotations

import pytest

from gitkruise.planner.sync.annotations import HOLD, hold_of


@pytest.mark.parametrize("text", [" ", "\t\n", "soon", "2026-13-01T00:00:00Z the fire"])
def test_a_text_without_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not begin with a time"):
        hold_of({"metadata": {"annotations": {HOLD: text}}})


def test_no_text_holds_nothing() -> None:
    assert hold_of({"metadata": {"annotations": {HOLD: ""}}}) is None
