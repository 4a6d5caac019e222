"""One pass over units: how far each has come with the newest commit of its source."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gitkruise.errors import Finding, InvalidManifests, PartlyApplied, Reported, SourceFailed
from gitkruise.gitops.gate import Standings
from gitkruise.gitops.reporter import Reporter
from gitkruise.gitops.source import SourceFollower
from gitkruise.gitops.sync import UnitSync
from gitkruise.model.record import UnitRecord
from gitkruise.model.states import SETTLED, State, stuck_for_good


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a unit is. `error` is why it will not come further by itself."""

    record: UnitRecord
    commit: str  # the newest of its source, "" before that was asked for
    applied: bool
    stuck: bool = False
    error: Reported | None = None

    @property
    def settled(self) -> bool:
        return self.applied and self.record.state in SETTLED


def progress_of(
    unit: UnitSync,
    reporter: Reporter,
    follower: SourceFollower,
    standings: Standings,
    now: datetime,
) -> Progress:
    """What the unit's newest record means for the newest commit."""
    record, commit = reporter.record, follower.followed
    looked = bool(commit) and not standings.has_news(unit.unit.id)
    intake = unit.intake
    taken = looked and intake is not None and intake.commit.id == commit
    applied = taken and reporter.finished(intake)
    return Progress(
        record=record,
        commit=commit,
        applied=applied,
        stuck=applied and stuck_for_good(record.state, record.since, now),
        error=_error(record, follower.problem, looked=looked, applied=applied),
    )


def _error(
    record: UnitRecord, problem: Finding | None, *, looked: bool, applied: bool
) -> Reported | None:
    errors = [f for f in record.findings if f.severity == "error"]
    if problem is not None:
        return SourceFailed(problem)
    if looked and record.state is State.REJECTED and errors:
        return InvalidManifests(*errors)
    if looked and not applied and record.state is State.STUCK and errors:
        return PartlyApplied(*errors)
    return None
