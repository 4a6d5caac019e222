"""A plan and its diffs as documents for a page: the sentences of the terminal's, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gitkruise.gitops.install.installer import manifest_text
from gitkruise.gitops.preview.report import SECRET_KEY
from gitkruise.model.gitops.change import ChangeKind, Redacted
from gitkruise.planner.report.redaction import covered_object
from gitkruise.planner.report.report_text import (
    SIGNS,
    about,
    compared,
    entry_name,
    looked_at,
    nothing,
    source_of,
    subject_of,
    summary,
)
from gitkruise.printable import visible

if TYPE_CHECKING:
    from gitkruise.model.gitops.change import ObjectChange
    from gitkruise.model.gitops.report import PlanReport, ReportEntry, RolloutView, Span
    from gitkruise.wire.primitives.names import Obj

ENTRIES_MAX: Final = 300
FIELDS_MAX: Final = 100
STEPS_MAX: Final = 60
LINES_MAX: Final = 1_000  # of one object


def plan_document(report: PlanReport) -> dict[str, Any]:
    """Return heading, irreversible effects, objects and totals; what is cut is counted.

    Findings are the caller's to add.
    """
    entries = report.entries[:ENTRIES_MAX]
    return {
        "compared": compared(report),
        "subject": subject_of(report),
        "source": looked_at(report),
        "live": report.live,
        "blast": _spans(report.blast),
        "entries": [_entry(entry, report) for entry in entries],
        "moreEntries": len(report.entries) - len(entries),
        "nothing": "" if entries else nothing(report),
        "summary": summary(report),
    }


def diff_document(changes: Iterable[ObjectChange]) -> dict[str, Any]:
    """Return the manifests of changed objects as unified diffs, without their secrets.

    Values that a plan covers are covered here: equal ones have equal fingerprints.
    """
    changed = [change for change in changes if change.kind is not ChangeKind.UNCHANGED]
    shown = changed[:ENTRIES_MAX]
    return {
        "entries": [_diff(change) for change in shown],
        "moreEntries": len(changed) - len(shown),
    }


def _diff(change: ObjectChange) -> dict[str, Any]:
    before, after = (_manifest(side) for side in (change.before, change.after))
    lines = list(islice(unified_diff(before, after, lineterm="", n=3), 2, None))
    return {
        "change": str(change.kind),
        "name": f"{SIGNS[change.kind]} {change.key}",
        "source": change.source,
        "added": sum(line[0] == "+" for line in lines),
        "removed": sum(line[0] == "-" for line in lines),
        "lines": [visible(line) for line in lines[:LINES_MAX]],
        "moreLines": max(0, len(lines) - LINES_MAX),
    }


def _manifest(obj: Obj | None) -> list[str]:
    if obj is None:
        return []
    return manifest_text([_plain(covered_object(obj, SECRET_KEY))]).splitlines()


def _plain(value: Any) -> Any:
    """`value` as YAML has it: what is covered as a text."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Redacted) else value


def _spans(spans: Iterable[Span]) -> list[dict[str, str]]:
    return [{"text": span.text, "tone": str(span.tone)} for span in spans]


def _entry(entry: ReportEntry, report: PlanReport) -> dict[str, Any]:
    rows = entry.rows[:FIELDS_MAX]
    return {
        "change": str(entry.kind),
        "name": f"{SIGNS[entry.kind]} {entry_name(entry)}",
        "source": source_of(entry, report),
        "fields": [
            {
                "path": row.path,
                "words": row.words,
                "line": 0 if entry.folded else row.line,
                "remark": row.remark,
                "loud": row.loud,
            }
            for row in rows
        ],
        "moreFields": len(entry.rows) - len(rows),
        "effect": _spans(entry.effect),
        "rollouts": [_rollout(view, entry) for view in entry.rollouts],
        "notes": list(entry.notes),
    }


def _rollout(view: RolloutView, entry: ReportEntry) -> dict[str, Any]:
    steps = view.steps[:STEPS_MAX]
    return {
        "name": view.prediction.key.name if entry.folded else "",
        "effect": [_spans(sentence) for sentence in view.effect],
        "budget": view.budget,
        "steps": [
            {
                "done": step.done,
                "total": step.total,
                "moves": step.moves,
                "lasts": about(step.lasts),
            }
            for step in steps
        ],
        "moreSteps": len(view.steps) - len(steps),
        "hold": _spans(view.hold),
        "notes": list(view.notes),
    }
