"""A range of versions picks the best tag, pre-releases only where they are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import UsageProblem
from gitkruise.wire.values.semver_range import Range

TAGS = (
    "v0.9.0", "v1.0.0", "v1.2.0", "1.2.3", "v1.10.0", "v1.11.0-rc.1", "v2.0.0-alpha", "v2.0.0",
    "v2.1.0-rc.2", "release", "v3", "v1.2.3.4", "nightly-2026", "vv4.0.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("*", "v2.0.0"),
        ("x", "v2.0.0"),
        (">=1.0.0 <2.0.0", "v1.10.0"),
        (">=1.0.0, <2.0.0", "v1.10.0"),
        (">= 1.0.0 , < 1.10.0", "1.2.3"),
        (">=1.0.0-0 <2.0.0-0", "v1.11.0-rc.1"),
        (">=1.0.0-0", "v2.1.0-rc.2"),
        ("^2.0.0-0", "v2.1.0-rc.2"),
        ("^1.2.0-0", "v1.11.0-rc.1"),
        ("^0.9.0-0", "v0.9.0"),
        ("^0.0.1-0", None),
        ("~2.0.0-0", "v2.0.0"),
        ("~2.1.0-0", "v2.1.0-rc.2"),
        ("~1.2", "1.2.3"),
        ("~1.2.0", "1.2.3"),
        ("^1.2.0", "v1.10.0"),
        ("^0.9.0", "v0.9.0"),
        ("1.x", "v1.10.0"),
        ("1.2.X", "1.2.3"),
        ("1.2", "1.2.3"),
        ("1.2.0", "v1.2.0"),
        ("=v1.2.0", "v1.2.0"),
        ("v1.2.0", "v1.2.0"),
        ("0.9.0 || ~1.0.0", "v1.0.0"),
        ("1.0.0 - 1.2.9", "1.2.3"),
        ("<2.0.0, !=1.10.0", "1.2.3"),
        ("2.0.0-alpha", "v2.0.0-alpha"),
        ("~1", "v1.10.0"),
        ("^1.2", "v1.10.0"),
        ("^0.9", "v0.9.0"),
        ("^0", "v0.9.0"),
        (">1.2 <2.0.0", "v1.10.0"),
        (">1 <2.0.0", None),
        ("<=1.2", "1.2.3"),
        (">=1.0.0-0 <2.0.0", "v1.11.0-rc.1"),
        (">1.11.0-rc.1 <=2.0.0-alpha", "v2.0.0-alpha"),
        ("1.x, !=1.10", "1.2.3"),
        (">2.0.0", None),
        (">=9", None),
    ],
)
def test_the_best_version_in_the_range_wins(text: str, best: str | None) -> None:
    assert Range(text).best(TAGS) == best
    assert Range(text).best(reversed(TAGS)) == best


def test_of_versions_without_order_the_last_name_is_taken() -> None:
    assert Range("*").best(["v1.0.0+b", "1.0.0+c", "v1.0.0+a", "v1.0.0-rc.1"]) == "v1.0.0+b"


@pytest.mark.parametrize(
    "text", ["", " || 1.0", "latest", ">>1.0", "1.0.0.0", "-1", ">*", "1" * 300]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        Range(text)
    assert caught.value.findings[0].code == "GK7022"


_VERSIONS = st.tuples(*[st.integers(0, 30)] * 3)


@given(st.lists(_VERSIONS, min_size=1), _VERSIONS, _VERSIONS)
def test_the_best_is_the_greatest_between_the_bounds(
    versions: list[tuple[int, int, int]], low: tuple[int, int, int], high: tuple[int, int, int]
) -> None:
    text = f">={_text(low)} <{_text(high)}"
    inside = [version for version in versions if low <= version < high]
    expected = f"v{_text(max(inside))}" if inside else None
    assert Range(text).best(f"v{_text(version)}" for version in versions) == expected


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
