"""Ages in words, also of what other clocks date ahead of this one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gitkruise.cli.console.ages import ago

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-41, "41 s ago"), (-7_200, "2 h ago"), (5, "0 s ago"), (3_600, "in 60 m"),
     (4 * 86_400, "in 4 d")],
)  # fmt: skip
def test_an_instant_is_before_or_after_now(seconds: int, words: str) -> None:
    assert ago(NOW + timedelta(seconds=seconds), NOW) == words


def test_an_unknown_instant_has_no_age() -> None:
    assert ago(None, NOW) == "-"
