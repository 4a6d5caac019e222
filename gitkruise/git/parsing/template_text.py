"""The YAML around the actions of a Go template, for positions in the file as it is written.

A template is seldom YAML itself. With its actions blanked out most are, and every field that is
written in the file keeps its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_OPEN: Final = "{{"
_TEXT_MAX: Final = 1 << 20  # longer texts are left as they are
_COMMENT: Final = re.compile(r"-?\s*/\*")
_IN_ACTION: Final = re.compile(r'"(?:\\.|[^"\\\n])*+"|`[^`]*+`|\}\}')
_LINE_END: Final = re.compile(r"(\r\n|\r|\n)")
_FILLED: Final = re.compile(r"[^\r\n]")
_WORD: Final = "x"


def without_actions(text: str) -> str:
    """Return `text` with each `{{ … }}` as a word of the same length, or as blanks where a line
    has nothing else; lines and columns stay. A text without actions comes back itself."""
    if _OPEN not in text or len(text) > _TEXT_MAX:
        return text
    kept: list[str] = []
    words: list[str] = []  # the same text with blanks instead of actions
    end = 0
    for start, stop in _actions(text):
        for parts, filler in ((kept, _WORD), (words, " ")):
            parts.extend((text[end:start], _FILLED.sub(filler, text[start:stop])))
        end = stop
    if not kept:
        return text
    lines = _LINE_END.split("".join(kept) + text[end:])
    bare = _LINE_END.split("".join(words) + text[end:])
    return "".join(a if b.strip() else b for a, b in zip(lines, bare, strict=True))


def _actions(text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each action; the first one without an end ends the search."""
    start = text.find(_OPEN)
    while start >= 0:
        stop = _end(text, start + len(_OPEN))
        if stop < 0:
            return
        yield start, stop
        start = text.find(_OPEN, stop)


def _end(text: str, at: int) -> int:
    """Return the position after the action whose content starts at `at`; -1 without an end."""
    comment = _COMMENT.match(text, at)
    if comment is not None:
        at = text.find("*/", comment.end())
        if at < 0:
            return -1
    for token in _IN_ACTION.finditer(text, at):
        if token[0] == "}}":
            return token.end()
    return -1
