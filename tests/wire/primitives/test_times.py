"""Instants and durations of people's own: whatever cannot be one is a ValueError."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.primitives.times import parse_duration, parse_time

INSTANTS: list[str] = [
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-11-23", "2026-13-01T00:00:00Z",
    "now", "2026-11-23T10:00:00", "２０２６-11-23T10:00:00Z",
]  # fmt: skip
DURATIONS: list[tuple[str, str]] = [
    ("9" * 400 + "h", "longest"),
    ("2562048h", "longest"),
    ("300", "300s"),
    ("-1h", "not a duration"),
    ("1e9s", "not a duration"),
    ("", "not a duration"),
]


@pytest.mark.parametrize("text", INSTANTS)
def test_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_time(text)


@pytest.mark.parametrize(("text", "why"), DURATIONS)
def test_no_duration(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_duration(text)


def test_the_longest_duration() -> None:
    assert parse_duration("2562047h") == timedelta(hours=2562047)


@given(st.text("0123456789.hms-+:TZ", max_size=30))
def test_a_text_is_a_value_or_a_value_error(text: str) -> None:
    for parse in (parse_time, parse_duration):
        try:
            parse(text)
        except ValueError:
            continue
