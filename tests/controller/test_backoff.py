"""Retries: soon after conflicts, within half a minute after refusals, reset by success."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitkruise.controller.runner import FailureBackoff
from gitkruise.errors import Retry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("retry", "first", "cap"),
    [
        (Retry.REPLAN, 0.01, 300), (Retry.RELIST, 0.1, 300), (Retry.BACKOFF, 0.2, 300),
        (Retry.NEVER, 5.0, 30),
    ],
)  # fmt: skip
def test_pauses_double_from_their_first_to_the_cap(retry: Retry, first: float, cap: int) -> None:
    backoff = FailureBackoff[str](seed=1)
    pauses = [(backoff.next("a", NOW, retry) - NOW).total_seconds() for _ in range(30)]
    assert first / 2 <= pauses[0] <= first
    assert all(pause <= cap for pause in pauses)
    assert pauses[-1] >= cap / 2


def test_success_starts_over_and_keys_do_not_share() -> None:
    backoff = FailureBackoff[str](seed=1)
    first = backoff.next("a", NOW, Retry.BACKOFF)
    for _ in range(5):
        backoff.next("a", NOW, Retry.BACKOFF)
    backoff.forget("a")
    assert backoff.next("a", NOW, Retry.BACKOFF) == first
    assert backoff.next("b", NOW, Retry.BACKOFF) != first
