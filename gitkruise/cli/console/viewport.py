"""Text that is redrawn in place: a whole window, or the last lines of the output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Self

from gitkruise.cli.console.style import Style, clip

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor
_ENTER, _LEAVE = f"\x1b[?1049h{_HIDE}", f"{_SHOW}\x1b[?1049l"
_HOME, _REST_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Viewport:
    """The whole window while it is open; its last content stays on the terminal."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._last: Sequence[str] = ()
        self._drawn: tuple[Sequence[str], str] = ((), "")

    def __enter__(self) -> Self:
        sys.stdout.write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.write(_LEAVE + "".join(f"{line}\n" for line in self._last))
        sys.stdout.flush()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Give the window back while the block runs."""
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        yield
        sys.stdout.write(_ENTER)
        self.draw(*self._drawn)

    @property
    def columns(self) -> int:
        """Current width of the window."""
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80

    def draw(self, lines: Sequence[str], footer: str = "") -> None:
        """Show the first `lines`; those that do not fit are counted.

        A `footer` takes the last line of the window and does not stay on the terminal.
        """
        self._drawn = lines, footer
        size = os.get_terminal_size(sys.stdout.fileno())
        columns, rows = size.columns or 80, size.lines or 24
        self._last = fit_window(lines, columns, rows - bool(footer), self._style)
        shown = [*self._last]
        if footer:
            shown += [""] * (rows - 1 - len(shown))
            shown = [*shown[: rows - 1], self._style.line(clip(footer, columns))]
        body = f"{_REST_OF_LINE}\n".join(shown)
        sys.stdout.write(f"{_HOME}{body}{_REST_OF_LINE}{_BELOW}")
        sys.stdout.flush()


class RedrawnLines:
    """The last lines of the output while they are open; finished lines are printed above them."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._shown: Sequence[str] = ()

    def __enter__(self) -> Self:
        sys.stdout.write(_HIDE)
        return self

    def __exit__(self, *_: object) -> None:
        self._write("", ())
        sys.stdout.write(_SHOW)
        sys.stdout.flush()

    def print(self, text: str) -> None:
        """Print finished lines above the redrawn ones."""
        self._write(f"{text}\n", self._shown)

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the redrawn lines; those that do not fit are counted."""
        # A line that wraps, or leaves the window at its top, cannot be found again by counting.
        size = get_terminal_size()
        self._write("", fit_window(lines, size.columns, size.lines - 1, self._style))

    def _write(self, finished: str, lines: Sequence[str]) -> None:
        back = f"\x1b[{len(self._shown)}A\r{_BELOW}" if self._shown else ""
        body = "".join(f"{line}\n" for line in lines)
        sys.stdout.write(f"{back}{finished}{body}")
        sys.stdout.flush()
        self._shown = lines


def fit_window(lines: Sequence[str], columns: int, rows: int, style: Style) -> list[str]:
    """Return the lines that fit a window, cut to its width, and the count of the others."""
    shown = [style.line(clip(line, columns)) for line in lines]
    if len(shown) <= rows:
        return shown
    kept = shown[: max(1, rows - 1)]
    return [*kept, style.line(clip(f"… {len(shown) - len(kept)} more lines", columns))]
