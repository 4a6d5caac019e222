"""A plan as one HTML page: nothing is loaded, nothing runs, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.report import (
    FieldRow,
    PlanReport,
    ReportEntry,
    RolloutView,
    Sentence,
    Span,
    Tone,
)
from gitkruise.planner.report.diff_lines import diff_lines
from gitkruise.planner.report.report_text import (
    about,
    afterwards,
    change_words,
    compared,
    entry_name,
    folded_view,
    looked_at,
    not_of_commit,
    nothing,
    pods_words,
    source_of,
    subject_of,
    summary,
)
from gitkruise.printable import many, shown

_LINES: Final = 2_000  # of one field
_OPEN: Final = 20  # entries that are unfolded from the start
_TEXT: Final = 500  # characters of foreign text in one place
_WORDS: Final = {
    ChangeKind.CREATE: ("created", "+"),
    ChangeKind.CONFIGURE: ("changed", "~"),
    ChangeKind.PRUNE: ("deleted", "−"),
}
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b636c; --paper: #fff; --line: #d9dde2;
  --card: #f6f7f9; --red: #b3261e; --green: #1a6b34; --amber: #7a5200; --redbg: #fdecea;
  --greenbg: #e8f5ec; --bar: #2f6fdb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a2abb5; --paper: #15181c;
  --line: #343a42; --card: #1d2126; --red: #ff8a80; --green: #7fd694; --amber: #f0c060;
  --redbg: #3a1d1b; --greenbg: #16301f; --bar: #7aa7f7; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0 0 .2rem; }
p { margin: .2rem 0; }
code, pre, .mono { font-family: ui-monospace, Consolas, monospace; font-size: .92em; }
.soft { color: var(--soft); }
.blast { border: 1px solid var(--line); border-left: 4px solid var(--bar); background: var(--card);
  border-radius: 4px; padding: .6rem .9rem; margin: 1rem 0; }
.blast.alarm { border-left-color: var(--red); }
.blast ul { margin: .3rem 0 0; padding-left: 1.2rem; }
.alarm-text { color: var(--red); font-weight: 600; }
.strong-text { font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
th, td:nth-child(n + 4) { overflow-wrap: normal; white-space: nowrap; }
a { color: inherit; }
details { border: 1px solid var(--line); border-radius: 4px; margin: .6rem 0; }
summary { padding: .5rem .8rem; cursor: pointer; background: var(--card); }
summary:focus-visible { outline: 2px solid var(--bar); }
.body { padding: .4rem .8rem .8rem; }
.created { color: var(--green); } .deleted { color: var(--red); } .changed { color: var(--amber); }
pre { margin: .3rem 0; overflow-x: auto; border: 1px solid var(--line); border-radius: 4px; }
pre span { display: block; padding: 0 .6rem; white-space: pre; }
.minus { background: var(--redbg); color: var(--red); }
.plus { background: var(--greenbg); color: var(--green); }
.bar { display: inline-block; width: 8rem; height: .7rem; border: 1px solid var(--soft);
  border-radius: 3px; overflow: hidden; vertical-align: -1px; }
.bar i { display: block; height: 100%; background: var(--bar); }
"""


def plan_html(report: PlanReport) -> str:
    """The whole plan as a page that needs nothing but a browser."""
    return "\n".join([*_top(report), *_list(report), *_entries(report), "</body>", "</html>", ""])


def _top(report: PlanReport) -> Iterator[str]:
    title = f"gitkruise plan {compared(report)}"
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield "<!doctype html>"
    yield '<html lang="en">'
    yield f'<head><meta charset="utf-8"><title>{_text(title)}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<style>{_STYLE}</style></head>"
    yield f"<body><h1>gitkruise plan <code>{_text(compared(report))}</code></h1>"
    if subject := subject_of(report):
        yield f"<p>{_text(subject)}</p>"
    yield f'<p class="soft">{_text(looked_at(report))}</p>'
    alarm = " alarm" if any(span.tone is Tone.ALARM for span in report.blast) else ""
    yield f'<section class="blast{alarm}" aria-label="Blast radius"><strong>Blast radius</strong>'
    yield f"<ul>{''.join(f'<li>{_span(span)}</li>' for span in report.blast)}</ul></section>"
    yield f"<p><strong>In all</strong> {_text(summary(report))}</p>"
    for found in report.findings:
        text = f"{found.severity}[{found.code}]: {found.message}"
        yield f'<p class="{"alarm-text" if found.is_error else ""}">{_text(text)}</p>'


