"""A plan as Markdown for comments of pull requests: bounded, and safe whatever it holds.

Foreign text is written in code spans, in fences, or escaped inside of HTML: it mentions no user,
creates no link, and closes no element that it did not open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import accumulate, islice, takewhile
from typing import Final

from gitkruise.model.gitops.report import PlanReport, ReportEntry, RolloutView, Tone
from gitkruise.planner.report.diff_lines import diff_lines
from gitkruise.planner.report.report_text import (
    SIGNS,
    afterwards,
    change_words,
    compared,
    entry_name,
    folded_view,
    looked_at,
    not_of_commit,
    nothing,
    plain,
    pods_words,
    source_of,
    step_words,
    subject_of,
    summary,
)
from gitkruise.printable import many, shown

LIMIT: Final = 60_000  # characters; GitHub refuses more than 65,536
LEAST: Final = 4_000
_RUN: Final = re.compile("`+")
_ROWS, _LINES = 40, 60  # of one object, of one field
_STEPS, _ROLLOUTS = 12, 20
_FINDINGS: Final = 10
_CELL: Final = 300  # characters of foreign text in one place
_WORST, _SHORT = 4, 120  # of the blast radius where there is little room, and characters of each


def plan_markdown(report: PlanReport, *, limit: int = LIMIT) -> str:
    """The plan in at most `limit` characters, at least 4,000; ends with a line feed.

    The more there is, the less of it is shown, by level: 0, all of it; 1, no steps of rollouts; 2,
    details of as many objects as fit, worst first; 3, as much of the table as fits. What is left
    out is counted. Raises ValueError for a limit that is too low.
    """
    if limit < LEAST:
        raise ValueError(f"a plan needs {LEAST} characters")
    head = "".join(_head(report))
    table = [_table_line(entry) for entry in report.entries]
    details: list[str] = []
    for level in (0, 1):
        details = ["".join(_details(e, report, steps=not level)) for e in report.entries]
        text = _text(head, table, details, _foot(report, level))
        if len(text) <= limit:
            return text
    if len(head) > limit // 2:
        head = "".join(_short_head(report))
    return _cut(report, head, table, details, limit)


def _cut(
    report: PlanReport, head: str, table: Sequence[str], details: Sequence[str], limit: int
) -> str:
    """As much of the table as fits, then the details of as many of its objects as fit."""
    objects = [len(entry.keys) for entry in report.entries]
    most = _foot(report, 3, rows=sum(objects), details=sum(objects))
    room = limit - len(_text(head, [], [""], most)) - len(_TABLE)
    rows = _fitting(table, room)
    bodies = _fitting(details, room - sum(map(len, table))) if rows == len(table) else 0
    level = 2 if rows == len(table) else 3
    foot = _foot(report, level, rows=sum(objects[rows:]), details=sum(objects[bodies:]))
    return _text(head, table[:rows], details[:bodies], foot)


def _fitting(texts: Sequence[str], room: int) -> int:
    """Return the number of leading `texts` that fit into `room` characters."""
    return sum(1 for _ in takewhile(lambda used: used <= room, accumulate(map(len, texts))))


_TABLE: Final = "| | Object | Change | Pods | Afterwards |\n|---|---|---|---|---|\n"


def _text(head: str, table: Sequence[str], details: Sequence[str], foot: str) -> str:
    listed = f"{_TABLE}{''.join(table)}\n" if table else ""
    return f"{head}\n{listed}{''.join(details)}{foot}"


def _head(report: PlanReport) -> Iterator[str]:
    yield from _title(report)
    yield f"**Blast radius** {_blast(report, len(report.blast), _CELL)}\n\n"
    yield f"**In all** {_code(summary(report))}\n"
    if not report.entries:
        text = nothing(report)  # with the names of files, if any are outside
        yield f"\n{_code(text, len(text)) if report.outside else text}\n"
    lines = (f"{f.severity}[{f.code}]: {shown(f.message, _CELL)}" for f in report.findings)
    findings = [*dict.fromkeys(lines)]  # places, in which alike ones differ, are not shown
    if findings:
        more = len(findings) - _FINDINGS
        rest = [f"… and {more} more"] if more > 0 else []
        yield "\n" + fenced("text", [*findings[:_FINDINGS], *rest])


def _short_head(report: PlanReport) -> Iterator[str]:
    """The same where there is little room: at most 2,500 characters."""
    yield from _title(report)
    yield f"**Blast radius** {_blast(report, _WORST, _SHORT)}\n\n"
    yield f"**In all** {_code(summary(report))}\n"
    if report.findings:
        yield f"\n**{many(len(report.findings), 'finding')} left out**\n"


def _title(report: PlanReport) -> Iterator[str]:
    yield f"### gitkruise plan {_code(compared(report))}\n\n"
    subject = subject_of(report)
    prefix = f"Commit {_code(subject)} · " if subject else ""
    yield f"{prefix}{_code(looked_at(report), _SHORT)}\n\n"


def _blast(report: PlanReport, most: int, size: int) -> str:
    """The worst first; of more than `most` the rest is counted."""
    worst = [_strong(s.text, size, loud=s.tone is Tone.ALARM) for s in report.blast[:most]]
    more = len(report.blast) - most
    return " · ".join(worst) + (f" · and {more} more" if more > 0 else "")


def _strong(text: str, size: int, *, loud: bool) -> str:
    return f"**{_code(text, size)}**" if loud else _code(text, size)


def _table_line(entry: ReportEntry) -> str:
    pods = ", ".join(pods_words(entry.pods)) or "–"
    if entry.pods.recreated or entry.pods.rolled or entry.pods.gone or entry.pods.uncounted:
        pods = f"**{pods}**"
    name, words = _code(entry_name(entry)), f"{not_of_commit(entry)}{_code(change_words(entry))}"
    cells = (SIGNS[entry.kind].replace("-", "−"), name, words, pods, afterwards(entry) or "–")
    return f"| {' | '.join(map(_cell, cells))} |\n"


def _cell(text: str) -> str:
    r"""Return a cell that no `|` of it ends; `\|` would be a backslash, and then the end of it."""
    return text.replace("\\|", "\\\u200b|").replace("|", r"\|")


def _details(entry: ReportEntry, report: PlanReport, *, steps: bool) -> Iterator[str]:
    """One object that unfolds, or nothing where the table says all."""
    moves = list(_pod_lines(entry, steps=steps))
    if not entry.rows and not moves and not entry.folded:
        return
    size = f" — {many(len(entry.rows), 'field')}" if entry.rows else ""
    name, source = _html(entry_name(entry, most=1)), _html(source_of(entry, report))
    yield f"<details><summary>{SIGNS[entry.kind]} {name}{size} ({source})</summary>\n\n"
    if entry.folded:
        yield fenced("text", _listed(entry))
    if entry.rows:
        yield fenced("diff", _row_lines(entry))
    if moves:
        yield fenced("text", moves)
    yield "</details>\n\n"


def _listed(entry: ReportEntry) -> Iterator[str]:
    for key, where in islice(zip(entry.keys, entry.sources, strict=True), _ROWS):
        yield f"{key}  {where}"
    more = len(entry.keys) - _ROWS
    if more > 0:
        yield f"… and {many(more, 'more object')}"


def _row_lines(entry: ReportEntry) -> Iterator[str]:
    for row in entry.rows[:_ROWS]:
        at = f"  :{row.line}" if row.line and not entry.folded else ""
        yield f" {row.path}{at}{f'  {row.remark}' if row.remark else ''}"
        yield from diff_lines(row, _LINES)
    more = len(entry.rows) - _ROWS
    if more > 0:
        yield f" … and {many(more, 'more field')}"


def _pod_lines(entry: ReportEntry, *, steps: bool) -> Iterator[str]:
    if entry.effect:
        yield plain(entry.effect)
    for view in entry.rollouts[:_ROLLOUTS]:
        if entry.folded:
            yield plain(folded_view(view))
        else:
            yield from _rollout_lines(view, steps=steps)
    more = len(entry.rollouts) - _ROLLOUTS
    if more > 0:
        yield f"… and {many(more, 'more rollout')}"
    yield from (f"note: {note}" for note in entry.notes)


def _rollout_lines(view: RolloutView, *, steps: bool) -> Iterator[str]:
    yield from map(plain, view.effect)
    if view.budget:
        yield view.budget
    if steps:
        last = len(view.steps)
        for number, step in enumerate(view.steps, 1):
            if number <= _STEPS or number == last:
                yield step_words(number, step)
            elif number == _STEPS + 1:
                yield f"… {last - _STEPS - 1} steps like these …"
    if view.hold:
        yield plain(view.hold)
    yield from (f"note: {note}" for note in view.notes)


def _foot(report: PlanReport, level: int, *, rows: int = 0, details: int = 0) -> str:
    left = [f"{report.totals.unchanged} unchanged"]
    if level == 1:
        left.append("steps of rollouts are left out")
    if rows:
        left.append(f"**{many(rows, 'object')} left out of the table**")
    if details:
        left.append(f"**details of {many(details, 'object')} left out**")
    base = f"{report.base.short}.." if report.base else ""
    command = f"gitkruise plan {base}{report.target.short}"
    if not report.dirty:
        left.append(f"all of it: {_code(command)}")
    return f"<sub>{' · '.join(left)} · level {level}</sub>\n"


# Foreign text -----------------------------------------------------------------------------------


def _code(text: str, size: int = _CELL) -> str:
    """A code span that `text` cannot end; nothing in it is a mention or a link."""
    safe = shown(" ".join(text.split()), size) or " "
    ticks = "`" * (max(map(len, _RUN.findall(safe)), default=0) + 1)
    pad = " " if len(ticks) > 1 or safe != safe.strip() else ""
    return f"{ticks}{pad}{safe}{pad}{ticks}"


def _html(text: str) -> str:
    return f"<code>{escape(shown(text, _CELL))}</code>"


def fenced(language: str, lines: Iterable[str]) -> str:
    """A fence longer than every run of backticks in it."""
    body = [shown(line, _CELL) for line in lines]
    longest = max((len(run) for line in body for run in _RUN.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}{language}", *body, ticks]) + "\n\n"
