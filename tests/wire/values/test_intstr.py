"""Integers and percentages are resolved by the rule each field has."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.values import intstr

COUNTS = st.integers(0, 5000)
PERCENTS = st.integers(0, 100)


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (None, 10, 0, 0),
        (3, 10, 3, 3),
        (-1, 10, -1, -1),
        ("20%", 3, 1, 0),
        ("20%", 10, 2, 2),
        ("5", 100, 5, 5),
        ("%5%0%", 10, 5, 5),
        ("200%", 3, 6, 6),
        ("-10%", 15, -1, -2),
    ],
)
def test_lenient_reading(value: int | str | None, total: int, up: int, down: int) -> None:
    assert intstr.resolve(value, total, round_up=True) == up
    assert intstr.resolve(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["12.5%", "", "%", "a", "1_0%", " 5%"])
def test_lenient_reading_refuses(value: str) -> None:
    with pytest.raises(ValueError, match="whole percentage"):
        intstr.resolve(value, 10, round_up=True)


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (7, 3, 7, 7),
        ("33.3%", 10, 4, 3),
        ("0.1%", 10, 1, 0),
        ("120%", 10, 12, 12),
        ("1e1%", 10, 1, 1),
    ],
)
def test_strict_reading(value: int | str, total: int, up: int, down: int) -> None:
    assert intstr.resolve_decimal(value, total, round_up=True) == up
    assert intstr.resolve_decimal(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["5", "%", "", "a%", "5%%", "inf%", "nan%", "0x1%", "1e999%"])
def test_strict_reading_refuses(value: str) -> None:
    with pytest.raises(ValueError, match=r"such as 33\.3%"):
        intstr.resolve_decimal(value, 10, round_up=True)


@pytest.mark.parametrize(
    ("value", "replicas", "kept"),
    [
        (None, 10, 0),
        (3, 10, 3),
        (12, 10, 10),
        (-1, 10, 0),
        ("10%", 10, 1),
        ("0.1%", 10, 1),
        ("33.3%", 10, 4),
        ("99%", 5, 4),
        ("99%", 1, 1),
        ("100%", 5, 5),
        ("100.0%", 5, 4),
        ("200%", 5, 5),
        ("1%", 1, 1),
        (5, 0, 0),
    ],
)
def test_partition(value: int | str | None, replicas: int, kept: int) -> None:
    assert intstr.Partition(value).kept(replicas) == kept


@given(st.none() | st.integers() | st.text(max_size=6) | PERCENTS.map(lambda n: f"{n}%"), COUNTS)
def test_partition_stays_within_replicas(value: int | str | None, replicas: int) -> None:
    try:
        assert 0 <= intstr.Partition(value).kept(replicas) <= replicas
    except intstr.UnreadableAmount:
        assert isinstance(value, str)


@given(PERCENTS.filter(lambda n: n < 100), st.integers(2, 5000))
def test_a_partition_below_all_lets_a_pod_update(percent: int, replicas: int) -> None:
    assert intstr.Partition(f"{percent}%").kept(replicas) < replicas


@pytest.mark.parametrize(
    ("value", "replicas", "paused", "surge"),
    [(None, 10, False, 0), (2, 10, False, 2), ("15%", 10, False, 2), ("15%", 10, True, 0)],
)  # fmt: skip
def test_surge(value: int | str | None, replicas: int, paused: bool, surge: int) -> None:
    assert intstr.surge_count(value, replicas, paused=paused) == surge


@pytest.mark.parametrize(
    ("value", "replicas", "surge", "down"),
    [(None, 3, 0, 1), (None, 3, 1, 0), ("20%", 10, 1, 2), ("25%", 10, 0, 3), ("25%", 10, 1, 2),
     (0, 10, 0, 0), (-2, 10, 0, -2)],
)  # fmt: skip
def test_unavailable(value: int | str | None, replicas: int, surge: int, down: int) -> None:
    assert intstr.unavailable_count(value, replicas, surge=surge) == down


@pytest.mark.parametrize(
    ("value", "replicas", "cap"),
    [(None, 10, 2147483647), (3, 10, 3), ("15%", 10, 2)],
)
def test_unavailable_while_scaling(value: int | str | None, replicas: int, cap: int) -> None:
    assert intstr.scale_unavailable_count(value, replicas) == cap


UNREADABLE: Final = ["50", "what", "", "%", "1 %", "5%%", "9" * 400 + "%", True, 1.5, [1]]


@pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: str(value)[:9])
def test_a_partition_that_means_nothing_is_an_error(value: Any) -> None:
    with pytest.raises(intstr.UnreadableAmount):
        intstr.Partition(value).kept(10)
    with pytest.raises(intstr.UnreadableAmount):
        intstr.Partition(value).keeps_none()


@pytest.mark.parametrize("value", ["12.5%", "x", "", "9" * 400, True, 1.5, [1]], ids=str)
def test_an_amount_that_means_nothing_is_an_error(value: Any) -> None:
    with pytest.raises(intstr.UnreadableAmount):
        intstr.surge_count(value, 10, paused=True)
    with pytest.raises(intstr.UnreadableAmount):
        intstr.unavailable_count(value, 10, surge=0)
    with pytest.raises(intstr.UnreadableAmount):
        intstr.scale_unavailable_count(value, 10)


@pytest.mark.parametrize(
    ("value", "none"),
    [
        (None, True),
        (0, True),
        (-1, True),
        ("0%", True),
        ("0.0%", True),
        (1, False),
        ("0.1%", False),
    ],
)
def test_partitions_that_keep_no_pod(value: int | str | None, none: bool) -> None:
    assert intstr.Partition(value).keeps_none() is none


@given(PERCENTS, COUNTS)
def test_rounding_brackets_the_exact_share(percent: int, total: int) -> None:
    exact = Fraction(percent * total, 100)
    low = intstr.resolve(f"{percent}%", total, round_up=False)
    high = intstr.resolve(f"{percent}%", total, round_up=True)
    assert low <= exact <= high
    assert high - low == (exact.denominator != 1)
