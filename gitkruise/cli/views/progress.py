"""Lines of a running controller: one for each change, in the words of the status branch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gitkruise.cli.console.findings import finding_text
from gitkruise.cli.console.style import Style
from gitkruise.errors import Finding
from gitkruise.gitops.resources.conditions import broken_state
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import named
from gitkruise.wire.primitives.times import format_time


def rollout_line(rollout: Rollout, commit: str, now: datetime) -> str:
    """One machine-friendly line: time, object, then `key=value` in a fixed order."""
    counts = {
        "new": rollout.updated,
        "updating": rollout.updated - rollout.updated_ready,
        "old": rollout.total - rollout.updated,
    }
    pairs = {
        "state": rollout.state,
        **(counts if rollout.generation_seen else {}),  # otherwise those of an earlier commit
        "ready": f"{rollout.ready}/{rollout.replicas}",
        **({"canary": rollout.canary} if rollout.canary else {"partition": rollout.partition}),
        "commit": commit[:7],
    }
    text = " ".join(f"{key}={value}" for key, value in pairs.items() if value != "")
    return f"{format_time(now)} {named(rollout.key)} {text}"


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


class ProgressLines:
    """Turns records into lines, each change once; problems in full, with their caret."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._units: dict[str, tuple[object, ...]] = {}
        self._rollouts: dict[object, tuple[object, ...]] = {}

    def lines(self, record: UnitRecord, now: datetime) -> Iterator[str]:
        """Yield the changes since the last record of the unit."""
        attempted = record.attempted or record.causal
        commit = attempted.id if attempted else ""
        mark = (record.state, record.findings, commit, record.waits)
        if self._units.get(record.unit) != mark:
            self._units[record.unit] = mark
            yield _unit_line(record, now)
            for finding in record.findings:
                yield from finding_text(finding, self._style).split("\n")
        commit = record.causal.id if record.causal else ""
        for rollout in record.rollouts:
            seen = (rollout.state, rollout.updated, rollout.ready, rollout.updated_ready, commit)
            if self._rollouts.get(rollout.key) != seen:
                self._rollouts[rollout.key] = seen
                yield rollout_line(rollout, commit, now)

    def problem(self, name: tuple[str, str], finding: Finding | None, now: datetime) -> list[str]:
        """Return the lines for an object that does not run, or that runs again.

        A unit that runs has records, and is left to them.
        """
        kind, place = name
        about = f"{format_time(now)} {kind.lower()} {place}"
        if kind != "Unit":
            about = f"{about} ready={finding is None}"
        elif finding is None:
            self._units.pop(place, None)  # its next record is news
            return []
        else:
            state = broken_state(finding)
            mark = (state, (finding,))
            if self._units.get(place, ())[:2] == mark:
                return []  # its record says so already
            self._units[place] = mark
            about = f"{about} state={state}"
        return [about, *(finding_text(finding, self._style).split("\n") if finding else ())]


def _unit_line(record: UnitRecord, now: datetime) -> str:
    found = record.attempted or record.causal
    commit = f" commit={found.short}" if found else ""
    subject = f' "{found.subject}"' if found else ""
    waits = f' waits-for="{record.waits}"' if record.waits else ""
    return f"{format_time(now)} unit {record.unit} state={record.state}{commit}{subject}{waits}"
