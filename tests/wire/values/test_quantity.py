"""Quantities keep the value and print the text apimachinery prints."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.values.quantity import canonical, parse_quantity, round_up_milli

RECORDED = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parents[2] / "oracle" / "quantities.tsv").read_text().splitlines()
]
TEXTS = st.from_regex(
    r"[+-]?(0|[1-9][0-9]{0,22})(\.[0-9]{1,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9])?",
    fullmatch=True,
)


@pytest.mark.parametrize(("given_text", "printed", "rounded"), RECORDED, ids=str)
def test_recorded_texts(given_text: str, printed: str, rounded: str) -> None:
    text = given_text.strip('"')  # a JSON number counts as its literal text
    assert canonical(text) == printed
    assert round_up_milli(text) == rounded


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("-2k", Fraction(-2000)),
        ("12e-3", Fraction(12, 1000)),
        ("2E", Fraction(2 * 10**18)),
        ("100Ei", Fraction(2**63 - 1)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        (2, Fraction(2)),
        (0.25, Fraction(1, 4)),
    ],
)
def test_values_are_exact(text: str | float, value: Fraction) -> None:
    assert parse_quantity(text).value == value


@pytest.mark.parametrize(
    ("number", "printed"), [(1, "1"), (0.5, "500m"), (1000, "1k"), (1e3, "1k")]
)
def test_json_numbers_are_quantities(number: float, printed: str) -> None:
    assert canonical(number) == printed


@pytest.mark.parametrize(
    "text",
    ["", " ", "+", "m", "Ki", "1.2.3", "1mi", "1 Gi", "0x1", "1Mib", "1e", "1e1.5",
     "--1", "1i", "٣",
     "1e999999999", True, float("inf")],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the words differ by cause
        parse_quantity(text)


@given(TEXTS)
def test_printing_settles_and_keeps_the_value(text: str) -> None:
    parsed = parse_quantity(text)
    if abs(parsed.value) < 10**21:  # from there on Go prints no suffix and loses the value
        again = parse_quantity(parsed.text)
        assert again.value == parsed.value
        assert again.text == parsed.text


@given(TEXTS)
def test_rounding_goes_away_from_zero_to_a_thousandth(text: str) -> None:
    value = parse_quantity(text).value
    if abs(value) >= 10**20:
        return
    rounded = parse_quantity(round_up_milli(text)).value
    assert (rounded * 1000).denominator == 1
    assert 0 <= abs(rounded) - abs(value) < Fraction(1, 1000)
