"""Schedules of CronJobs: compared with robfig/cron v3.0.1, of which every row was recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pytest

from gitkruise.wire.values.cron_schedule import parse_schedule

# schedule, after, the next three times
TIMES: Final = [
    ("*/15 * * * *", "2026-11-25T09:53:31", ["25T10:00", "25T10:15", "25T10:30"]),
    ("0 12 1 * mon", "2026-11-25T00:00:00", ["30T12:00", "12-01T12:00", "12-07T12:00"]),
    ("0 12 */2 * mon", "2026-11-25T00:00:00", ["25T12:00", "27T12:00", "29T12:00"]),
    ("0 12 */1 * mon", "2026-11-25T00:00:00", ["30T12:00", "12-07T12:00", "12-14T12:00"]),
    ("5/20 3 ? NOV,dec Sat", "2026-11-25T00:00:00", ["28T03:05", "28T03:25", "28T03:45"]),
    ("1,,2 0 *-5 * *", "2026-11-25T00:00:00", ["25T00:01", "25T00:02", "26T00:01"]),
    ("@weekly", "2026-11-25T00:00:00", ["29T00:00", "12-06T00:00", "12-13T00:00"]),
    ("@every 90m", "2026-11-25T09:00:00", ["25T10:30", "25T12:00", "25T13:30"]),
    ("TZ=Asia/Kolkata 0 9 * * *", "2026-11-25T00:00:00", ["25T03:30", "26T03:30", "27T03:30"]),
]
# in Europe/Berlin clocks change at 01:00 UTC on 29 March and 25 October
CHANGES: Final = [
    ("30 2 * * *", "2026-03-28T10:00:00", ["03-30T00:30", "03-31T00:30", "04-01T00:30"]),
    ("30 2 * * *", "2026-10-24T10:00:00", ["10-25T00:30", "10-25T01:30", "10-26T01:30"]),
    ("0 0 * * *", "2026-10-24T10:00:00", ["10-24T22:00", "10-25T23:00", "10-26T23:00"]),
]
NONE: Final = [
    ("", "empty spec string"),
    ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    ("60 * * * *", "end of range (60) above maximum (59): 60"),
    ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("* * * * 7", "end of range (7) above maximum (6): 7"),
    ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
    ("*/0 * * * *", "step of range should be a positive number: */0"),
    ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    ("@reboot", "unrecognized descriptor: @reboot"),
    ("TZ=Nowhere/City 0 0 * * *", "provided bad location Nowhere/City: unknown time zone"),
]


def after(text: str, start: str, zone: str = "") -> list[datetime]:
    schedule, at = parse_schedule(text, zone), datetime.fromisoformat(start).replace(tzinfo=UTC)
    found = []
    for _ in range(3):
        later = schedule.next(at)
        assert later is not None
        found.append(at := later)
    return found


@pytest.mark.parametrize(("text", "start", "times"), TIMES, ids=[row[0] for row in TIMES])
def test_the_next_times(text: str, start: str, times: list[str]) -> None:
    wanted = [f"2026-{t}" if "-" in t else f"2026-11-{t}" for t in times]
    assert [at.strftime("%Y-%m-%dT%H:%M") for at in after(text, start)] == wanted


@pytest.mark.parametrize(
    ("text", "start", "times"), CHANGES, ids=[row[1] + row[0] for row in CHANGES]
)
def test_changes_of_clocks(text: str, start: str, times: list[str]) -> None:
    found = after(text, start, "Europe/Berlin")
    assert [at.astimezone(UTC).strftime("%m-%dT%H:%M") for at in found] == times


@pytest.mark.slow
@pytest.mark.parametrize("text", ["0 0 31 2 *", ", * * * *"])
def test_a_schedule_that_never_comes_has_no_next_time(text: str) -> None:
    assert parse_schedule(text).next(datetime(2026, 11, 25, tzinfo=UTC)) is None


@pytest.mark.parametrize(("text", "why"), NONE, ids=[row[0] for row in NONE])
def test_what_is_none_is_refused_in_the_words_of_the_library(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse_schedule(text)
    assert why in str(caught.value)
