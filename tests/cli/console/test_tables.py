"""Tables and texts fit the window they are made for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.cli.console.findings import finding_text
from gitkruise.cli.console.style import Style, cell_width, clip, encoded, shorten
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.cli.console.viewport import fit_window
from gitkruise.errors import Finding, SourcePlace

PLAIN = Style(colour=False, unicode=True, width=80)
HEADS = (
    Column(name="NAMESPACE"),
    Column(name="OBJECT", least=12),
    Column(name="COMMIT", drop=2),
    Column(name="STATE"),
    Column(name="", least=10, prose=True, drop=1),
)
ROW = ("shop", "cloneset/" + "checkout-" * 4 + "end", "4f2c9e1", "✓ Done", "because " * 8)


def test_a_wide_window_cuts_nothing() -> None:
    assert fit_table(HEADS, [ROW], 300)[1].split("  ")[-1] == ROW[-1].rstrip()
    assert ROW[1] in fit_table(HEADS, [ROW], 300)[1]


STEPS = [
    (110, "explanation shrinks", ("4f2c9e1", ROW[1], "because", "…")),
    (70, "explanation goes", ("4f2c9e1", "✓ Done")),
    (36, "commit goes, the name is cut in the middle", ("✓ Done", "cloneset", "…", "end")),
]


@pytest.mark.parametrize(("width", "what", "kept"), STEPS, ids=[s[1] for s in STEPS])
def test_narrow_windows_drop_in_order(width: int, what: str, kept: tuple[str, ...]) -> None:
    head, line = fit_table(HEADS, [ROW], width)
    assert cell_width(line) <= width
    assert all(text in line for text in kept)
    assert ("COMMIT" in head) is ("4f2c9e1" in line)


def test_columns_nobody_fills_are_left_out() -> None:
    assert fit_table(HEADS, [("shop", "a", "", "✓ Done", "")])[0].split() == [
        "NAMESPACE", "OBJECT", "COMMIT", "STATE",
    ]  # fmt: skip


WIDTHS = {
    "ascii": ("cart", 4),
    "wide": ("日本", 4),
    "an accent": ("e\u0301", 1),
    "a vowel sign of Devanagari": ("\u0915\u0941", 1),
    "a presentation of a sign": ("\u2764\ufe0f", 1),
    "a sign around a digit": ("1\u20e3", 1),
    "a syllable of Hangul in parts": ("\u1112\u1161\u11ab", 2),
}


@pytest.mark.parametrize(("text", "width"), WIDTHS.values(), ids=WIDTHS)
def test_marks_take_no_cell_of_their_own(text: str, width: int) -> None:
    assert cell_width(text) == width


@given(st.text(max_size=60), st.integers(1, 40))
def test_shortened_text_fits_and_keeps_both_ends(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cell_width(short) <= max(width, 1) or cell_width(text) <= width
    if cell_width(text) <= width:
        assert short == text
    elif text.isascii() and text.isprintable() and width >= 5:
        assert short[0] == text[0]
        assert short[-1] == text[-1]


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["C"]), max_size=60),
       st.integers(1, 40))  # fmt: skip
def test_clipped_text_fits_and_closes_its_colour(text: str, width: int) -> None:
    painted = Style(colour=True, unicode=True, width=80).paint(text or "x", "red")
    assert cell_width(clip(painted, width)) <= width
    assert encoded(clip(painted, width)).endswith("\x1b[0m")


@given(st.lists(st.text(alphabet="ab ✓", max_size=200), max_size=60), st.integers(40, 120),
       st.integers(1, 50))  # fmt: skip
def test_a_picture_fits_the_window_and_starts_at_its_start(
    lines: list[str], columns: int, rows: int
) -> None:
    shown = fit_window(lines, columns, rows, PLAIN)
    assert len(shown) <= max(rows, 2)
    assert all(cell_width(line) <= columns for line in shown)
    if lines:
        assert shown[0] == clip(lines[0], columns)
    if len(lines) > rows > 1:
        assert shown[-1] == f"… {len(lines) - rows + 1} more lines"


def test_the_caret_stays_in_sight_of_a_long_line() -> None:
    text = "x" * 150 + ": wrong" + "y" * 40
    place = SourcePlace(
        file="a.yaml", line=3, column=153, length=5, snippet=((3, text),), label="here"
    )
    lines = finding_text(Finding(code="GK1", message="m", places=(place,)), PLAIN).splitlines()
    shown, caret = lines[3], lines[4]
    assert cell_width(shown) <= 80
    assert shown[caret.index("^") : caret.rindex("^") + 1] == "wrong"


def test_notes_wrap_under_themselves() -> None:
    finding = Finding(code="GK1", message="m " * 60, notes=(("why", "word " * 40),))
    lines = finding_text(finding, PLAIN).splitlines()
    assert all(cell_width(line) <= 80 for line in lines)
    assert lines[-1].startswith(" " * len("   = why: ") + "word")


def test_ascii_locales_get_ascii() -> None:
    style = Style(colour=False, unicode=False, width=80)
    assert style.plain("⏸ a → b … ⌈3⌉ 名") == "= a -> b ... ceil(3) ?"
    assert style.bar(3, 10) == "###......."
