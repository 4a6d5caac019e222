"""Recorded steps of rollouts by commit and unit: items of `history`, rows of the commit pages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.findings import finding_obj
from gitkruise.cli.views.promotion import progress
from gitkruise.dashboard.source import HEAD
from gitkruise.gitops.status.codecs import INTERVENTION, step_obj
from gitkruise.model.gitops.record import RolloutStep
from gitkruise.model.gitops.unit_state import SETTLED, State, worst
from gitkruise.wire.primitives.names import ObjectKey, noun
from gitkruise.wire.primitives.times import format_duration, format_time

if TYPE_CHECKING:
    from gitkruise.cli.context.local_repository import ClusterRecord
    from gitkruise.errors import DiagnosticError
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.model.gitops.document import GitCommit
    from gitkruise.model.gitops.record import DriftRecord, Intervention

COMMITS_MAX: Final = 300
COMMIT_ID: Final = re.compile("[0-9a-f]{7,64}")  # or the beginning of one
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
# The commits that a unit's record names, in the words of its file.
_POINTERS: Final = ("attempted", "sent", "applied", "causal")


def step_item(key: ObjectKey, step: RolloutStep) -> dict[str, Any]:
    """Return one step with its object, for JSON."""
    return {"kind": key.kind, "namespace": key.namespace, "name": key.name, **step_obj(step)}


def drift_item(d: DriftRecord) -> dict[str, Any]:
    """Return one field that differs from git, for JSON."""
    return {
        "object": d.key._asdict(),
        "field": d.field,
        "git": d.git,
        "live": d.live,
        "manager": d.manager,
        "written": d.written,
    }


def drift_items(
    differing: Iterable[DriftRecord], unread: Iterable[DiagnosticError]
) -> dict[str, Any]:
    """Return the fields that differ, and the findings about units that were not compared."""
    findings = [finding_obj(finding) for error in unread for finding in error.findings]
    return {"items": [drift_item(one) for one in differing], "findings": findings}


def result_words(step: RolloutStep) -> str:
    """Return `4/4 in 12s`, or the pods so far, with the message."""
    counts = f"{step.updated}/{max(step.asked, step.updated)}"  # a first revision has all pods
    if step.state is State.ROLLING and not step.message:
        return f"{counts} so far"
    if step.state is State.PAUSED and step.updated < step.asked:
        return f"{counts}, paused"
    ended = step.done is not None and step.done >= step.started  # or the clock was put back
    took = f" in {_seconds(step)}" if ended and step.state in SETTLED else ""
    return f"{counts}{took}" + (f" ({step.message})" if step.message else "")


def _seconds(step: RolloutStep) -> str:
    assert step.done is not None
    whole = (step.done - step.started).total_seconds()
    return format_duration(step.done - step.started) if whole >= 1 else "under 1s"


@dataclass(slots=True)
class _Lane:
    """One unit's share of a commit: its steps, and how the unit's record names the commit."""

    record: ClusterRecord
    unit: str
    steps: list[tuple[ObjectKey, RolloutStep]] = field(default_factory=list)
    news: RecordedUnit | None = None
    named: tuple[str, ...] = ()
    commit: GitCommit | None = None  # as the unit's record has it

    @property
    def name(self) -> str:
        return f"{self.record.cluster} {self.unit}"

    @property
    def current(self) -> bool:
        """Return whether the unit's state is about the commit."""
        about = self.news.about if self.news is not None else None
        return about is not None and self.commit is not None and about.id == self.commit.id

    def row(self) -> dict[str, Any]:
        """State and counts. A unit without rollouts has the state of its record, if that is about
        the commit."""
        news = self.news if self.current else None
        states = [step.state for _, step in self.steps] + ([news.state] if news else [])
        return {
            "state": str(worst(states)) if states else "",
            "objects": len(self.steps),
            "updated": sum(step.updated for _, step in self.steps),
            "asked": sum(step.asked for _, step in self.steps),
            "named": list(self.named),
        }


class Journal:
    """The records of the clusters of one repository, arranged by commit and unit."""

    def __init__(self, records: Mapping[str, ClusterRecord]) -> None:
        self.records = records
        self._lanes = _lanes(records.values())
        self._rows = self._commit_rows()

    def rows(self, stale: Sequence[str]) -> dict[str, Any]:
        """Return the newest commits by id, each with a lane for every unit that it concerns.

        The head names all lanes, `cluster unit`, and when the record of each cluster was written.
        """
        return {**self._rows, HEAD: {**self._rows[HEAD], "stale": list(stale)}}

    def _commit_rows(self) -> dict[str, Any]:
        commits = {id_: _commit(id_, found) for id_, found in self._lanes.items()}
        started = {id_: _started(commits[id_], found) for id_, found in self._lanes.items()}
        newest = sorted(commits, key=lambda id_: (started[id_], id_), reverse=True)[:COMMITS_MAX]
        rows: dict[str, Any] = {
            id_: {
                **_commit_obj(commits[id_]),
                "started": format_time(started[id_]) if started[id_] != _LONG_AGO else "",
                "lanes": {name: lane.row() for name, lane in self._lanes[id_].items()},
            }
            for id_ in newest
        }
        lanes = sorted({name for id_ in newest for name in self._lanes[id_]})
        rows[HEAD] = {"lanes": lanes, "commits": len(commits), "written": self._written()}
        return rows

    def commit(self, prefix: str, now: datetime, stale: Sequence[str]) -> dict[str, Any]:
        """Return the record of one commit, named by its id or the beginning of it.

        Its rows are the units that name it, its steps, and the interventions on its objects while
        it was the newest one to move them. A shorter beginning names none.
        """
        ids = sorted(self._lanes) if COMMIT_ID.fullmatch(prefix) else ()
        full = next((id_ for id_ in ids if id_.startswith(prefix)), "")
        lanes = self._lanes.get(full, {})
        about = _commit_obj(_commit(full, lanes)) if full else {"id": prefix}
        head = {"recorded": bool(full), "written": self._written(), "stale": list(stale)}
        rows: dict[str, Any] = {HEAD: {**about, **head}}
        for lane in lanes.values():
            rows |= {**dict(_unit_row(lane, now)), **dict(_step_rows(lane))}
            rows |= dict(_intervention_rows(lane))
        return rows

    def drift(self, stale: Sequence[str]) -> dict[str, Any]:
        """Return the recorded drift that is not corrected, and every recorded intervention."""
        rows: dict[str, Any] = {HEAD: {"written": self._written(), "stale": list(stale)}}
        for cluster, record in self.records.items():
            for news in record.units:
                about = {"cluster": cluster, "unit": news.unit}
                for one in news.drift:
                    key = f"drift/{cluster}/{news.unit}/{one.key}/{one.field}"
                    rows[key] = {**drift_item(one), **about}
            for n, intervention in enumerate(record.interventions):
                rows[f"intervention/{cluster}/{n}"] = intervention_row(cluster, intervention)
        return rows

    def _written(self) -> dict[str, str]:
        return {
            name: format_time(record.written) if record.written else ""
            for name, record in self.records.items()
        }


