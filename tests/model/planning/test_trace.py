"""A trace as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gitkruise.model.planning.trace import Line, Trace
from tests.traces import render_text

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
LINES = (
    Line(at=START, what="PatchPod", object="web-0", workload="CloneSet shop/web"),
    Line(at=START + timedelta(seconds=2.5), what="held", object="web-1", why="MaxUnavailable"),
)
TRACE = Trace(start=START, end=START + timedelta(seconds=60), lines=LINES, quiet=True)


def test_text_has_one_line_a_line_and_says_how_it_ended() -> None:
    assert render_text(TRACE) == (
        "t+       0s  PatchPod                  web-0\n"
        "t+     2.5s  held                      web-1                   MaxUnavailable\n"
        "t+      60s  quiet\n"
    )


def test_a_trace_that_was_cut_off_says_so() -> None:
    cut = Trace(start=START, end=START, lines=(), quiet=False)
    assert render_text(cut) == "t+       0s  stopped\n"


def test_lines_are_picked_by_what_they_say() -> None:
    assert [line.object for line in TRACE.only("held")] == ["web-1"]
