"""YAML and JSON files as raw objects with positions, within limits, by kubectl's rules."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, overload

import yaml
from yaml._yaml import CParser  # the C event stream alone; nothing of PyYAML builds objects here

from gitkruise.errors import Finding, Place
from gitkruise.git import json_text
from gitkruise.git.compose import Composer, Limits, Stop
from gitkruise.git.syntax import explain
from gitkruise.model.document import Document, FieldPath, Mark, Spot

__all__ = ["LIMITS", "Limits", "Parsed", "parse_file"]

LIMITS: Final = Limits()
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_WIDE: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_LFS: Final = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says and what is wrong with it; documents are meant to be used only if `ok`."""

    documents: tuple[Document, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


def parse_file(data: bytes, file: str, limits: Limits = LIMITS) -> Parsed:
    """All documents of a YAML or JSON file; problems are findings, never exceptions.

    Null documents are left out. Positions are computed when a document is first asked for them.
    """
    text, problem = _decode(data, file, limits)
    if problem is not None:
        return Parsed((), (problem,))
    whole = _Text(lambda: text, file, limits)
    composer = _compose(whole)
    return Parsed(_documents(composer.roots, whole, file), tuple(composer.findings))


class Stored(Protocol):
    """What is known of a document that was parsed before."""

    @property
    def obj(self) -> Any: ...
    @property
    def index(self) -> int: ...
    @property
    def line(self) -> int: ...


def restored(entries: Sequence[Stored], file: str, read: Callable[[], bytes]) -> Parsed:
    """The documents of a file that was parsed, without a finding, before.

    `read` gives its bytes; it is called only for positions.
    """
    whole = _Text(lambda: _decode(read(), file, LIMITS)[0], file, LIMITS)
    return Parsed(_documents(entries, whole, file))


def _documents(roots: Sequence[Stored], whole: _Text, file: str) -> tuple[Document, ...]:
    return tuple(
        Document(
            obj=root.obj, file=file, index=root.index, line=root.line,
            marks=_Marks(whole, root.index), lines=_Lines(whole),
        )
        for root in roots
    )  # fmt: skip


def _decode(data: bytes, file: str, limits: Limits) -> tuple[str, Finding | None]:
    if len(data) > limits.file_bytes:
        return "", too_large(file, len(data), limits)
    if data.startswith(_LFS):
        message = "a Git LFS pointer instead of the manifest; LFS is not supported, commit the text"
        return "", _finding("GK3013", message, file, 1)
    for mark, name in _WIDE:
        if data.startswith(mark):
            return "", _finding("GK1001", f"the file is {name}; save it as UTF-8", file, 0)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(_LINE_END.findall(data[: error.start].decode("latin-1"))) + 1
        what = f"byte 0x{data[error.start]:02X} at offset {error.start}"
        message = f"the file is not UTF-8: {what} ({error.reason}); save it as UTF-8"
        return "", _finding("GK1001", message, file, line)
    bad = _CONTROL.search(text)
    if bad:
        head = _LINE_END.split(text[: bad.start()])
        message = f"a control character (U+{ord(bad[0]):04X}) in the file"
        return "", _finding("GK1002", message, file, len(head), len(head[-1]) + 1)
    return text, None


def too_large(file: str, size: int, limits: Limits = LIMITS) -> Finding:
    """The finding for a file of `size` bytes; known before it is read."""
    message = f"{file} is beyond a limit: file > {limits.file_bytes:,} bytes ({size:,})"
    return _finding("GK9005", message, file, 0)


def _finding(code: str, message: str, file: str, line: int, column: int = 0) -> Finding:
    return Finding(code=code, message=message, places=(Place(file=file, line=line, column=column),))


def _compose(whole: _Text, marks_of: int | None = None) -> Composer:
    text = whole.read()
    composer = Composer(whole.file, _Lines(whole), whole.limits, marks_of=marks_of)
    try:
        if json_text.looks_like_json(text, whole.file):
            composer.feed(json_text.events(text))
        else:
            composer.feed(iter(CParser(text).get_event, None))
    except Stop:
        pass  # the last finding says why
    except json_text.BadJson as error:
        mark = json_text.Lines(text).mark(error.start)
        spot = Spot(mark.line + 1, mark.column + 1, error.length)
        _report(composer, error.code, str(error), spot, "")
    except yaml.MarkedYAMLError as error:
        trouble = explain(error, whole.lines())
        _report(composer, trouble.code, trouble.message, trouble.spot, trouble.label)
    return composer


def _report(composer: Composer, code: str, message: str, spot: Spot, label: str) -> None:
    with contextlib.suppress(Stop):  # it may be the last one allowed; it is kept all the same
        composer.report(code, message, spot, label=label)


class _Text:
    """One file's text, and what is computed from it when a message needs it."""

    def __init__(self, read: Callable[[], str], file: str, limits: Limits) -> None:
        self.read, self.file, self.limits = read, file, limits
        self._lines: list[str] | None = None
        self._marks: dict[int, Mapping[FieldPath, Mark]] = {}

    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = _LINE_END.split(self.read())
        return self._lines

    def marks(self, index: int) -> Mapping[FieldPath, Mark]:
        if index not in self._marks:
            composer = _compose(self, marks_of=index)
            found = (root.marks for root in composer.roots if root.index == index)
            self._marks = {index: next(found, {})}  # one document at a time is asked for
        return self._marks[index]


class _Marks(Mapping[FieldPath, Mark]):
    __slots__ = ("_index", "_text")

    def __init__(self, text: _Text, index: int) -> None:
        self._text, self._index = text, index

    def __getitem__(self, path: FieldPath) -> Mark:
        return self._text.marks(self._index)[path]

    def __iter__(self) -> Iterator[FieldPath]:
        return iter(self._text.marks(self._index))

    def __len__(self) -> int:
        return len(self._text.marks(self._index))


class _Lines(Sequence[str]):
    __slots__ = ("_text",)

    def __init__(self, text: _Text) -> None:
        self._text = text

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._text.lines()[index]

    def __len__(self) -> int:
        return len(self._text.lines())
