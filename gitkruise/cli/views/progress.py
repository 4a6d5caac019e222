"""Lines and events of a running controller: one for each change, in the words of the status
branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gitkruise.cli.console.findings import finding_text
from gitkruise.cli.console.log_format import finding_event
from gitkruise.cli.console.style import Style
from gitkruise.errors import Finding, Severity
from gitkruise.gitops.resources.conditions import broken_state
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.log_line import LogLine, log_line
from gitkruise.wire.primitives.names import named
from gitkruise.wire.primitives.times import format_time


def rollout_line(rollout: Rollout, commit: str, now: datetime) -> str:
    """One machine-friendly line: time, object, then `key=value` in a fixed order."""
    pairs = {
        **_rollout_counts(rollout),
        "ready": f"{rollout.ready}/{rollout.replicas}",
        **_gate(rollout),
        "commit": commit[:7],
    }
    text = " ".join(f"{key}={value}" for key, value in pairs.items() if value != "")
    return f"{format_time(now)} {named(rollout.key)} {text}"


def _rollout_counts(rollout: Rollout) -> dict[str, object]:
    """Return the state and the pods; not the pods of an earlier commit."""
    counts = {
        "new": rollout.updated,
        "updating": rollout.updated - rollout.updated_ready,
        "old": rollout.total - rollout.updated,
    }
    return {"state": rollout.state, **(counts if rollout.generation_seen else {})}


def _gate(rollout: Rollout) -> dict[str, object]:
    return {"canary": rollout.canary} if rollout.canary else {"partition": rollout.partition}


def rollout_bar(rollout: Rollout, style: Style) -> str:
    """`checkout  ████░░░░░░  4/10 new  10/10 ready  ⏸ Held  held by partition 60%`."""
    bar = style.bar(rollout.updated_ready, max(rollout.replicas, 1))
    counts = f"{rollout.updated}/{rollout.replicas} new  {rollout.ready}/{rollout.replicas} ready"
    words = [
        f"{rollout.key.name:<12}",
        style.paint(bar, "green" if rollout.state is State.DONE else "cyan"),
        counts,
        style.state(rollout.state),
    ]
    why = explanation(rollout)
    return "  ".join([*words, style.paint(why, "dim")] if why else words)


def explanation(rollout: Rollout) -> str:
    """Return what holds a rollout, without the counts that are shown next to it."""
    if rollout.state is State.HELD and rollout.kept:
        return f"{rollout.gate} keeps {rollout.kept} old"
    if rollout.state in {State.HELD, State.STUCK, State.PAUSED}:
        return rollout.message
    return ""


@dataclass(frozen=True, slots=True)
class RolloutChange:
    """A rollout that differs from what was last said, and the commit that its object is at."""

    rollout: Rollout
    commit: str


@dataclass(frozen=True, slots=True)
class ObjectReadiness:
    """An object of the cluster that does not run, or runs again. `state` is a unit's alone."""

    kind: str
    place: str
    finding: Finding | None
    state: State | None = None

    @property
    def ready(self) -> bool | None:
        """Return its readiness; None for a source that runs again and has not been looked at."""
        if self.finding is not None:
            return False
        return None if self.kind == "GitSource" else True


class ProgressChanges:
    """The changes in the records and problems of a controller, each once."""

    def __init__(self) -> None:
        self._units: dict[str, tuple[object, ...]] = {}
        self._rollouts: dict[object, tuple[object, ...]] = {}

    def of(self, record: UnitRecord) -> Iterator[UnitRecord | RolloutChange]:
        """Yield the changes since the last record of the unit."""
        attempted = record.attempted or record.causal
        commit = attempted.id if attempted else ""
        mark = (record.state, record.findings, commit, record.waits)
        if self._units.get(record.unit) != mark:
            self._units[record.unit] = mark
            yield record
        causal = record.causal.id if record.causal else ""
        live = {one.key: one.commit for one in record.objects}
        for rollout in record.rollouts:
            # Of an object that was not sent yet only the commit of its unit is known.
            commit = (rollout.generation_seen and live.get(rollout.key)) or causal
            seen = (rollout.state, rollout.updated, rollout.ready, rollout.updated_ready, commit)
            if self._rollouts.get(rollout.key) != seen:
                self._rollouts[rollout.key] = seen
                yield RolloutChange(rollout, commit)

    def of_object(self, name: tuple[str, str], finding: Finding | None) -> ObjectReadiness | None:
        """Return the change of an object that does not run, or that runs again.

        A unit that runs has records, and is left to them.
        """
        kind, place = name
        if kind != "Unit":
            return ObjectReadiness(kind, place, finding)
        if finding is None:
            self._units.pop(place, None)  # its next record is news
            return None
        state = broken_state(finding)
        mark = (state, (finding,))
        if self._units.get(place, ())[:2] == mark:
            return None  # its record says so already
        self._units[place] = mark
        return ObjectReadiness(kind, place, finding, state)


