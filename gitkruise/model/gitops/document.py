"""Objects in git, with the file, line and column of every field, and what they desire."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from gitkruise.errors import SourcePlace
from gitkruise.printable import UNPRINTABLE
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.secret_names import (
    HIDDEN,
    keeps_secret,
    path_names_secret,
    shows_secret,
)

FieldPath: TypeAlias = tuple[str | int, ...]  # keys and indexes of a field


_KEY: Final = re.compile(r"""\s*(?:-\s+)*(["']?[\w./-]+["']?):\s+""")
_SNIPPET_LINE_MAX: Final = 200  # characters of a line shown to a person


class Position(NamedTuple):
    """Position of a text; line and column count from 1, length in characters."""

    line: int
    column: int
    length: int


class FieldMark(NamedTuple):
    """Positions of a field's key and of its value; an item of a list has no key."""

    value: Position
    key: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommit:
    """One git commit, its texts cut and escaped for showing. `time` is never used for order.

    `artifact` names the artifact of a registry that it was imported from, as
    `oci://HOST/NAME@sha256:…`; "" for a commit of a git repository.
    """

    id: str
    parents: tuple[str, ...] = ()
    author: str = ""
    time: datetime | None = None  # committer's, UTC; None when git could not say
    subject: str = ""
    artifact: str = ""

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
    marks: Mapping[FieldPath, FieldMark] = field(default_factory=dict, repr=False, compare=False)
    lines: Sequence[str] = field(default=(), repr=False, compare=False)
    base: FieldPath = ()
    private: bool = False  # holds or lists a Secret: no value of it is shown
    # Values that are in a cluster and were not read here: their text is `${NAME}`, as written.
    unread: frozenset[FieldPath] = field(default=frozenset(), repr=False, compare=False)
    _keeps: bool | None = field(default=None, init=False, repr=False, compare=False)

    def may_be_secret(self, path: FieldPath) -> bool:
        """Return whether the value at `path` may be a secret, so that no message may quote it.

        A document that keeps a secret in plain text may have it in another field by mistake.
        """
        if self._keeps is None:
            object.__setattr__(self, "_keeps", self.private or keeps_secret(self.obj))
        return bool(self._keeps) or path_names_secret(self.obj, path)

    def place(self, path: FieldPath = (), *, key: bool = False, label: str = "") -> SourcePlace:
        """The spot of `path`'s value (or key), or of its nearest written ancestor."""
        position = self._position((*self.base, *path), key=key)
        if position is None:
            return place_at(self.file, self.lines, Position(self.line, 0, 1), label=label)
        hidden = self.may_be_secret(path)
        return place_at(self.file, self.lines, position, label=label, hidden=hidden)

    def written(self, path: FieldPath) -> str:
        """The value as written in the file (its first line), or "" at an unknown position."""
        mark = self.marks.get((*self.base, *path))
        if mark is None or not 0 < mark.value.line <= len(self.lines):
            return ""
        start = mark.value.column - 1
        return self.lines[mark.value.line - 1][start : start + mark.value.length]

    def _position(self, path: FieldPath, *, key: bool) -> Position | None:
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


def place_at(
    file: str, lines: Sequence[str], position: Position, *, label: str = "", hidden: bool = False
) -> SourcePlace:
    """A Place at `position` with the line itself and the one above it as snippet.

    Of a `hidden` value the marked line shows its key alone. Lines about a secret show
    their keys alone, wherever they are.
    """
    found = _snippet(lines, position) if position.column else ()
    if hidden:
        found = tuple((n, _key_of(text, position)) for n, text in found if n == position.line)
    elif reveals(lines, position):
        found = tuple((number, _without_value(text)) for number, text in found)
    return SourcePlace(
        file=file,
        line=position.line,
        column=position.column,
        snippet=tuple((number, UNPRINTABLE.sub(" ", text)) for number, text in found),
        length=max(1, min(position.length, _SNIPPET_LINE_MAX)),
        label=label,
    )


def reveals(lines: Sequence[str], position: Position) -> bool:
    """Return whether the line at `position`, or one next to it, suggests a secret."""
    around = range(max(1, position.line - 1), min(len(lines), position.line + 1) + 1)
    return any(shows_secret(lines[number - 1]) for number in around)


def _snippet(lines: Sequence[str], position: Position) -> tuple[tuple[int, str], ...]:
    if not 0 < position.line <= len(lines):
        return ()
    marked = (position.line, lines[position.line - 1][:_SNIPPET_LINE_MAX])
    above = (
        lines[position.line - 2] if position.line > 1 and not marked[1].startswith("---") else ""
    )
    return ((position.line - 1, above[:_SNIPPET_LINE_MAX]), marked) if above.strip() else (marked,)


def _key_of(text: str, position: Position) -> str:
    """The marked line up to its value, where it begins with the marked key or its value."""
    if not text.strip():
        return text  # behind the end of a file
    key = _KEY.match(text)
    if key is None or position.column - 1 not in {key.start(1), key.end()}:
        return HIDDEN
    return HIDDEN if any(map(str.isdigit, key[1])) else f"{key[0]}{HIDDEN}"


def _without_value(text: str) -> str:
    key = _KEY.match(text)
    return f"{key[0]}{HIDDEN}" if key else HIDDEN if text.strip() else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """One desired object: `obj` has its namespace and has no labels of gitkruise."""

    key: ObjectKey
    version: str
    obj: Obj
    digest: str  # sha256:… of `obj`
    document: Document  # where it is written
    namespaced: bool = True
    wave: int = 0
    stage: int = 3
    secret: bool = False
    hook: str = ""  # when it runs, if it is a Job around the change and no part of it
    plan: str = ""  # for what a hook is sent
    depends_on: tuple[ObjectKey, ...] = ()  # applied and ready before this one is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSet:
    """All objects of one unit at one commit, each key once."""

    commit: GitCommit
    objects: tuple[Desired, ...]
    tree: str = ""  # id of the unit's tree: equal trees are equal sets

    def by_key(self) -> Mapping[ObjectKey, Desired]:
        return {d.key: d for d in self.objects}
