"""A window that is redrawn in place, without flicker and never with more than fits."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from gitkruise.cli.console.style import Style, clip

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Viewport:
    """The whole window while it is open; its last content stays on the terminal."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._last: Sequence[str] = ()

    def __enter__(self) -> Self:
        sys.stdout.write(_ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout.write(_LEAVE + "".join(f"{line}\n" for line in self._last))
        sys.stdout.flush()

    @property
    def columns(self) -> int:
        """Current width of the window."""
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80

    def draw(self, lines: Sequence[str], footer: str = "") -> None:
        """Show the first `lines`; those that do not fit are counted.

        A `footer` takes the last line of the window and does not stay on the terminal.
        """
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


def fit_window(lines: Sequence[str], columns: int, rows: int, style: Style) -> list[str]:
    """Return the lines that fit a window, cut to its width, and the count of the others."""
    shown = [style.line(clip(line, columns)) for line in lines]
    if len(shown) <= rows:
        return shown
    kept = shown[: max(1, rows - 1)]
    return [*kept, style.line(clip(f"… {len(shown) - len(kept)} more lines", columns))]