class ProgressLines:
    """Turns records into lines, each change once; problems in full, with their caret."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._changes = ProgressChanges()

    def lines(self, record: UnitRecord, now: datetime) -> Iterator[str]:
        """Yield the changes since the last record of the unit."""
        for change in self._changes.of(record):
            if isinstance(change, RolloutChange):
                yield rollout_line(change.rollout, change.commit, now)
                continue
            yield _unit_line(record, now)
            for finding in record.findings:
                yield from finding_text(finding, self._style).split("\n")

    def problem(self, name: tuple[str, str], finding: Finding | None, now: datetime) -> list[str]:
        """Return the lines for an object that does not run, or that runs again."""
        change = self._changes.of_object(name, finding)
        if change is None:
            return []
        ready = "Unknown" if change.ready is None else change.ready
        about = f"state={change.state}" if change.state else f"ready={ready}"
        head = f"{format_time(now)} {change.kind.lower()} {change.place} {about}"
        return [head, *(finding_text(finding, self._style).split("\n") if finding else ())]


class ProgressEvents:
    """Turns records into events of the log, each change once; a finding is an event of its own."""

    def __init__(self) -> None:
        self._changes = ProgressChanges()

    def of(self, record: UnitRecord) -> Iterator[tuple[LogLine, Severity | None]]:
        """Yield the changes since the last record of the unit."""
        for change in self._changes.of(record):
            if isinstance(change, RolloutChange):
                facts = _rollout_facts(change.rollout, change.commit)
                yield log_line("rollout", unit=record.unit, **facts), None
                continue
            yield log_line("unit", unit=record.unit, **_unit_facts(record)), None
            for finding in record.findings:
                yield finding_event(finding, unit=record.unit)

    def problem(
        self, name: tuple[str, str], finding: Finding | None
    ) -> Iterator[tuple[LogLine, Severity | None]]:
        """Yield the events of an object that does not run, or that runs again."""
        change = self._changes.of_object(name, finding)
        if change is None:
            return
        namespace, _, short = change.place.rpartition("/")
        about: dict[str, object] = {"kind": change.kind, "namespace": namespace, "name": short}
        standing = {"state": change.state} if change.state else {"ready": change.ready}
        yield log_line("object", **about, **standing), None
        if finding:
            yield finding_event(finding, **about)


def _unit_facts(record: UnitRecord) -> dict[str, object]:
    found = record.attempted or record.causal
    commit = {"commit": found.id, "subject": found.subject} if found else {}
    waits = {"waits_for": record.waits} if record.waits else {}
    return {"state": record.state, **commit, **waits}


def _rollout_facts(rollout: Rollout, commit: str) -> dict[str, object]:
    key = rollout.key
    return {
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        **_rollout_counts(rollout),
        "ready": rollout.ready,
        "replicas": rollout.replicas,
        **_gate(rollout),
        "commit": commit,
    }


def _unit_line(record: UnitRecord, now: datetime) -> str:
    found = record.attempted or record.causal
    commit = f" commit={found.short}" if found else ""
    subject = f' "{found.subject}"' if found else ""
    waits = f' waits-for="{record.waits}"' if record.waits else ""
    return f"{format_time(now)} unit {record.unit} state={record.state}{commit}{subject}{waits}"
