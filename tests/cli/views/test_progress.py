"""Lines and events of `run` about units, and about objects of the cluster that do not run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.progress import ProgressEvents, ProgressLines
from gitkruise.errors import CRASHED, Finding, Severity
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.log_line import LogLine
from tests.cli.shop import commit, rollout, unit_record
from tests.pods import NOW

PLAIN = Style(colour=False, unicode=True, width=80)
REFUSED = Finding(code="GK7052", message="http is not allowed", notes=(("next", "https"),))
CRASH = Finding(code=CRASHED, message="unexpected ValueError")


def record(state: State, *findings: Finding) -> UnitRecord:
    return UnitRecord(
        unit="shop/web", cluster="test", source="main", state=state, message="", since=NOW,
        findings=findings,
    )  # fmt: skip


def test_a_source_is_named_with_its_problem_and_when_it_runs_again() -> None:
    lines = ProgressLines(PLAIN)
    first, *finding = lines.problem(("GitSource", "shop/src"), REFUSED, NOW)
    assert first.endswith(" gitsource shop/src ready=False")
    assert finding == ["error[GK7052]: http is not allowed", "   = next: https"]
    (line,) = lines.problem(("GitSource", "shop/src"), None, NOW)
    assert line.endswith(" gitsource shop/src ready=Unknown")


def test_a_unit_has_the_state_of_its_status() -> None:
    lines = ProgressLines(PLAIN)
    assert next(lines.lines(record(State.DONE), NOW)).endswith("unit shop/web state=Done")
    broken = lines.problem(("Unit", "shop/web"), REFUSED, NOW)
    assert broken[0].endswith(" unit shop/web state=Rejected")
    assert lines.problem(("Unit", "shop/web"), None, NOW) == []
    assert len(list(lines.lines(record(State.DONE), NOW))) == 1  # as news, though it said so before


def test_a_problem_that_the_record_has_is_not_repeated() -> None:
    lines = ProgressLines(PLAIN)
    assert list(lines.lines(record(State.STUCK, CRASH), NOW))
    assert lines.problem(("Unit", "shop/web"), CRASH, NOW) == []


def events_as_rows(
    events: Iterable[tuple[LogLine, Severity | None]],
) -> list[tuple[str, Severity | None, dict[str, object]]]:
    """Event, severity and facts of each."""
    return [(line.event, severity, dict(line.facts)) for line, severity in events]


def test_a_unit_and_its_rollout_are_events_with_the_facts_of_their_lines() -> None:
    events = ProgressEvents()
    held = rollout(state=State.HELD, updated=4, updated_ready=3)
    news = replace(unit_record(state=State.HELD), causal=commit(2, "canary"), rollouts=(held,))
    unit, moved = events_as_rows(events.of(news))
    assert unit == ("unit", None, {
        "unit": "shop/shop", "state": State.HELD, "commit": "2" * 40, "subject": "canary",
    })  # fmt: skip
    assert moved == ("rollout", None, {
        "unit": "shop/shop", "kind": "CloneSet", "namespace": "shop", "name": "checkout",
        "state": State.HELD, "new": 4, "updating": 1, "old": held.total - 4, "ready": held.ready,
        "replicas": held.replicas, "partition": held.partition, "commit": "2" * 40,
    })  # fmt: skip
    assert list(events.of(news)) == []
    waits = replace(news, waits="approval")
    assert [facts["waits_for"] for _, _, facts in events_as_rows(events.of(waits))] == ["approval"]


def test_a_commit_that_leaves_a_workload_alone_is_no_news_of_it() -> None:
    """Its line keeps the commit that `status` shows."""
    lines, canary = ProgressLines(PLAIN), unit_record()
    assert list(lines.lines(canary, NOW))[1].endswith(f" commit={'2' * 7}")
    later = replace(canary, attempted=commit(3, "a ConfigMap"), causal=commit(3, "a ConfigMap"))
    (unit,) = lines.lines(later, NOW)
    assert unit.endswith('state=Held commit=3333333 "a ConfigMap"')
    unsent = rollout(state=State.WAITING, generation_seen=False)
    assert list(lines.lines(replace(later, rollouts=(unsent,)), NOW))[-1].endswith("=3333333")


def test_a_finding_is_an_event_of_its_own() -> None:
    events = ProgressEvents()
    _, broken = events_as_rows(events.of(record(State.STUCK, CRASH)))
    assert broken == ("finding", Severity.ERROR, {
        "unit": "shop/web", "code": CRASHED, "text": "unexpected ValueError",
    })  # fmt: skip
    assert events_as_rows(events.problem(("Unit", "shop/web"), CRASH)) == []
    source = {"kind": "GitSource", "namespace": "shop", "name": "src"}
    refused = {**source, "code": "GK7052", "text": "http is not allowed", "next": "https"}
    assert events_as_rows(events.problem(("GitSource", "shop/src"), REFUSED)) == [
        ("object", None, {**source, "ready": False}),
        ("finding", Severity.ERROR, refused),
    ]
    assert events_as_rows(events.problem(("GitSource", "shop/src"), None)) == [
        ("object", None, {**source, "ready": None})
    ]
