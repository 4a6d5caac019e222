"""Colours, glyphs, bars and widths for terminals; plain text everywhere else."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gitkruise.cli.console.environment import Environment
from gitkruise.model.gitops.unit_state import LOOKS, State
from gitkruise.printable import visible

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


# A mark of ours begins with Unicode noncharacters in an order drawn once per process. Text from
# outside cannot contain it, and so cannot colour or move anything.
_SEAL: Final = "\ufdd0" + "".join(chr(0xFDD1 + byte % 16) for byte in os.urandom(16))
_MARK: Final = re.compile(_SEAL + "([0-9;]*)m")
_WORD: Final = re.compile(r"( *)([^ ]+)")
_SHOWN: Final = re.compile(rf"(?:{_SEAL}|\x1b\[)[0-9;]*m")  # also of lines that are encoded


def encoded(text: str, show: Callable[[str], str] = visible) -> str:
    """Encode one line for a terminal: marks of ours become escape sequences, and all other text is
    escaped where it could move a cursor, end a line or turn it around."""
    parts = _MARK.split(text)
    return "".join(f"\x1b[{part}m" if at % 2 else show(part) for at, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class Style:
    """The colours, glyphs and width of a terminal."""

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
        return f"{_SEAL}{';'.join(_CODES[n] for n in names)}m{text}{_SEAL}0m"

    def glyph(self, state: State) -> str:
        look = LOOKS[state]
        return self.paint(look.glyph if self.unicode else look.ascii, look.colour)

    def state(self, state: State) -> str:
        """Return glyph and word; both are shown without colour, too."""
        look = LOOKS[state]
        return self.paint(f"{look.glyph if self.unicode else look.ascii} {state}", look.colour)

    def bar(self, done: int, total: int, *, cells: int = 10) -> str:
        """Fill `done` of `total` cells; a first pod and a missing last pod are always visible."""
        full = 0 if total <= 0 else min(done, total) * cells // total
        if done and not full:
            full = 1
        filled, empty = ("█", "░") if self.unicode else ("#", ".")
        return filled * full + empty * (cells - full)

    def line(self, text: str) -> str:
        """Encode one line for this terminal; no other text contains escape sequences."""
        return encoded(text, self.plain)

    def plain(self, text: str) -> str:
        """Return `text` in characters that the locale can show, without control characters."""
        safe = visible(text)
        if self.unicode or safe.isascii():
            return safe
        return safe.translate(_ASCII).encode("ascii", "replace").decode()


def cell_width(text: str) -> int:
    """Return the terminal cells of `text` once it is encoded; our own colours take no cells."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(_char_width(char) for char in visible(_SHOWN.sub("", text)))


def _char_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"} or "\u1160" <= char <= "\u11ff":
        return 0  # drawn into the cell before; the range are vowels and finals of Hangul
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Cut `text` in the middle to `width` cells: the end of a name distinguishes it."""
    if cell_width(text) <= width:
        return text
    text = visible(_MARK.sub("", text))
    keep = width - 1
    head = keep // 2
    while cell_width(text[:head]) + cell_width(text[len(text) - (keep - head) :]) > keep:
        keep -= 1
        head = keep // 2
    return text[:head] + "…" + text[len(text) - (keep - head) :]


def wrapped(text: str, width: int, *, indent: int) -> list[str]:
    """Break `text` at blanks into lines of `width` cells; the marks and long words stay whole.

    Lines after the first begin with `indent` blanks more than the first.
    """
    lead = " " * (len(text) - len(text.lstrip(" ")))
    lines = [lead]
    for blanks, word in _WORD.findall(text.removeprefix(lead)):
        if cell_width(lines[-1] + blanks + word) > width and lines[-1].strip(" "):
            lines.append(lead + " " * indent + word)
        else:
            lines[-1] += blanks + word
    return lines


def clip(text: str, width: int) -> str:
    """Cut `text` at the right to `width` cells; its marks stay."""
    if cell_width(text) <= width:
        return text
    used, out, coloured = 0, [], False
    for at, part in enumerate(_MARK.split(text)):
        if at % 2:
            out.append(f"{_SEAL}{part}m")
            coloured = part != "0"
            continue
        for char in visible(part):
            used += _char_width(char)
            if used >= width:
                return "".join(out) + "…" + (f"{_SEAL}0m" if coloured else "")
            out.append(char)
    return "".join(out)
