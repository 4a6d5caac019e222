"""JSON is written as Go writes it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.primitives.gojson import RawJSON, compact, number_text, ordered, through_doubles

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<a href='x'>&", r"\u003ca href='x'\u003e\u0026"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ('"\\', r"\"\\"),
        ("\n\r\t\b\f", r"\n\r\t\b\f"),
        ("\x00\x01\x1f", r"\u0000\u0001\u001f"),
        ("\x7f/é😀\x80\xad\u200b\ufeff", "\x7f/é😀\x80\xad\u200b\ufeff"),
        ("\ud800", "\ufffd"),
    ],
)
def test_strings_are_escaped_like_go(text: str, written: str) -> None:
    assert compact(text) == f'"{written}"'.encode()
    assert compact({text: 0}) == f'{{"{written}":0}}'.encode()


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (9007199254740993, "9007199254740992"),
        (123456789012345678, "123456789012345680"),
        (9223372036854775807, "9223372036854776000"),
        (10**18, "1000000000000000000"),
        (-1, "-1"),
    ],
)
def test_integers_pass_through_a_double_in_generic_maps(number: int, written: str) -> None:
    assert compact(through_doubles([{"n": number}])) == f'[{{"n":{written}}}]'.encode()
    assert compact(number) == str(number).encode(), "and stay exact elsewhere"


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.5, "0.5"),
        (100.0, "100"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1.25e-7, "1.25e-7"),
        (1e-10, "1e-10"),
        (-0.0, "-0"),
        (0.0, "0"),
    ],
)
def test_floats_take_their_shortest_form(number: float, written: str) -> None:
    assert compact(number) == written.encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_text_round_trips(number: float) -> None:
    assert float(number_text(number)) == number


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="no JSON number"):
        compact(number)


@pytest.mark.parametrize("value", [b"x", object(), {1, 2}])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        compact({"a": value})


def test_keys_sort_by_bytes_or_stay_in_order() -> None:
    value = {"b": 1, "a.b": 1, "a-b": 1, "Z": [], "$patch": {}, "é": None, "a": True}
    assert list(json.loads(compact(value))) == ["$patch", "Z", "a", "a-b", "a.b", "b", "é"]
    assert list(json.loads(ordered(value))) == list(value)


def test_raw_json_is_written_verbatim() -> None:
    assert compact({"data": RawJSON(b'{"b":1,"a": "<"}')}) == b'{"data":{"b":1,"a": "<"}}'


@pytest.mark.slow
@given(VALUES)
def test_every_value_reads_back(value: Any) -> None:
    assert json.loads(compact(value)) == value
    assert json.loads(ordered(value)) == value
    assert compact(json.loads(ordered(value))) == compact(value)
