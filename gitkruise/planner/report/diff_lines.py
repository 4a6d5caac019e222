"""Changed values as lines of a diff; texts of many lines are compared line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from gitkruise import printable
from gitkruise.model.gitops.change import MISSING
from gitkruise.model.gitops.report import FieldRow
from gitkruise.planner.report.summary import shown

_LINE_MAX: Final = 200  # characters of a line of a text
_TEXT_MAX: Final = 2_000  # lines; longer texts are not compared line by line
_AROUND: Final = 2  # unchanged lines shown around changed ones


def diff_lines(row: FieldRow, most: int) -> Iterator[str]:
    """One changed field in lines, each with `-`, `+` or a blank in front.

    Of more than `most` lines the rest is counted.
    """
    texts = _texts(row.before, row.after)
    lines = list(_unified(*texts)) if texts else list(_sides(row))
    yield from lines[:most]
    if len(lines) > most:
        yield f" … and {len(lines) - most} more lines"


def lines_changed(before: Any, after: Any) -> tuple[int, int] | None:
    """(lines taken out, lines put in) between two texts of many lines; None for other values."""
    texts = _texts(before, after)
    if texts is None:
        return None
    lines = list(_unified(*texts))
    return sum(line[0] == "-" for line in lines), sum(line[0] == "+" for line in lines)


def _sides(row: FieldRow) -> Iterator[str]:
    for sign, value in (("-", row.before), ("+", row.after)):
        if value is not MISSING:
            yield f"{sign}  {shown(value)}"


def _texts(before: Any, after: Any) -> tuple[list[str], list[str]] | None:
    """Both sides in lines, where both are texts and one has several."""
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    sides = before.splitlines(), after.splitlines()
    return sides if 1 < max(map(len, sides)) <= _TEXT_MAX else None


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    for line in islice(difflib.unified_diff(before, after, lineterm="", n=_AROUND), 2, None):
        text = printable.shown(line[1:].expandtabs(4), _LINE_MAX)
        yield " …" if line.startswith("@@") else f"{line[0]}  {text}"
