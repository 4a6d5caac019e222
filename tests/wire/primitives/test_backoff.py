"""Pauses double from the first to the cap."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitkruise.wire.primitives.backoff import backoff


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (10_000, 30.0)]
)
def test_a_pause_doubles_up_to_the_cap(failures: int, pause: float) -> None:
    assert backoff(failures, first=0.5, cap=30.0) == pause
    first, cap = timedelta(seconds=0.5), timedelta(seconds=30)
    assert backoff(failures, first=first, cap=cap) == timedelta(seconds=pause)


@pytest.mark.parametrize("failures", [0, -1])
def test_no_pause_follows_no_failure(failures: int) -> None:
    with pytest.raises(ValueError, match="no pause follows"):
        backoff(failures, first=1.0, cap=2.0)
