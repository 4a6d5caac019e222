"""Problems as people and programs read them: terminal text with carets, JSON, GitHub, SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gitkruise.cli.style import Style, cell_width
from gitkruise.errors import Finding, Place

SHOWN: Final = 20  # the rest is counted


def finding_text(finding: Finding, style: Style) -> str:
    """What, where with snippet and caret, why, what stayed unchanged, what to do next."""
    colour = "red" if finding.severity == "error" else "yellow"
    head = style.paint(f"{finding.severity}[{finding.code}]", "bold", colour)
    lines = [f"{head}{style.paint(': ' + finding.message, 'bold')}"]
    for place in finding.places:
        lines += _place_lines(place, style)
    for label, text in finding.notes:
        lines += _note_lines(label, text, style)
    return "\n".join(lines)


def _place_lines(place: Place, style: Style) -> list[str]:
    label = "" if place.snippet else f"     {place.label}" if place.label else ""
    lines = [f"  {style.paint('-->', 'blue')} {place}{label}"]
    if not place.snippet:
        return lines
    gutter = len(str(max(number for number, _ in place.snippet)))
    bar = style.paint("|", "blue")
    lines.append(f" {' ' * gutter} {bar}")
    for number, text in place.snippet:
        lines.append(f" {style.paint(str(number).rjust(gutter), 'blue')} {bar} {text}".rstrip())
        if number == place.line:
            indent = " " * cell_width(text[: max(place.column - 1, 0)])
            mark = style.paint("^" * max(place.length, 1), "red")
            note = f" {place.label}" if place.label else ""
            lines.append(f" {' ' * gutter} {bar} {indent}{mark}{note}")
    return lines


def _note_lines(label: str, text: str, style: Style) -> list[str]:
    first, *more = text.splitlines() or [""]
    lead = f"   {style.paint('=', 'blue')} {style.paint(label, 'bold')}: "
    return [f"{lead}{first}", *(" " * (cell_width(lead)) + line for line in more)]


def findings_text(findings: Sequence[Finding], style: Style) -> str:
    """All findings up to a limit, the rest counted."""
    shown = [finding_text(f, style) for f in findings[:SHOWN]]
    if len(findings) > SHOWN:
        shown.append(f"… and {len(findings) - SHOWN} more")
    return "\n".join(shown)


def finding_obj(finding: Finding) -> dict[str, Any]:
    """One finding as a JSON value; positions are 0 where unknown."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        **({"object": finding.object} if finding.object else {}),
        "places": [
            {"file": p.file, "line": p.line, "column": p.column, "label": p.label}
            for p in finding.places
        ],
        "notes": [{"label": label, "text": text} for label, text in finding.notes],
    }


def findings_list(findings: Sequence[Finding]) -> dict[str, Any]:
    """A versioned list, as every `-o json` answer is."""
    return {
        "apiVersion": "gitkruise.io/v1alpha1",
        "kind": "FindingList",
        "items": [finding_obj(f) for f in findings],
    }


def github_annotations(findings: Sequence[Finding]) -> str:
    """Workflow commands that put each finding on its line of a pull request."""
    out = []
    for f in findings:
        where = f.places[0] if f.places else Place(file="")
        spot = f"file={where.file},line={max(where.line, 1)},col={max(where.column, 1)}"
        text = "%0A".join([f.message, *(f"{label}: {text}" for label, text in f.notes)])
        out.append(f"::{f.severity} {spot},title={f.code}::{text.replace(chr(10), '%0A')}")
    return "\n".join(out)


def sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """SARIF 2.1.0, for code scanning views."""
    rules = [{"id": code} for code in sorted({f.code for f in findings})]
    results = [
        {
            "ruleId": f.code,
            "level": f.severity,
            "message": {"text": f.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": p.file},
                        "region": {
                            "startLine": max(p.line, 1),
                            "startColumn": max(p.column, 1),
                        },
                    }
                }
                for p in f.places
            ],
        }
        for f in findings
    ]
    driver = {"name": "gitkruise", "version": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
