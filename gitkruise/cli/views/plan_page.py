"""A plan as a document for a page: the sentences of the terminal's, part by part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.findings import finding_obj
from gitkruise.planner.report.report_text import (
    NOTHING,
    SIGNS,
    about,
    compared,
    entry_name,
    looked_at,
    source_of,
    subject_of,
    summary,
)

if TYPE_CHECKING:
    from gitkruise.model.gitops.report import PlanReport, ReportEntry, RolloutView, Span

ENTRIES_MAX: Final = 300
FIELDS_MAX: Final = 100
STEPS_MAX: Final = 60


def plan_document(report: PlanReport) -> dict[str, Any]:
    """Return heading, irreversible effects, objects and totals; what is cut is counted."""
    entries = report.entries[:ENTRIES_MAX]
    return {
        "compared": compared(report),
        "subject": subject_of(report),
        "source": looked_at(report),
        "blast": _spans(report.blast),
        "entries": [_entry(entry, report) for entry in entries],
        "moreEntries": len(report.entries) - len(entries),
        "nothing": "" if entries else NOTHING,
        "summary": summary(report),
        "findings": [finding_obj(finding) for finding in report.findings],
    }


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
