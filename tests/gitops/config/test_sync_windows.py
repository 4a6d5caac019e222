"""Commits wait while windows are closed, and are taken when they open; what runs goes on."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.gitops.config.sync_window_checks import bad_windows
from gitkruise.gitops.config.sync_windows import Times, Windows
from gitkruise.model.gitops.config import Unit, UnitSpec, Window
from gitkruise.wire.primitives.times import format_time, parse_time
from tests.clock import ManualClock
from tests.gitops.promoted import promoting, promotion, standing, written
from tests.gitops.stage import MakeStage, config_map, web

pytestmark = pytest.mark.slow

FREEZE: Final = {"kind": "deny", "schedule": "0 18 * * 5", "duration": "62h"}
BERLIN: Final = {**FREEZE, "timeZone": "Europe/Berlin"}
OFFICE: Final = {"kind": "allow", "schedule": "0 9 * * mon-fri", "duration": "8h"}
BY_HAND: Final = {"manual": True}
NEVER: Final = "9999-12-31T23:59:59Z"

# windows, a time, when they open ("" when they are open)
OPENS: Final[list[tuple[str, list[dict[str, Any]], str, str]]] = [
    ("none", [], "2026-11-21T10:00:00Z", ""),
    ("before a freeze", [FREEZE], "2026-11-20T17:59:59Z", ""),
    ("its first second", [FREEZE], "2026-11-20T18:00:00Z", "2026-11-23T08:00:00Z"),
    ("its last second", [FREEZE], "2026-11-23T07:59:59Z", "2026-11-23T08:00:00Z"),
    ("its end", [FREEZE], "2026-11-23T08:00:00Z", ""),
    ("elsewhere", [BERLIN], "2026-11-20T17:30:00Z", "2026-11-23T07:00:00Z"),
    ("in summer", [BERLIN], "2026-07-03T16:00:00Z", "2026-07-06T06:00:00Z"),
    ("over the end of summer", [BERLIN], "2026-10-23T16:00:00Z", "2026-10-26T06:00:00Z"),
    ("office", [OFFICE], "2026-11-20T16:59:59Z", ""),
    ("after office", [OFFICE], "2026-11-20T17:00:00Z", "2026-11-23T09:00:00Z"),
    ("both", [OFFICE, FREEZE], "2026-11-20T17:00:00Z", "2026-11-23T09:00:00Z"),
    ("denied in the office", [OFFICE, {**FREEZE, "duration": "64h"}], "2026-11-23T09:30:00Z",
     "2026-11-23T10:00:00Z"),
    ("the clocks skip it", [{**BERLIN, "schedule": "30 2 29 3 *", "duration": "1h"}],
     "2026-03-29T01:45:00Z", "2026-03-29T02:30:00Z"),
    ("all hours, when one repeats", [{**BERLIN, "schedule": "0 * * * *", "duration": "1h"}],
     "2026-10-24T22:00:00Z", NEVER),
    ("half hours, when one repeats", [{**BERLIN, "schedule": "0 * * * *", "duration": "30m"}],
     "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"),
    ("a time of day that repeats", [{**BERLIN, "schedule": "30 2 * * *", "duration": "1h"}],
     "2026-10-25T01:29:00Z", "2026-10-25T01:30:00Z"),
    ("a time of day that has been", [{**BERLIN, "schedule": "30 2 * * *", "duration": "1h"}],
     "2026-10-25T01:30:00Z", ""),
    ("a leap day", [{**OFFICE, "schedule": "0 0 29 2 *"}], "2026-01-01T00:00:00Z",
     "2028-02-29T00:00:00Z"),
    ("one after the other", [{**FREEZE, "schedule": "0 * * * *", "duration": "1h"}],
     "2026-11-21T10:00:00Z", NEVER),
    ("every minute of a week's work", [{**FREEZE, "schedule": "* * * * 1-5", "duration": "1m"}],
     "2026-11-23T10:00:00Z", "2026-11-28T00:00:00Z"),
    ("every minute, fifty times", [{**FREEZE, "schedule": "* * * * *", "duration": "1m"}] * 50,
     "2026-11-23T10:00:00Z", NEVER),
    ("never together", [OFFICE, {**FREEZE, "schedule": "0 0 * * *", "duration": "24h"}],
     "2026-11-21T10:00:00Z", NEVER),
]  # fmt: skip


def windows(rows: list[dict[str, Any]], now: str, *, by_hand: bool = False) -> Windows:
    moment = parse_time(now)
    assert moment is not None
    return Windows(msgspec.convert(rows, list[Window]), ManualClock(moment), by_hand=by_hand)


@pytest.mark.parametrize(
    ("rows", "now", "opens"), [r[1:] for r in OPENS], ids=[r[0] for r in OPENS]
)
def test_when_windows_open(rows: list[dict[str, Any]], now: str, opens: str) -> None:
    found = windows(rows, now)
    opening = found.opens()
    assert (format_time(opening) if opening else "") == opens
    words = {"": "", NEVER: "a window (none opens)"}
    assert found.why() == words.get(opens, f"a window (it opens at {opens})")


def readings(once: datetime, twice: bool) -> list[datetime]:
    """A time, and its second reading where clocks are set back and it counts."""
    again = once.replace(fold=1)
    there = again.astimezone(UTC).astimezone(again.tzinfo).replace(tzinfo=None)
    repeated = there == once.replace(tzinfo=None) and again.utcoffset() != once.utcoffset()
    return [once, again] if twice and repeated else [once]


def covered(window: Window, moment: datetime) -> bool:
    """Whether any beginning of the last days reaches a moment, one by one."""
    times = Times.of(window)
    day = moment.astimezone(times.zone).date()
    for back in range(times.length.days + 3):
        earlier = day - timedelta(days=back)
        hours = {hour for hour, _ in times.cron.times}
        begun = (
            one.astimezone(UTC)
            for at in times.cron.times
            if times.cron.on(earlier)
            for one in readings(datetime.combine(earlier, time(*at), times.zone), len(hours) == 24)
        )
        if any(start <= moment < start + times.length for start in begun):
            return True
    return False


SCHEDULES: Final = ["* * * * *", "*/7 * * * *", "30 1,2,3 * * *", "0 */2 * * 0", "59 23 28-31 * *"]
CLOCK_CHANGES: Final = [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)]


@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from(["1m", "3m", "59m", "2h", "25h"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    st.sampled_from(CLOCK_CHANGES),
    st.integers(-36 * 60, 36 * 60),
    st.floats(0, 0.99),
)
def test_a_phase_is_what_every_beginning_alone_says(
    schedule: str, length: str, zone: str, change: datetime, minutes: int, share: float
) -> None:
    window = Window(kind="deny", schedule=schedule, duration=length, time_zone=zone)
    now = change + timedelta(minutes=minutes)
    phase = Times.of(window).phase(now)
    assert phase.open is covered(window, now)
    assert phase.until > now
    assert covered(window, now + share * (phase.until - now)) is phase.open
    if not phase.open:
        assert covered(window, phase.until)


def test_windows_are_few() -> None:
    spec = {"sourceRef": {"name": "src"}, "windows": [OFFICE] * 51}
    (finding,) = bad_windows(Unit("shop", "web", msgspec.convert(spec, UnitSpec)))
    assert (finding.code, finding.message) == (
        "GK7034", "Unit shop/web: spec.windows: more than 50 windows"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "passes"),
    [
        ([FREEZE], False),
        ([FREEZE | BY_HAND], True),
        ([FREEZE | BY_HAND, {**FREEZE, "schedule": "0 0 * * *"}], False),
        ([OFFICE], False),
        ([OFFICE | BY_HAND], True),
        ([OFFICE | BY_HAND, FREEZE], False),
    ],
)
def test_what_a_sync_by_hand_passes(rows: list[dict[str, Any]], *, passes: bool) -> None:
    now = "2026-11-21T10:00:00Z"
    assert windows(rows, now).opens() is not None
    assert (windows(rows, now, by_hand=True).opens() is None) is passes


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"schedule": "0 18 * *"}, "4 fields"),
        ({"schedule": "0 18 30 2 *"}, "never comes"),
        ({"duration": "0s"}, "is none"),
        ({"duration": "9000h"}, "is none"),
        ({"duration": "62"}, "62"),
        ({"timeZone": "Europe/Berlinn"}, "time zone 'Europe/Berlinn'"),
        ({"timeZone": "../passwd"}, "time zone"),
        ({"timeZone": "localtime"}, "differs between machines"),
    ],
)
def test_a_window_that_says_no_time_is_refused(more: dict[str, Any], why: str) -> None:
    spec = {"sourceRef": {"name": "src"}, "windows": [OFFICE, {**FREEZE, **more}]}
    (finding,) = bad_windows(Unit("shop", "web", msgspec.convert(spec, UnitSpec)))
    assert finding.code == "GK7034"
    assert finding.message.startswith("Unit shop/web: spec.windows.1: ")
    assert why in finding.message


# The stage's clock begins on Saturday, 2026-11-21 at 10:00: a freeze until 12:00 of that day.
MORNING: Final = {"kind": "deny", "schedule": "1 10 * * *", "duration": "1h59m"}
NOON: Final = "waits for a window (it opens at 2026-11-21T12:00:00Z)"


def until(stage: Any, hour: int, minute: int = 0) -> float:
    """Seconds until that time of the stage's first day."""
    there = datetime(2026, 11, 21, hour, minute, tzinfo=UTC)
    return float((there - stage.clock.now()) / timedelta(seconds=1))