def _list(report: PlanReport) -> Iterator[str]:
    if not report.entries:
        yield f"<p>{_text(nothing(report))}</p>"
        return
    heads = ("", "Object", "Change", "Pods", "Afterwards")
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead><tbody>"
    for number, entry in enumerate(report.entries):
        word = _WORDS[entry.kind][0]
        cells = (
            f'<span class="{word}">{_WORDS[entry.kind][1]}</span>',
            _linked(number, entry),
            f"{not_of_commit(entry)}{_text(change_words(entry))}",
            _text(", ".join(pods_words(entry.pods)) or "–"),
            _text(afterwards(entry) or "–"),
        )
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div>"


def _linked(number: int, entry: ReportEntry) -> str:
    name = f"<code>{_text(entry_name(entry))}</code>"
    return f'<a href="#e{number}">{name}</a>' if _has_more(entry) else name


def _has_more(entry: ReportEntry) -> bool:
    """Return whether the entry has more to show than its row of the table."""
    return bool(entry.folded or entry.rows or entry.effect or entry.rollouts or entry.notes)


def _entries(report: PlanReport) -> Iterator[str]:
    for number, entry in enumerate(report.entries):
        if not _has_more(entry):
            continue
        word = _WORDS[entry.kind][0]
        unfolded = " open" if number < _OPEN else ""
        yield f'<details id="e{number}"{unfolded}><summary><span class="{word}">{word}</span> '
        yield f"<code>{_text(entry_name(entry))}</code> "
        yield f'<span class="soft">{_text(source_of(entry, report))}</span></summary>'
        yield f'<div class="body">{"".join(_body(entry))}</div></details>'


def _body(entry: ReportEntry) -> Iterator[str]:
    if entry.folded:
        pairs = zip(entry.keys, entry.sources, strict=True)
        rows = "".join(f"<li><code>{_text(str(k))}</code> {_text(s)}</li>" for k, s in pairs)
        yield f"<details><summary>{many(len(entry.keys), 'object')}</summary>"
        yield f'<div class="body"><ul>{rows}</ul></div></details>'
    yield from (_row(row, place=not entry.folded) for row in entry.rows)
    if entry.effect:
        yield f"<p>{_sentence(entry.effect)}</p>"
    for view in entry.rollouts:
        if entry.folded:
            yield f"<p>{_sentence(folded_view(view))}</p>"
        else:
            yield from _rollout(view)
    yield from (f'<p class="soft">{_text(note)}</p>' for note in entry.notes)


def _row(row: FieldRow, *, place: bool) -> str:
    at = f" :{row.line}" if row.line and place else ""
    remark = f' <span class="{"alarm-text" if row.loud else "soft"}">{_text(row.remark)}</span>'
    lines = "".join(_diff_line(line) for line in diff_lines(row, _LINES))
    return f"<p><code>{_text(row.path)}</code>{at}{remark}</p><pre>{lines}</pre>"


def _diff_line(line: str) -> str:
    kind = {"-": ' class="minus"', "+": ' class="plus"'}.get(line[:1], "")
    return f"<span{kind}>{_text(line)}</span>"


def _rollout(view: RolloutView) -> Iterator[str]:
    yield from (f"<p>{_sentence(sentence)}</p>" for sentence in view.effect)
    if view.budget:
        yield f'<p class="soft">{_text(view.budget)}</p>'
    if view.steps:
        yield '<div class="scroll"><table><tbody>'
        for number, step in enumerate(view.steps, 1):
            share = 100 * step.done // step.total
            bar = f'<span class="bar" aria-hidden="true"><i style="width:{share}%"></i></span>'
            cells = (f"step {number}", f"{bar} {step.done} of {step.total}", step.moves)
            yield f"<tr><td>{cells[0]}</td><td>{cells[1]}</td><td>{_text(cells[2])}</td>"
            yield f"<td>{_text(about(step.lasts))}</td></tr>"
        yield "</tbody></table></div>"
    if view.hold:
        yield f"<p>{_sentence(view.hold)}</p>"
    yield from (f'<p class="soft">{_text(note)}</p>' for note in view.notes)


def _sentence(sentence: Sentence) -> str:
    return "".join(map(_span, sentence))


def _span(span: Span) -> str:
    tones = {Tone.ALARM: "alarm-text", Tone.STRONG: "strong-text"}
    name = tones.get(span.tone)
    return f'<span class="{name}">{_text(span.text)}</span>' if name else _text(span.text)


def _text(text: str) -> str:
    return escape(shown(text, _TEXT))
