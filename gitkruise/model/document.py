"""What git says: objects with the file, line and column every part of them came from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from gitkruise.errors import Place
from gitkruise.wire.names import Obj

FieldPath: TypeAlias = tuple[str | int, ...]

_SECRET: Final = re.compile(r"""["']?kind["']?\s*:\s*["']?Secret(?:List)?\b""")
_KEY: Final = re.compile(r"""\s*(?:-\s+)*["']?[\w./-]+["']?:\s+""")
_SNIPPET_LINE_MAX: Final = 200  # characters of a line shown to a person


class Spot(NamedTuple):
    """Where something is written; line and column count from 1, length in characters."""

    line: int
    column: int
    length: int


class Mark(NamedTuple):
    """Where a field's key and its value are written; an item of a list has no key."""

    value: Spot
    key: Spot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One git commit, its texts cut and escaped for showing. `time` is never used for order."""

    id: str
    parents: tuple[str, ...] = ()
    author: str = ""
    time: datetime | None = None  # committer's, UTC; None when git could not say
    subject: str = ""

    @property
    def short(self) -> str:
        return self.id[:7]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object of a file at a commit. `base` leads from the document's root to `obj`.

    `marks` and `lines` may be computed when first read: they cost time and are for messages.
    A rendered object carries the marks of the source it most likely came from.
    """

    obj: Obj
    file: str
    index: int = 0  # which document of the file, from 0
    line: int = 0  # where the object starts, from 1
    marks: Mapping[FieldPath, Mark] = field(default_factory=dict, repr=False, compare=False)
    lines: Sequence[str] = field(default=(), repr=False, compare=False)
    base: FieldPath = ()

    def place(self, path: FieldPath = (), *, key: bool = False, label: str = "") -> Place:
        """The spot of `path`'s value (or key), or of its nearest written ancestor."""
        spot = self._spot((*self.base, *path), key=key)
        if spot is None:
            return place_at(self.file, self.lines, Spot(self.line, 0, 1), label=label)
        return place_at(self.file, self.lines, spot, label=label)

    def written(self, path: FieldPath) -> str:
        """The value's text as it stands in the file (its first line), or "" where it is unknown."""
        mark = self.marks.get((*self.base, *path))
        if mark is None or not 0 < mark.value.line <= len(self.lines):
            return ""
        start = mark.value.column - 1
        return self.lines[mark.value.line - 1][start : start + mark.value.length]

    def _spot(self, path: FieldPath, *, key: bool) -> Spot | None:
        found = self.marks.get(path)
        if found is not None:
            return found.key if key and found.key else found.value
        for end in range(len(path) - 1, -1, -1):
            found = self.marks.get(path[:end])
            if found is not None:
                return found.key or found.value
        return None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def place_at(file: str, lines: Sequence[str], spot: Spot, *, label: str = "") -> Place:
    """A Place at `spot` with the line itself and the one above it as snippet.

    Lines of a document that holds a Secret are shown without their values.
    """
    numbers = [
        number
        for number in (spot.line - 1, spot.line)
        if 0 < number <= len(lines) and (number == spot.line or lines[number - 1].strip())
    ]
    shown = tuple((number, lines[number - 1][:_SNIPPET_LINE_MAX]) for number in numbers)
    if shown and spot.column and _is_secret(lines, spot.line - 1):
        shown = tuple((number, _without_value(text)) for number, text in shown)
    return Place(
        file=file,
        line=spot.line,
        column=spot.column,
        snippet=shown if spot.column else (),
        length=max(1, min(spot.length, _SNIPPET_LINE_MAX)),
        label=label,
    )


def _is_secret(lines: Sequence[str], at: int) -> bool:
    """Whether the document around line `at` (from 0) says that it is, or lists, a Secret."""
    start = min(at, len(lines) - 1)
    end = start + 1
    while start > 0 and not lines[start].startswith("---"):
        start -= 1
    while end < len(lines) and not lines[end].startswith("---"):
        end += 1
    return any(_SECRET.search(lines[number]) for number in range(start, end))


def _without_value(text: str) -> str:
    key = _KEY.match(text)
    return f"{key[0]}***" if key else "***" if text.strip() else text
