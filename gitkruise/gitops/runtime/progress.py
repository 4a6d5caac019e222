"""One pass over units: how far each has come with the newest commit of its source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gitkruise.errors import DiagnosticError, Finding, InvalidManifests, PartlyApplied, SourceFailed
from gitkruise.gitops.config.dependencies import UnitStates
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED, State, stuck_for_good


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a unit. `error` is the reason why it will not advance by itself.

    `applied` content was sent to the cluster, and need not be healthy. Where it is, what left git
    is deleted.
    """

    record: UnitRecord
    commit: str  # the newest of its source, "" before that was asked for
    applied: bool
    stuck: bool = False
    error: DiagnosticError | None = None

    @property
    def settled(self) -> bool:
        return self.applied and self.record.state in SETTLED


def progress_of(
    unit: UnitReconciler,
    reporter: Reporter,
    follower: SourceFollower,
    states: UnitStates,
    now: datetime,
) -> Progress:
    """Return the progress towards the newest commit from the unit's newest record."""
    record, commit = reporter.record, follower.followed
    looked = bool(commit) and not states.has_news(unit.unit.id)
    built = unit.built if looked and unit.built and unit.built.commit.id == commit else None
    prunes = unit.prunes or unit.pruning.awaits(states.has_news)
    applied = built is not None and reporter.is_sent(built, now) and not prunes
    observed = built is not None and reporter.is_observed(built)
    return Progress(
        record=record,
        commit=commit,
        applied=applied,
        stuck=observed and stuck_for_good(record.state, record.since, now),
        error=_error(record, follower.problem, looked=looked, applied=applied),
    )


def _error(
    record: UnitRecord, problem: Finding | None, *, looked: bool, applied: bool
) -> DiagnosticError | None:
    errors = [f for f in record.findings if f.is_error]
    if problem is not None:
        return SourceFailed(problem)
    if looked and record.state is State.REJECTED and errors:
        return InvalidManifests(*errors)
    if looked and not applied and record.state is State.STUCK and errors:
        return PartlyApplied(*errors)
    return None
