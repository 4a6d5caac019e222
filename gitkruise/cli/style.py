"""Colours, glyphs, bars and widths for terminals; plain text when the terminal is none."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from typing import Final

from gitkruise.cli.config import Environment
from gitkruise.model.states import LOOKS, State

_CODES: Final = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36",
}  # fmt: skip
_ASCII: Final = str.maketrans(
    {
        "…": "...", "→": "->", "·": "-", "≈": "~", "•": "*", "█": "#", "░": ".", "▒": "+",
        "⌈": "ceil(", "⌉": ")", "×": "x", "●": "*", "◍": "%", "○": "o", "⌫": "<", "◐": "~",
        "⏸": "=", "✓": "+", "✗": "x", "≠": "/", "▮": "#", "⚠": "!", "►": ">", "–": "-", "—": "-",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """How this terminal wants its text."""

    colour: bool
    unicode: bool
    width: int

    @classmethod
    def of(cls, environment: Environment) -> Style:
        return cls(environment.colour, environment.unicode, environment.width)

    @classmethod
    def of_errors(cls, environment: Environment) -> Style:
        """As `of`, with the colours standard error can take."""
        return replace(cls.of(environment), colour=environment.error_colour)

    def paint(self, text: str, *names: str) -> str:
        if not self.colour or not names or not text:
            return text
        return f"\x1b[{';'.join(_CODES[n] for n in names)}m{text}\x1b[0m"

    def glyph(self, state: State) -> str:
        look = LOOKS[state]
        return self.paint(look.glyph if self.unicode else look.ascii, look.colour)

    def state(self, state: State) -> str:
        """Glyph and word; neither ever vanishes with the colour."""
        look = LOOKS[state]
        return self.paint(f"{look.glyph if self.unicode else look.ascii} {state}", look.colour)

    def bar(self, done: int, total: int, *, cells: int = 10) -> str:
        """`done` of `total` as filled cells; a first pod and a missing last pod are visible."""
        full = 0 if total <= 0 else min(done, total) * cells // total
        if done and not full:
            full = 1
        filled, empty = ("█", "░") if self.unicode else ("#", ".")
        return filled * full + empty * (cells - full)

    def plain(self, text: str) -> str:
        """`text` in what the locale can show."""
        if self.unicode:
            return text
        return text.translate(_ASCII).encode("ascii", "replace").decode()


def cell_width(text: str) -> int:
    """Terminal cells `text` takes, escape sequences not counted."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
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
    if cell_width(text) <= width:
        return text
    keep = width - 1
    head = keep // 2
    while cell_width(text[:head]) + cell_width(text[len(text) - (keep - head) :]) > keep:
        keep -= 1
        head = keep // 2
    return text[:head] + "…" + text[len(text) - (keep - head) :]


def clip(text: str, width: int) -> str:
    """`text` with its escape sequences, cut at the right to `width` cells."""
    if cell_width(text) <= width:
        return text
    used, out, escape, coloured = 0, [], False, False
    for char in text:
        if char == "\x1b":
            escape = coloured = True
        elif escape:
            escape = not char.isalpha()
        else:
            used += cell_width(char)
            if used >= width:
                break
        out.append(char)
    return "".join(out) + "…" + ("\x1b[0m" if coloured else "")
