"""Figures of the core against recorded ones: a step back, and a figure without a partner, fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from bench.calls import compared
from bench.timing import calls_of

RECORDED: Final = {"preview": 1000}
ROWS: Final[Mapping[str, tuple[dict[str, int], int, str]]] = {
    "as before": ({"preview": 1000}, 0, ""),
    "less": ({"preview": 10}, 0, ""),
    "a quarter more": ({"preview": 1250}, 0, ""),
    "more than that": ({"preview": 1251}, 1, "preview: 1,251, recorded 1,000"),
    "gone": ({}, 1, "preview: not measured any more"),
    "new": ({"preview": 1000, "plan": 5}, 1, "plan: not recorded"),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_figure_may_grow_by_a_quarter(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, code, text = ROWS[row]
    assert compared(found, RECORDED) == code
    printed = capsys.readouterr().out
    assert text in printed
    assert ("make calls ARGS=--record" in printed) == bool(code)


def test_calls_of_one_piece_of_work_are_always_as_many() -> None:
    def work() -> None:
        for number in range(100):
            str(abs(number))

    assert calls_of(work) == calls_of(work) > 100
