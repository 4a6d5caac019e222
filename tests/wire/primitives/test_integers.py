"""Integers as Go's strconv.ParseInt reads them in base 10."""

from __future__ import annotations

import pytest

from gitkruise.wire.primitives.integers import int_or_none, parse_int


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-0", 0), ("+7", 7), ("007", 7), ("0" * 5000 + "7", 7), ("-2147483648", -(2**31))],
)
def test_numbers(text: str, number: int) -> None:
    assert parse_int(text, 32) == number


@pytest.mark.parametrize(
    "text",
    ["", "-", "--5", "+-5", "1_000", " 1", "1\n", "1.0", "1e3", "0x10", "²", "٥", "2147483648",
     "-2147483649", "9" * 5000],
)  # fmt: skip
def test_other_texts(text: str) -> None:
    assert int_or_none(text, 32) is None
    with pytest.raises(ValueError, match=r"integer|fit"):
        parse_int(text, 32)
