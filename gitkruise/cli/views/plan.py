"""A plan as text: irreversible effects first, then changed fields, moved pods and holds."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from gitkruise.cli.console.style import Style, cell_width, clip
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.report import Span, Tone
from gitkruise.planner.report.report_text import (
    SIGNS,
    about,
    compared,
    entry_name,
    folded_view,
    looked_at,
    nothing,
    plain,
    source_of,
    subject_of,
    summary,
)
from gitkruise.printable import many

if TYPE_CHECKING:
    from gitkruise.model.gitops.report import (
        FieldRow,
        PlanReport,
        ReportEntry,
        RolloutView,
        Sentence,
    )

_COLOURS: Final = {
    ChangeKind.CREATE: "green",
    ChangeKind.CONFIGURE: "yellow",
    ChangeKind.PRUNE: "red",
}
_TONES: Final = {Tone.PLAIN: (), Tone.STRONG: ("bold",), Tone.ALARM: ("bold", "red")}
_STEPS_SHOWN: Final = 12
_FIELDS_SHOWN: Final = 20
_ROLLOUTS_SHOWN: Final = 12  # of a folded entry
_PAD: Final = " " * 11  # under the words after Effect, Waves and Note
_LEAST: Final = 30  # cells of text in a line, in windows narrower than that too
_FIELD_HEADS: Final = (
    Column(name="", least=16),
    Column(name="", least=16),
    Column(name=""),
    Column(name="", prose=True, least=10, drop=1),
)


def plan_lines(report: PlanReport, style: Style) -> Iterator[str]:
    """Yield the plan, object by object, then the totals; no line exceeds the window."""
    for line in _lines(report, style):
        yield clip(line, style.width)


def _lines(report: PlanReport, style: Style) -> Iterator[str]:
    yield from _title(report, style)
    yield from _blast(report.blast, style)
    yield ""
    for entry in report.entries:
        yield from _entry(entry, report, style)
        yield ""
    if not report.entries:
        yield from textwrap.wrap(nothing(report), max(style.width, _LEAST), break_long_words=False)
        yield ""
    yield f"Summary  {summary(report)}"


def _title(report: PlanReport, style: Style) -> Iterator[str]:
    subject = subject_of(report)
    named = f'  "{subject}"' if subject else ""
    yield f"{style.paint('Plan', 'bold')}     {compared(report)}{named}"
    yield f"{_PAD[:-2]}{looked_at(report)}"


def _blast(spans: Sequence[Span], style: Style) -> Iterator[str]:
    """Yield the irreversible effects, over as many lines as they need."""
    line, used = "Blast    ", len("Blast    ")
    for index, span in enumerate(spans):
        lead = " · " if index and used > len(_PAD[:-2]) else ""
        if index and used + len(lead) + cell_width(span.text) > style.width:
            yield line
            line, used, lead = _PAD[:-2], len(_PAD[:-2]), ""
        line += lead + style.paint(span.text, *_TONES[span.tone])
        used += len(lead) + cell_width(span.text)
    yield line


def _entry(entry: ReportEntry, report: PlanReport, style: Style) -> Iterator[str]:
    head = style.paint(f"{SIGNS[entry.kind]} {entry_name(entry)}", _COLOURS[entry.kind], "bold")
    yield f"{head}    {style.paint(source_of(entry, report), 'dim')}"
    cells = [_cells(row, style, place=not entry.folded) for row in entry.rows[:_FIELDS_SHOWN]]
    if cells:
        width = max(style.width - 4, 36)
        yield from (f"    {line}" for line in fit_table(_FIELD_HEADS, cells, width)[1:])
    if len(entry.rows) > _FIELDS_SHOWN:
        yield f"    … and {len(entry.rows) - _FIELDS_SHOWN} more fields"
    if entry.effect:
        yield f"  Effect   {_painted(entry.effect, style)}"
    if entry.folded:
        yield from _rollouts(entry, style)
    else:
        for view in entry.rollouts:
            yield from _rollout(view, style)
    yield from _notes(entry.notes, style)


def _cells(row: FieldRow, style: Style, *, place: bool) -> tuple[str, ...]:
    where = f":{row.line}" if row.line and place else ""
    return row.path, row.words, where, style.paint(row.remark, "red" if row.loud else "dim")


def _painted(sentence: Sentence, style: Style) -> str:
    return "".join(style.paint(span.text, *_TONES[span.tone]) for span in sentence)


def _rollouts(entry: ReportEntry, style: Style) -> Iterator[str]:
    """Yield a line for each rollout of a folded entry."""
    label = "  Effect   "
    for view in entry.rollouts[:_ROLLOUTS_SHOWN]:
        yield label + _painted(folded_view(view), style)
        label = _PAD
    more = len(entry.rollouts) - _ROLLOUTS_SHOWN
    if more > 0:
        yield f"{_PAD}… and {many(more, 'more rollout')}"


def _rollout(view: RolloutView, style: Style) -> Iterator[str]:
    label = "  Effect   "
    for sentence in view.effect:
        yield label + _painted(sentence, style)
        label = _PAD
    yield from _waves(view, style)
    yield from _notes(view.notes, style)


def _notes(notes: Sequence[str], style: Style) -> Iterator[str]:
    label = "  Note     "
    for note in notes:
        for line in textwrap.wrap(note, max(style.width - len(_PAD), _LEAST)):
            yield label + line
            label = _PAD


def _waves(view: RolloutView, style: Style) -> Iterator[str]:
    """Yield the budget, a line for each step, and the hold."""
    if view.budget:
        yield f"  Waves    {view.budget}"
    for number, step in enumerate(view.steps, 1):
        if number <= _STEPS_SHOWN or number == len(view.steps):
            bar = style.bar(step.done, step.total)
            yield f"{_PAD}step {number:<2} {bar}  {step.moves}  {about(step.lasts)}".rstrip()
        elif number == _STEPS_SHOWN + 1:
            yield f"{_PAD}… {len(view.steps) - _STEPS_SHOWN - 1} steps like these …"
    if view.hold:
        yield from _wrapped(view.hold, style)


def _wrapped(sentence: Sentence, style: Style) -> Iterator[str]:
    """Yield a sentence that may have a reason at its end: no window cuts that off."""
    room = max(style.width - len(_PAD), _LEAST)
    if cell_width(plain(sentence)) <= room:
        yield _PAD + _painted(sentence, style)
        return
    line: list[Span] = []
    for span in sentence:
        for word in re.findall(r"\s*\S+", span.text):
            if line and cell_width(plain((*line, Span(word)))) > room:
                yield _PAD + _painted(tuple(line), style)
                line = []
            line.append(Span(word if line else word.lstrip(), span.tone))
    yield _PAD + _painted(tuple(line), style)
