"""Outcome of a merged pull request in each unit, shown under its plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from gitkruise.model.gitops.notifications import (
    CommitStatusItem,
    Outcome,
    PullRequestReport,
    StatusState,
)
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED, worst
from gitkruise.planner.analysis.schedule import blocks, progress_of
from gitkruise.planner.notify.commit_statuses import DESCRIPTION_MAX, describe, short
from gitkruise.wire.primitives.times import format_duration

_WORST: Final[tuple[StatusState, ...]] = ("error", "failure", "pending", "success")


def follow(
    report: PullRequestReport, records: Iterable[UnitRecord], past: Collection[str] = ()
) -> tuple[Outcome, ...]:
    """The outcomes of a merged pull request after these records; units come in the order of news.

    What a newer commit overtook is final: the unit's later fate belongs to that commit. Units that
    are `past` the merge may have no record of it: it was not known to be merged then.
    """
    found = {outcome.unit: outcome for outcome in report.outcomes}
    for record in records:
        about = record.about
        if about is None:
            continue
        before = found.get(record.unit)
        if about.id in report.commits:
            if before is None or not before.final:
                found[record.unit] = _reached(record, about.id)
        elif record.attempted is not None and record.attempted.id in report.commits:
            continue  # it waits, and the state is about the live commit, an older one
        elif before is not None and not before.final:
            found[record.unit] = _left(before, about.short)
        elif before is None:
            by = next((by for commit, by in record.superseded if commit.id in report.commits), "")
            if by or record.unit in past:
                found[record.unit] = _passed(record, report.commits, by[:7] or about.short)
    return tuple(found.values())


def _reached(record: UnitRecord, commit: str) -> Outcome:
    spans = [
        step.done - step.started
        for _, steps in record.steps
        for step in steps[-1:]
        if step.commit.id == commit and step.done is not None and step.state in SETTLED
    ]
    took = f", after {format_duration(max(spans))}" if spans else ""
    return Outcome(record.unit, str(record.state), describe(record) + took + _measured(record))


def _passed(record: UnitRecord, commits: Collection[str], newer: str) -> Outcome:
    """The last word on a unit that moved on unseen, from the steps of its rollouts."""
    steps = [step for _, kept in record.steps for step in kept if step.commit.id in commits]
    words = [f"{s.state} ({s.updated}/{s.replicas} updated)".lower() for s in steps]
    text = "; ".join([*([", ".join(words)] if words else ()), f"superseded by {newer}"])
    return Outcome(record.unit, str(worst(step.state for step in steps)), text, final=True)


def _measured(record: UnitRecord) -> str:
    """Return the outcome of the measurements at the step of a promotion, with a semicolon.

    Single measurements are in the record: a comment is not edited for each of them.
    """
    run = record.analysis
    if run is None:
        return ""
    if not run.phase.completed:
        return "; being measured"
    return f"; {blocks(run) or f'measured: {progress_of(run)}'}"


def _left(before: Outcome, newer: str) -> Outcome:
    """The last word on a unit that has moved on: as it was, if that was an end."""
    return Outcome(before.unit, before.state, f"{before.text}; superseded by {newer}", final=True)


def check(report: PullRequestReport, context: str, summary: str) -> CommitStatusItem:
    """The status of an open pull request's head: never missing, so that it may be required."""
    if report.crashed:
        return CommitStatusItem(
            report.head, context, "error", "it could not be planned: see the comment"
        )
    if report.rejecting:
        text = f"rejected by {', '.join(report.rejecting)}: see the comment"
        return CommitStatusItem(report.head, context, "failure", short(text, DESCRIPTION_MAX))
    if report.failed and not report.plan:
        return CommitStatusItem(
            report.head, context, "failure", "it cannot be merged or applied: see the comment"
        )
    text = summary if report.touches else "no units affected"
    if report.failed and not report.touches:
        text = f"{text}; a unit rejects {report.branch} already"
    return CommitStatusItem(report.head, context, "success", short(text, DESCRIPTION_MAX))


def check_of(
    head: str, reports: Iterable[PullRequestReport], names: str, context: str
) -> CommitStatusItem | None:
    """The status of a head that several pull requests may have, for several branches: the worst of
    the open ones. `names` are those that the checks have now."""
    known = [report for report in reports if (report.head, report.names) == (head, names)]
    shown = [report for report in known if report.state == "open"] or known[-1:]
    for state in _WORST:
        for report in shown:
            was, _, words = report.checked.partition(" ")
            if was == state:
                description = f"into {report.branch}: {words}" if len(shown) > 1 else words
                return CommitStatusItem(head, context, state, short(description, DESCRIPTION_MAX))
    return None
