"""The table of Go types: every line makes sense, and every kind in it exists."""

from __future__ import annotations

import pytest

from gitkruise.wire.kruise.go_round_trip import normalise
from gitkruise.wire.kruise.go_types import TYPES, parse


def test_a_type_goes_on_in_indented_lines() -> None:
    assert parse("A: a!str,\n  b?[]B\nB: c?*i32\n") == {
        "A": (("a", True, "str"), ("b", False, "[]B")),
        "B": (("c", False, "*i32"),),
    }


@pytest.mark.parametrize("name", TYPES)
def test_every_kind_of_a_field_is_known(name: str) -> None:
    """A struct resolves the kinds of all its fields at the first use."""
    assert set(normalise(name, {})) <= {field for field, _, _ in TYPES[name]}


@pytest.mark.parametrize("text", ["A: a!str\nA: b!str", "A: a str", "A: "])
def test_a_table_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the words differ by cause
        parse(text)
