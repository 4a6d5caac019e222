"""Scatter: every recorded vector, and that no pod is lost."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.pods.scatter import expanded, scatter

# pods in order (`.` none, letters are labels), candidates, terms, indexes after scattering
VECTORS: Final = """
. . . . A A | | A | 4 0 1 2 3 5
. . . A A A | | A | 3 0 1 4 2 5
. . . A . . A | | A | 3 0 1 2 4 5 6
. . . . . . A A A | | A | 6 0 1 2 7 3 4 5 8
. . A A A A | | A | 2 3 0 4 1 5
. . A . A A A A A | | A | 2 4 0 5 6 1 7 3 8
. A . A . . A A A | | A | 1 0 3 2 6 4 7 5 8
. . . . . . . A A A | | A | 7 0 1 2 3 8 4 5 6 9
B B . . A A | | A,B | 0 4 2 3 5 1
. . . B AB A | | A,B | 4 0 1 2 5 3
. . . . . . B A A B | | B,A | 7 6 0 1 2 3 4 5 9 8
. . . . . . B A A B | | A,B | 6 7 0 1 2 3 4 5 8 9
. A A B B C C C C C | | A,B,C | 3 1 5 0 6 7 8 9 2 4
. A AC BC B . . C C C | | A,B,C | 3 2 0 7 8 5 6 9 1 4
. . . . A A A | 6 | A | 0 1 4 2 3 5
A A . . . . . . . A | 7 | A | 2 0 3 4 5 6 1
. . . A . . AB . . . | 8 | A,B | 3 0 1 2 4 5 7 6
. . . A . . . . AB . . AB | 11 | A,B | 0 1 2 4 3 5 6 7 9 10 8
A . . A A . AB . . AB | 8 | A,B | 1 0 2 3 5 4 7 6
. . A A . A . . AB . . AB | 11 | A,B | 0 2 1 4 3 6 7 5 9 10 8
"""
ROWS: Final = [[cell.strip() for cell in line.split("|")] for line in VECTORS.strip().splitlines()]


def fleet(text: str) -> list[PodFacts]:
    return [
        PodFacts(name=str(at), labels={} if marks == "." else dict.fromkeys(marks, "yes"))
        for at, marks in enumerate(text.split())
    ]


@pytest.mark.parametrize("row", ROWS, ids=[f"{r[0]} by {r[2]}" for r in ROWS])
def test_vector(row: list[str]) -> None:
    text, count, names, wanted = row
    everyone = fleet(text)
    waiting = everyone[: int(count)] if count else everyone
    terms = [(name, "yes") for name in names.split(",")]
    assert [p.name for p in scatter(waiting, everyone, terms)] == wanted.split()


@given(
    st.lists(st.sampled_from([".", "A", "B", "AB", "C"]), max_size=30),
    st.integers(0, 30),
    st.lists(st.sampled_from(["A", "B", "C"]), unique=True),
)
def test_nobody_is_lost(marks: list[str], count: int, names: list[str]) -> None:
    everyone = fleet(" ".join(marks))
    waiting = everyone[:count]
    spread = scatter(waiting, everyone, [(name, "yes") for name in names])
    assert sorted(p.name for p in spread) == sorted(p.name for p in waiting)


def test_side_57_a_star_stands_for_every_value_there_is() -> None:
    values = ["value-4-0", "value-4-1", "value-4-2", "value-4", "value-4", "value-4"]
    everyone = [PodFacts(name=str(at), labels={"key-4": v}) for at, v in enumerate(values)]
    fixed = [("key-1", "a"), ("key-2", "b"), ("key-3", "c")]
    found = expanded([*fixed, ("key-4", "*"), ("key-4", "value-4")], everyone)
    assert found == (*fixed, *(("key-4", value) for value in values[:4]))
