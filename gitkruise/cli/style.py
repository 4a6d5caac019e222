"""Colours, glyphs, bars and tables for terminals; plain text when the terminal is none."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.cli.config import Environment
from gitkruise.model.states import LOOKS, State

_CODES: Final = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """How this terminal wants its text."""

    colour: bool
    unicode: bool
    width: int

    @classmethod
    def of(cls, environment: Environment) -> Style:
        return cls(environment.colour, environment.unicode, environment.width)

    def paint(self, text: str, *names: str) -> str:
        if not self.colour or not names or not text:
            return text
        return f"\x1b[{';'.join(_CODES[n] for n in names)}m{text}\x1b[0m"

    def state(self, state: State) -> str:
        """Glyph and word; neither ever vanishes with the colour."""
        look = LOOKS[state]
        return self.paint(f"{look.glyph if self.unicode else look.ascii} {state}", look.colour)

    def bar(self, done: int, total: int, *, cells: int = 10) -> str:
        """`done` of `total` as filled cells; a first pod and a missing last pod are visible."""
        full = 0 if total <= 0 else done * cells // total
        if done and not full:
            full = 1
        filled, empty = ("█", "░") if self.unicode else ("#", "-")
        return filled * full + empty * (cells - full)


def cell_width(text: str) -> int:
    """Terminal cells `text` takes, escape sequences not counted."""
    width, escape = 0, False
    for char in text:
        if char == "\x1b":
            escape = True
        elif escape:
            escape = not char.isalpha()
        elif not unicodedata.combining(char):
            width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` cells, cut in the middle: the end of a name tells most."""
    if len(text) <= width:
        return text
    keep = max(1, width - 1)
    head = keep // 2
    return text[:head] + "…" + text[len(text) - (keep - head) :]


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, gap: int = 2) -> list[str]:
    """Left-aligned columns as wide as their widest cell; no trailing blanks."""
    widths = [
        max(cell_width(row[column]) for row in (headers, *rows)) for column in range(len(headers))
    ]
    return [
        (" " * gap)
        .join(text + " " * (widths[i] - cell_width(text)) for i, text in enumerate(row))
        .rstrip()
        for row in (headers, *rows)
    ]
