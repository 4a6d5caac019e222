"""Tables that fit the window: prose shrinks first, then names are cut, then columns go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.cli.console.environment import BOUNDLESS
from gitkruise.cli.console.style import cell_width, clip, shorten
from gitkruise.printable import visible

GAP: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, and how it may shrink.

    `least` > 0: cut in the middle, down to so many cells. `prose`: cut at its end, before all
    others. `drop` > 0: omitted in a narrow window, low numbers first.
    """

    name: str
    least: int = 0
    prose: bool = False
    drop: int = 0


def columns(*names: str) -> tuple[Column, ...]:
    """Return columns that are never cut nor dropped."""
    return tuple(Column(name=name) for name in names)


def fit_table(
    heads: Sequence[Column], rows: Sequence[Sequence[str]], width: int = BOUNDLESS
) -> list[str]:
    """Align columns left, in at most `width` cells if possible, without trailing blanks."""
    rows = [[visible(cell) for cell in cells] for cells in rows]
    kept = list(range(len(heads)))
    natural = [max(cell_width(r[i]) for r in ([h.name for h in heads], *rows)) for i in kept]
    kept = [i for i in kept if natural[i]]
    sizes = _shrunk(heads, natural, kept, width)
    for index in sorted((i for i in kept if heads[i].drop), key=lambda i: heads[i].drop):
        if _total(sizes, kept) <= width:
            break
        kept.remove(index)
        sizes = _shrunk(heads, natural, kept, width)
    return [
        _line([h.name for h in heads], heads, sizes, kept),
        *(_line(row, heads, sizes, kept) for row in rows),
    ]


def _shrunk(
    heads: Sequence[Column], natural: Sequence[int], kept: Sequence[int], width: int
) -> list[int]:
    """Return the widths after shrinking prose, then the widest columns that may be cut."""
    sizes = list(natural)
    for prose in (True, False):
        soft = [i for i in kept if heads[i].prose is prose and heads[i].least]
        while (over := _total(sizes, kept) - width) > 0:
            able = [i for i in soft if sizes[i] > _least(heads[i])]
            if not able:
                break
            widest = max(able, key=lambda i: sizes[i])
            others = [sizes[i] for i in able if i != widest]
            floor = max(_least(heads[widest]), max(others, default=0) - 1)
            sizes[widest] = max(floor, sizes[widest] - over)
    return sizes


def _least(head: Column) -> int:
    return max(head.least, len(head.name))


def _total(sizes: Sequence[int], kept: Sequence[int]) -> int:
    return sum(sizes[i] for i in kept) + GAP * (len(kept) - 1)


def _line(
    cells: Sequence[str], heads: Sequence[Column], sizes: Sequence[int], kept: Sequence[int]
) -> str:
    out = []
    for i in kept:
        text = cells[i]
        if cell_width(text) > sizes[i]:
            text = clip(text, sizes[i]) if heads[i].prose else shorten(text, sizes[i])
        out.append(text + " " * (sizes[i] - cell_width(text)))
    return (" " * GAP).join(out).rstrip()
