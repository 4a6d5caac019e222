"""Verdicts of measurements: rows for each rule, and laws over sequences of measurements."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.gitops.analysis import (
    MEASUREMENTS_MAX,
    AnalysisPhase,
    AnalysisRun,
    Measurement,
    Metric,
    MetricProvider,
    ThresholdRange,
    WebProvider,
    filled,
    run_mark,
)
from gitkruise.planner.analysis.schedule import (
    begin,
    blocks,
    due_at,
    next_due,
    with_measurement,
)
from gitkruise.planner.analysis.verdict import by_conditions, by_range, conditions
from tests.worlds import START

WEB = MetricProvider(web=WebProvider("https://shop.example/health"))
OK, BAD, ODD, GONE = (
    AnalysisPhase.SUCCESSFUL,
    AnalysisPhase.FAILED,
    AnalysisPhase.INCONCLUSIVE,
    AnalysisPhase.ERROR,
)
RUNS = AnalysisPhase.RUNNING
LETTERS = {"s": OK, "f": BAD, "i": ODD, "e": GONE}


def metric(name: str = "errors", **more: Any) -> Metric:
    return Metric(name, WEB, **more)


def played(letters: str, *metrics: Metric) -> AnalysisRun:
    """A run in which the metrics are measured in turn, every ten seconds, until it is over."""
    run = begin("m", "abc", 1, metrics, START)
    for number, letter in enumerate(letters):
        one = metrics[number % len(metrics)]
        at = START + timedelta(seconds=10 * (number + 1))
        run = with_measurement(one, run, Measurement(at=at, phase=LETTERS[letter]))
    return run


# Measurements, limits, phase of the run and the reason.
ASSESSED: list[tuple[str, dict[str, Any], AnalysisPhase, str]] = [
    ("", {}, AnalysisPhase.PENDING, ""),
    ("s", {}, OK, ""),
    ("f", {}, BAD, "errors: 1 failed, and the limit is 0"),
    ("i", {}, ODD, "errors: 1 inconclusive, and the limit is 0"),
    ("e", {}, RUNS, ""),
    ("ss", {"count": 3}, RUNS, ""),
    ("sss", {"count": 3}, OK, ""),
    ("sfs", {"count": 3, "failure_limit": 1}, OK, ""),
    ("sf", {"count": 3, "failure_limit": 1}, RUNS, ""),
    ("ff", {"count": 3, "failure_limit": 1}, BAD, "errors: 2 failed, and the limit is 1"),
    ("sis", {"count": 3, "inconclusive_limit": 1}, OK, ""),
    ("sii", {"count": 3, "inconclusive_limit": 1}, ODD,
     "errors: 2 inconclusive, and the limit is 1"),
    ("eeee", {"count": 3}, RUNS, ""),
    ("eeeee", {"count": 3}, GONE, "errors: 5 errors in a row, and the limit is 4"),
    ("eeeeseeees", {"count": 3}, RUNS, ""),
    ("eeeeseeeess", {"count": 3}, OK, ""),
    ("e", {"consecutive_error_limit": 0}, GONE, "errors: 1 errors in a row, and the limit is 0"),
    ("seeses", {"count": 3}, OK, ""),
]  # fmt: skip


@pytest.mark.parametrize(("letters", "limits", "phase", "why"), ASSESSED)
def test_phase_of_a_metric(
    letters: str, limits: dict[str, Any], phase: AnalysisPhase, why: str
) -> None:
    run = played(letters, metric(**limits))
    assert (run.metrics[0].phase, run.message) == (phase, why)
    assert run.phase is phase


# Measurements of two metrics in turn; the worst metric is the run.
TOGETHER: list[tuple[str, AnalysisPhase]] = [
    ("s", RUNS), ("ss", OK), ("sf", BAD), ("fs", BAD), ("si", ODD), ("if", BAD), ("ii", ODD),
]  # fmt: skip


@pytest.mark.parametrize(("letters", "phase"), TOGETHER)
def test_phase_of_a_run(letters: str, phase: AnalysisPhase) -> None:
    assert played(letters, metric("a"), metric("b")).phase is phase


# Failure condition, success condition, the number of the first true one, verdict.
CONDITIONS: list[tuple[str, str, int, AnalysisPhase]] = [
    ("", "ok", 0, OK), ("", "ok", -1, BAD), ("bad", "", 0, BAD), ("bad", "", -1, OK),
    ("bad", "ok", 0, BAD), ("bad", "ok", 1, OK), ("bad", "ok", -1, ODD),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "success", "true", "phase"), CONDITIONS)
def test_conditions(failure: str, success: str, true: int, phase: AnalysisPhase) -> None:
    one = metric(failure_condition=failure, success_condition=success)
    assert conditions(one) == tuple(filter(None, (failure, success)))
    assert by_conditions(one, true).phase is phase


# Bounds, value, verdict.
RANGES: list[tuple[ThresholdRange, Any, AnalysisPhase]] = [
    (ThresholdRange(max=0.05), 0.05, OK),
    (ThresholdRange(max=0.05), 0.06, BAD),
    (ThresholdRange(min=99), [99.5, 99], OK),
    (ThresholdRange(min=99), [99.5, 98], BAD),
    (ThresholdRange(min=0, max=1), -1, BAD),
    (ThresholdRange(max=1), [], GONE),
    (ThresholdRange(max=1), None, GONE),
    (ThresholdRange(max=1), [None], GONE),
    (ThresholdRange(max=1), "0", GONE),
    (ThresholdRange(max=1), True, GONE),
    (ThresholdRange(max=1), float("nan"), GONE),
    (ThresholdRange(max=1), {"a": 0}, GONE),
]


@pytest.mark.parametrize(("bounds", "value", "phase"), RANGES)
def test_ranges(bounds: ThresholdRange, value: Any, phase: AnalysisPhase) -> None:
    assert by_range(bounds, value).phase is phase


# Measurements so far, metric, seconds after the start until the next one.
DUE: list[tuple[str, dict[str, Any], int | None]] = [
    ("", {}, 0),
    ("", {"initial_delay": "1m"}, 60),
    ("", {"initial_delay": "1m", "interval": "30s", "count": 3}, 60),
    ("s", {"interval": "30s", "count": 3}, 40),
    ("e", {"interval": "30s", "count": 3}, 40),
    ("e", {}, 20),
    ("s", {}, None),
    ("f", {"interval": "30s", "count": 3}, None),
]


@pytest.mark.parametrize(("letters", "spec", "next_s"), DUE)
def test_when_the_next_measurement_is_due(
    letters: str, spec: dict[str, Any], next_s: int | None
) -> None:
    one = metric(**spec)
    run = played(letters, one)
    assert next_due([one], run) == (None if next_s is None else START + timedelta(seconds=next_s))


# What a promotion says of a run that it waits for.
BLOCKS: list[tuple[AnalysisRun, str]] = [
    (played("s", metric()), ""),
    (played("", metric()), "it is measured: errors pending"),
    (played("sfe", metric(count=9, failure_limit=3)),
     "it is measured: errors 1 successful, 1 failed, 1 without an answer"),
    (replace(played("f", metric()), pods=2),
     "the analysis has failed: errors: 1 failed, and the limit is 0, with 2 pods on revision abc"),
    (played("i", metric()),
     "the analysis is inconclusive: errors: 1 inconclusive, and the limit is 0"),
    (played("eeeee", metric()),
     "the analysis ended in an error: errors: 5 errors in a row, and the limit is 4"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "why"), BLOCKS)
def test_the_reason_why_a_step_waits(run: AnalysisRun, why: str) -> None:
    assert blocks(run) == why


def test_a_mark_changes_with_everything_that_was_measured() -> None:
    marks = {
        run_mark("u", "abc", 1, [metric()]), run_mark("v", "abc", 1, [metric()]),
        run_mark("u", "abd", 1, [metric()]), run_mark("u", "abc", 2, [metric()]),
        run_mark("u", "abc", 1, [metric(count=2)]), run_mark("u", "abc", 1, [metric("b")]),
    }  # fmt: skip
    assert len(marks) == 6
    assert run_mark("u", "abc", 1, [metric()]) == run_mark("u", "abc", 1, [metric()])


def test_variables_are_replaced() -> None:
    known = {"target": "web", "revision": "abc"}
    assert filled('up{pod=~"{{ target }}-.*", hash="{{revision}}"}', known) == (
        'up{pod=~"web-.*", hash="abc"}'
    )
    with pytest.raises(KeyError):
        filled("{{ secret }}", known)


@st.composite
def limited(draw: st.DrawFn) -> Metric:
    count = draw(st.integers(1, 12))
    return metric(
        interval="10s",
        count=count,
        failure_limit=draw(st.integers(0, count - 1)),
        inconclusive_limit=draw(st.integers(0, count - 1)),
        consecutive_error_limit=draw(st.integers(0, 4)),
    )


@given(limited(), st.text("sfie", max_size=80))
def test_a_run_ends_once_and_for_a_reason_that_its_counts_show(one: Metric, letters: str) -> None:
    run, taken = begin("m", "abc", 1, [one], START), ""
    for letter in letters:
        due = next_due([one], run)
        if due is None:
            break
        run = with_measurement(one, run, Measurement(at=due, phase=LETTERS[letter]))
        taken += letter
    (result,) = run.metrics
    counts = (result.successful, result.failed, result.inconclusive, result.error)
    assert counts == tuple(map(taken.count, "sfie"))
    assert len(result.measurements) == min(len(taken), MEASUREMENTS_MAX)
    assert run.phase.completed == (due_at(one, result, START) is None) == bool(run.finished)
    match run.phase:
        case AnalysisPhase.SUCCESSFUL:
            assert result.count == one.count
            assert result.failed <= one.failure_limit
            assert result.inconclusive <= one.inconclusive_limit
        case AnalysisPhase.FAILED:
            assert result.failed == one.failure_limit + 1
        case AnalysisPhase.INCONCLUSIVE:
            assert result.inconclusive == one.inconclusive_limit + 1
        case AnalysisPhase.ERROR:
            assert taken.endswith("e" * (one.consecutive_error_limit + 1))
        case _:
            assert result.count < one.count
