"""Lines that are redrawn below finished output, on a model of a terminal."""

from __future__ import annotations

import re

import pytest

from gitkruise.cli.console.style import Style
from gitkruise.cli.console.viewport import RedrawnLines

STYLE = Style(colour=False, unicode=True, width=20)


def screen(written: str) -> list[str]:
    """What a terminal shows of `written`."""
    rows, row = [""], 0
    for up, below, end, text in re.findall(
        r"\x1b\[\?25[hl]|\x1b\[(\d+)A|(\x1b\[J)|(\n)|((?:(?!\x1b|\n|\r).)+)", written
    ):
        if up:
            row -= int(up)
        elif below:
            rows[row:] = [""]
        elif end:
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif text:
            rows[row] = text
    return rows


def test_finished_lines_stay_above_what_is_redrawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "4")
    with RedrawnLines(STYLE) as lines:
        lines.print("first")
        lines.draw(["a 1", "b 1"])
        lines.draw(["a 2", "b 2"])
        lines.print("second")
        shown = capsys.readouterr().out
        assert screen(shown) == ["first", "second", "a 2", "b 2", ""]
        lines.draw(["one", "two", "three", "a line that is wider than the window"])
        shown += capsys.readouterr().out
        assert screen(shown) == ["first", "second", "one", "two", "… 2 more lines", ""]
    shown += capsys.readouterr().out
    assert screen(shown) == ["first", "second", ""]
    assert shown.endswith("\x1b[?25h"), "the cursor is back"
