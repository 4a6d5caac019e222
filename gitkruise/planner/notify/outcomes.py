"""Outcome of a merged pull request in each unit, shown under its plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gitkruise.model.gitops.notifications import (
    CommitStatusItem,
    Outcome,
    PullRequestReport,
    StatusState,
)
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED
from gitkruise.planner.analysis.schedule import blocks, progress_of
from gitkruise.planner.notify.commit_statuses import DESCRIPTION_MAX, describe, short, told_of
from gitkruise.wire.primitives.times import format_duration

_WORST: Final[tuple[StatusState, ...]] = ("error", "failure", "pending", "success")


def follow(story: PullRequestReport, records: Iterable[UnitRecord]) -> tuple[Outcome, ...]:
    """The outcomes of a merged story after these records; units come in the order of news.

    What a newer commit overtook is final: the unit's later fate belongs to that commit.
    """
    found = {outcome.unit: outcome for outcome in story.outcomes}
    for record in records:
        told = told_of(record)
        if told is None:
            continue
        before = found.get(record.unit)
        if told.id in story.commits:
            if before is None or not before.final:
                found[record.unit] = _reached(record, told.id)
        elif before is not None and not before.final:
            found[record.unit] = _left(before, told.short)
        elif before is None:
            by = next((by for commit, by in record.superseded if commit.id in story.commits), "")
            if by:
                text = f"overtaken by {by[:7]} before it was applied"
                found[record.unit] = Outcome(record.unit, "Done", text, final=True)
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


def check(story: PullRequestReport, context: str, summary: str) -> CommitStatusItem:
    """The status of an open pull request's head: never missing, so that it may be required."""
    if story.crashed:
        return CommitStatusItem(
            story.head, context, "error", "it could not be planned: see the comment"
        )
    if story.rejecting:
        text = f"rejected by {', '.join(story.rejecting)}: see the comment"
        return CommitStatusItem(story.head, context, "failure", short(text, DESCRIPTION_MAX))
    if story.failed and not story.plan:
        return CommitStatusItem(
            story.head, context, "failure", "it cannot be merged or applied: see the comment"
        )
    text = summary if story.touches else "no units affected"
    if story.failed and not story.touches:
        text = f"{text}; a unit rejects {story.branch} already"
    return CommitStatusItem(story.head, context, "success", short(text, DESCRIPTION_MAX))


def check_of(
    head: str, stories: Iterable[PullRequestReport], names: str, context: str
) -> CommitStatusItem | None:
    """The status of a head that several pull requests may have, for several branches: the worst of
    the open ones. `names` are those that the checks have now."""
    known = [story for story in stories if (story.head, story.names) == (head, names)]
    shown = [story for story in known if story.state == "open"] or known[-1:]
    for state in _WORST:
        for story in shown:
            was, _, words = story.checked.partition(" ")
            if was == state:
                said = f"into {story.branch}: {words}" if len(shown) > 1 else words
                return CommitStatusItem(head, context, state, short(said, DESCRIPTION_MAX))
    return None
