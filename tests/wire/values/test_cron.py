"""Cron expressions: which days and times they mean, and what is none."""

from __future__ import annotations

from datetime import date

import pytest

from gitkruise.wire.values.cron import parse_cron

# expression, a day, its times
TIMES = [
    ("0 18 * * 5", date(2026, 11, 20), ["18:00"]),
    ("0 18 * * 5", date(2026, 11, 21), []),
    ("0 18 * * fri,SUN", date(2026, 11, 22), ["18:00"]),
    ("0 0 * * 7", date(2026, 11, 22), ["00:00"]),
    ("0 0 * * 0", date(2026, 11, 22), ["00:00"]),
    ("*/30 8-9 * * *", date(2026, 11, 21), ["08:00", "08:30", "09:00", "09:30"]),
    ("5,35 10/6 * * *", date(2026, 1, 1), ["10:05", "10:35", "16:05", "16:35", "22:05", "22:35"]),
    ("0 12 1 * *", date(2026, 11, 1), ["12:00"]),
    ("0 12 1 * *", date(2026, 11, 2), []),
    ("0 12 1 * mon", date(2026, 11, 2), ["12:00"]),  # one of the two is enough
    ("0 12 */2 * mon", date(2026, 11, 2), []),  # a star with a step restricts nothing by itself
    ("0 12 * dec-DEC *", date(2026, 12, 31), ["12:00"]),
    ("0 12 29 2 *", date(2028, 2, 29), ["12:00"]),
]
NONE = [
    "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
    "* * * * 8", "5-1 * * * *", "*/0 * * * *", "*/x * * * *", "* * * mon *", "1,,2 * * * *",
    "@daily", "*-5 * * * *", "-1 * * * *", "1- * * * *", "٣ * * * *",
]  # fmt: skip


@pytest.mark.parametrize(("text", "day", "times"), TIMES, ids=[f"{t} on {d}" for t, d, _ in TIMES])
def test_a_day_has_the_times_it_says(text: str, day: date, times: list[str]) -> None:
    cron = parse_cron(text)
    assert [f"{h:02}:{m:02}" for h, m in cron.times if cron.on(day)] == times


@pytest.mark.parametrize("text", NONE)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_cron(text)