def _unit_row(lane: _Lane, now: datetime) -> Iterator[tuple[str, Any]]:
    news = lane.news
    if news is None or not lane.named:
        return
    row = {
        "cluster": lane.record.cluster,
        "unit": lane.unit,
        "path": news.path,
        "named": list(lane.named),
    }
    if not lane.current:
        about = f"its state is about {news.about.short}" if news.about else ""
        more = {"state": "", "message": about, "since": "", "waits": "", "problems": []}
        yield f"unit/{lane.name}", {**row, **more, "promotion": ""}
        return
    promotion = news.promotion
    yield (
        f"unit/{lane.name}",
        {
            **row,
            "state": str(news.state),
            "message": news.message,
            "since": format_time(news.since) if news.since else "",
            "waits": news.waits,
            "problems": list(news.problems),
            "promotion": progress(promotion, now) if promotion and promotion.next else "",
        },
    )


def _step_rows(lane: _Lane) -> Iterator[tuple[str, Any]]:
    for n, (key, step) in enumerate(lane.steps):
        item = {
            **step_item(key, step),
            "group": key.group,
            "message": step.message,
            "noun": noun(key.group_kind),
            "cluster": lane.record.cluster,
            "unit": lane.unit,
            "result": result_words(step),
        }
        yield f"step/{lane.name}/{key}/{n}", item


def _intervention_rows(lane: _Lane) -> Iterator[tuple[str, Any]]:
    """Yield those on objects of the commit's steps until the next step of the same object."""
    spans = {key: (step.started, _until(lane.record, key, step)) for key, step in lane.steps}
    for n, one in enumerate(lane.record.interventions):
        begin, end = spans.get(one.key, (None, None))
        if begin is not None and begin <= one.at and (end is None or one.at < end):
            yield f"intervention/{lane.name}/{n}", intervention_row(lane.record.cluster, one)


def intervention_row(cluster: str, one: Intervention) -> dict[str, Any]:
    """Return an intervention with its cluster; `object` is in the words of `history`."""
    row = {**INTERVENTION.obj(one), "object": str(one.key), "cluster": cluster}
    return {**one.key._asdict(), **row}


def _until(record: ClusterRecord, key: ObjectKey, step: RolloutStep) -> datetime | None:
    """Return when the next step of an object began."""
    later = [s.started for k, s in record.steps if k == key and s.started > step.started]
    return min(later, default=None)


def _lanes(records: Iterable[ClusterRecord]) -> dict[str, dict[str, _Lane]]:
    """Return the lanes by commit id and name."""
    found: dict[str, dict[str, _Lane]] = defaultdict(dict)

    def lane(commit: str, record: ClusterRecord, unit: str) -> _Lane:
        made = _Lane(record, unit)
        return found[commit].setdefault(made.name, made)

    for record in records:
        units = {key: news.unit for news in record.units for key in news.objects}
        for key, step in record.steps:
            lane(step.commit.id, record, units.get(key, "")).steps.append((key, step))
        for news in record.units:
            for word, commit in _named(news):
                mine = lane(commit.id, record, news.unit)
                mine.news, mine.named = news, (*mine.named, word)
                mine.commit = commit
    return found


def _named(recorded: RecordedUnit) -> Iterator[tuple[str, GitCommit]]:
    found = ((word, getattr(recorded, word)) for word in _POINTERS)
    return ((word, commit) for word, commit in found if commit is not None)


def _commit(id_: str, lanes: Mapping[str, _Lane]) -> GitCommit:
    """Return what the records say of a commit."""
    commits = [lane.commit for lane in lanes.values() if lane.commit is not None]
    commits += [step.commit for lane in lanes.values() for _, step in lane.steps]
    return next(commit for commit in commits if commit.id == id_)


def _started(commit: GitCommit, lanes: Mapping[str, _Lane]) -> datetime:
    """Return when the first rollout of a commit began; without one, when it was committed."""
    steps = [step.started for lane in lanes.values() for _, step in lane.steps]
    return min(steps, default=commit.time or _LONG_AGO)


def _commit_obj(commit: GitCommit) -> dict[str, Any]:
    return {
        "id": commit.id,
        "subject": commit.subject,
        "author": commit.author,
        "time": format_time(commit.time) if commit.time else "",
    }