@pytest.mark.slow
def test_a_commit_waits_for_the_window_and_what_runs_goes_on(staged: MakeStage) -> None:
    stage = staged(windows=[MORNING])
    fast = config_map("settings", mode="fast")

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), fast, message="first")
            await stage.rest(until(stage, 10, 1) - 2)
            assert stage.state == "Done"
            await stage.push(web("app:v2", maxUnavailable=1), fast, message="second")
            await stage.rest(4)  # the window closes while it rolls
            assert stage.state == "Rolling"
            await stage.push(web("app:v3"), message="third")
            await stage.rest(5 * 60)
            assert (stage.record.message, stage.images()) == (NOON, ["app:v2"] * 4)
            stage.meddle(config_map("settings", mode="mine"))
            await stage.rest(60)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(until(stage, 12) - 1)
            assert stage.record.message == NOON
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            assert stage.images() == ["app:v2"] * 4
            await stage.rest(2)
            assert stage.record.message != NOON
            await stage.rest(60)
            assert (stage.state, stage.images()) == ("Done", ["app:v3"] * 4)
            assert stage.get("ConfigMap", "settings") is None

    stage.play(script)


def test_what_only_deletes_waits_too_over_a_restart(staged: MakeStage) -> None:
    stage = staged(windows=[MORNING])

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("one"), config_map("two"), message="first")
            await stage.rest(until(stage, 10, 2))
            await stage.push(config_map("one"), message="second")
            await stage.rest(60)
            assert stage.get("ConfigMap", "two") is not None
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(until(stage, 11))
            assert stage.get("ConfigMap", "two") is not None
            assert (stage.state, stage.record.waits) == ("Waiting", NOON.removeprefix("waits for "))
            await stage.rest(until(stage, 12) + 1)
            assert stage.get("ConfigMap", "two") is None

    stage.play(script)


@pytest.mark.slow
def test_a_promotion_waits_for_the_window(staged: MakeStage) -> None:
    stage = staged(promotion=promotion(), windows=[MORNING])

    async def script() -> None:
        async with promoting(stage):
            await stage.push(web(), message="first")
            await stage.rest(20)
            await stage.push(web("app:v2", partition="75%"), message="canary")
            await stage.rest(until(stage, 11, 30))
            assert stage.state == "Held"
            assert standing(stage).why == f"it {NOON}"
            assert len(written(stage)) == 2
            await stage.rest(until(stage, 12) + 30)
            assert len(written(stage)) == 3

    stage.play(script)
