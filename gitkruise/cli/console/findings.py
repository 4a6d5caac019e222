"""Findings as terminal text with carets, JSON, GitHub annotations and SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import list_of, say_on_stderr
from gitkruise.cli.console.style import Style, cell_width, clip
from gitkruise.errors import Finding, SourcePlace, errors_first
from gitkruise.printable import visible

SHOWN: Final = 20  # the rest is counted


def finding_text(finding: Finding, style: Style) -> str:
    """Format a finding: problem, place with snippet and caret, reason, unchanged, next step.

    Text from outside is escaped: line ends are our own.
    """
    colour = "red" if finding.is_error else "yellow"
    head = f"{finding.severity}[{finding.code}]: "
    first, *more = _wrapped(finding.message, style.width, len(head), indent=2)
    lines = [style.paint(head[:-2], "bold", colour) + style.paint(f": {first}", "bold")]
    lines += [style.paint(line, "bold") for line in more]
    for place in finding.places:
        lines += _place_lines(place, style)
    for label, text in finding.notes:
        lines += _note_lines(label, text, style)
    return "\n".join(lines)


def _wrapped(text: str, width: int, taken: int, *, indent: int) -> list[str]:
    """Wrap `text` to `width`, the first line to `taken` less; long words stay whole."""
    import textwrap  # noqa: PLC0415  only when there is something to say

    out = textwrap.wrap(
        visible(text),
        width,
        initial_indent=" " * taken,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [" " * taken]
    return [out[0][taken:], *out[1:]]


def _place_lines(place: SourcePlace, style: Style) -> list[str]:
    shown_label = visible(place.label)
    label = "" if place.snippet else f"     {shown_label}" if shown_label else ""
    lines = [f"  {style.paint('-->', 'blue')} {visible(str(place))}{label}"]
    if not place.snippet:
        return lines
    gutter = len(str(max(number for number, _ in place.snippet)))
    room, start = style.width - gutter - 4, 0
    if place.column + place.length > room:
        start = max(0, place.column - 1 - room // 2)  # a window around the caret
    bar = style.paint("|", "blue")
    lines.append(f" {' ' * gutter} {bar}")
    for number, text in place.snippet:
        shown = clip(visible(text[start:].replace("\t", " ")), room)
        lines.append(f" {style.paint(str(number).rjust(gutter), 'blue')} {bar} {shown}".rstrip())
        if number == place.line:
            before = text[start : max(place.column - 1, 0)].replace("\t", " ")
            indent = " " * cell_width(before)
            length = min(max(place.length, 1), max(1, room - len(indent)))
            mark = style.paint("^" * length, "red")
            note = f" {shown_label}" if shown_label else ""
            lines.append(f" {' ' * gutter} {bar} {indent}{mark}{note}")
    return lines


def _note_lines(label: str, text: str, style: Style) -> list[str]:
    lead = f"   = {label}: " if label else "   = "
    first, *more = _wrapped(text, style.width, len(lead), indent=len(lead))
    head = f"   {style.paint('=', 'blue')} " + (f"{style.paint(label, 'bold')}: " if label else "")
    return [head + first, *more]


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings on standard error, if there are any."""
    if findings:
        say_on_stderr(findings_text(findings, Style.of_errors(read_environment())).split("\n"))


def findings_text(findings: Sequence[Finding], style: Style) -> str:
    """Format all findings up to a limit, beyond it errors first, and count the rest."""
    if len(findings) > SHOWN:
        findings = errors_first(findings)
    shown = [finding_text(f, style) for f in findings[:SHOWN]]
    if len(findings) > SHOWN:
        shown.append(f"… and {len(findings) - SHOWN} more")
    return "\n".join(shown)


def finding_obj(finding: Finding) -> dict[str, Any]:
    """Return one finding as a JSON value; unknown positions are 0."""
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "message": finding.message,
        **({"object": finding.object} if finding.object else {}),
        "places": [
            {"file": p.file, "line": p.line, "column": p.column, "label": p.label}
            for p in finding.places
        ],
        "notes": [{"label": label, "text": text} for label, text in finding.notes],
    }


def findings_list(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return findings as a versioned list, the form of every `-o json` output."""
    return list_of("FindingList", [finding_obj(f) for f in findings])


def github_annotations(findings: Sequence[Finding]) -> str:
    """Return workflow commands that attach each finding to its line of a pull request."""
    out = []
    for f in findings:
        location = ""
        if f.places:
            at = f.places[0]
            location = f"file={_property(at.file)},line={max(at.line, 1)},col={max(at.column, 1)},"
        notes = [f"{label}: {text}" if label else text for label, text in f.notes]
        text = visible(_command_text("\n".join([f.message, *notes])))
        out.append(f"::{f.severity} {location}title={f.code}::{text}")
    return "\n".join(out)


def _command_text(text: str) -> str:
    """Escape the message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return visible(_command_text(text)).replace(":", "%3A").replace(",", "%2C")


def sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """Return findings as SARIF 2.1.0, for code scanning views."""
    rules = [{"id": code} for code in sorted({f.code for f in findings})]
    results = [
        {
            "ruleId": f.code,
            "level": str(f.severity),
            "message": {"text": "\n".join([f.message, *(text for _, text in f.notes)])},
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
