"""`get --watch` on a terminal: the picture drawn in place, and its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from gitkruise.cli.console.style import Style
from gitkruise.cli.console.viewport import Viewport

if TYPE_CHECKING:
    from gitkruise.cli.views.resources import Item
    from gitkruise.gitops.inspect.cluster_view import Managed

Render: TypeAlias = "Callable[[Sequence[Managed], Sequence[Item], Style, datetime], Sequence[str]]"
Table: TypeAlias = "Callable[[str, Sequence[Item], Style, datetime], Sequence[str]]"
Behind: TypeAlias = "Callable[[str, Sequence[Managed]], Sequence[Item]]"

PANELS: Final[Mapping[str, str]] = {"p": "pods", "e": "events", "r": "revisions"}
_ENTER, _ESCAPE, _BACKSPACE = "\r\n", "\x1b", "\x7f\x08"
_TERMINATED: Final = 143  # as a shell shows a program that SIGTERM ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Functions that draw the picture and the tables of its panels.

    `noun` is the type of the picture's own items. `behind` returns the items of a panel; None
    without panels. The first line of a `titled` picture is shown above a panel, too. `notes`
    returns lines about the picture as a whole, which are shown above everything.
    """

    noun: str
    render: Render
    table: Table
    behind: Behind | None = None
    titled: bool = False
    notes: Callable[[], Sequence[str]] = lambda: ()


class WatchScreen:
    """The window, its panel, and the filter of its rows.

    `ended` is the exit code once the user quits.
    """

    def __init__(
        self, viewport: Viewport, style: Style, drawing: Drawing, *, quit_code: int
    ) -> None:
        self.ended: int | None = None
        self.keys = False  # there is a keyboard, so that the footer lists keys
        self._viewport, self._style, self._drawing = viewport, style, drawing
        self._quit_code = quit_code
        self._panel, self._filter, self._typing = "", "", False
        self._last: tuple[Sequence[Managed], Sequence[Item], datetime] | None = None

    def show(self, found: Sequence[Managed], items: Sequence[Item], now: datetime) -> None:
        self._last = (found, items, now)
        self.draw()

    def draw(self) -> None:
        """Draw the newest items in the current window."""
        if self._last is None:
            return
        found, items, now = self._last
        style = replace(self._style, width=self._viewport.columns)
        lines = [*self._drawing.notes(), *self._lines(found, items, style, now)]
        self._viewport.draw(lines, self._footer(style))

    def _lines(
        self, found: Sequence[Managed], items: Sequence[Item], style: Style, now: datetime
    ) -> Sequence[str]:
        behind = self._drawing.behind
        if self._panel and behind is not None:
            rows = self._filtered(behind(self._panel, found))
            title = self._drawing.render(found, items, style, now)[:1]
            head = [*title, ""] if self._drawing.titled else []
            return [*head, *self._table(self._panel, rows, style, now)]
        if self._filter:
            return self._table(self._drawing.noun, self._filtered(items), style, now)
        return self._drawing.render(found, items, style, now)

    def _table(self, noun: str, rows: Sequence[Item], style: Style, now: datetime) -> Sequence[str]:
        if self._filter and not rows:
            return [f'no {noun} with "{self._filter}"']
        return self._drawing.table(noun, rows, style, now)

    def _filtered(self, items: Sequence[Item]) -> Sequence[Item]:
        wanted = self._filter.lower()
        return [i for i in items if any(wanted in str(value).lower() for value in i.values())]

    def _footer(self, style: Style) -> str:
        if not self.keys:
            return ""
        if self._typing:
            return f"filter: {self._filter}_"
        panels = PANELS if self._drawing.behind else {}
        words = [
            style.paint(f"[{key}] {name}", "bold") if name == self._panel else f"[{key}] {name}"
            for key, name in panels.items()
        ]
        narrowed = f"[/] filter: {self._filter}" if self._filter else "[/] filter"
        return "  ".join([*words, narrowed, "[q] quit"])

    def press(self, key: str) -> None:
        """Handle one key: p, e, r toggle a panel, / starts a filter, q quits."""
        if self._typing:
            self._type(key)
        elif key in {"q", ""}:
            self.ended = self._quit_code
        elif key in PANELS and self._drawing.behind:
            self._panel = "" if self._panel == PANELS[key] else PANELS[key]
        elif key == "/":
            self._typing, self._filter = True, ""
        elif key == _ESCAPE:
            self._panel, self._filter = "", ""
        else:
            return
        self.draw()

    def _type(self, key: str) -> None:
        if key == "":
            self.ended = self._quit_code
        elif key in _ENTER:
            self._typing = False
        elif key == _ESCAPE:
            self._typing, self._filter = False, ""
        elif key in _BACKSPACE:
            self._filter = self._filter[:-1]
        elif key.isprintable():
            self._filter += key

    def terminate(self) -> None:
        """End on SIGTERM or SIGHUP, so that the terminal is restored."""
        self.ended = _TERMINATED
