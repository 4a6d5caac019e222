"""YAML and JSON files as raw objects with positions, within limits, by kubectl's rules."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, overload

import yaml
from yaml._yaml import CParser  # the C event stream alone; nothing of PyYAML builds objects here

from gitkruise.errors import Finding, InvalidManifests, SourcePlace
from gitkruise.git.parsing import json_events
from gitkruise.git.parsing.syntax_errors import explain
from gitkruise.git.parsing.template_text import without_actions
from gitkruise.git.parsing.yaml_composer import Composer, Limits, Stop
from gitkruise.model.gitops.document import Document, FieldMark, FieldPath, Position
from gitkruise.printable import shown
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.secret_names import holds_secret

__all__ = ["LIMITS", "RENDERED", "Limits", "Parsed", "parse_file"]

LIMITS: Final = Limits()
# Of what a renderer writes: hundreds of files in one.
RENDERED: Final = Limits(
    file_bytes=64 << 20,
    document_chars=64 << 20,
    documents=20_000,
    nodes=5_000_000,
    items=1_000_000,
    map_keys=100_000,
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_WIDE: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_MARKS_KEPT: Final = 2  # documents whose positions are kept
METADATA: Final = "sops"  # the field in which sops says how it encrypted a file
_LFS: Final = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Parsed:
    """Documents of a file, and findings; the documents are usable only if `ok`."""

    documents: tuple[Document, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(finding.is_error for finding in self.findings)

    def checked(self) -> Parsed:
        """Return this if it is usable. Raises InvalidManifests with every error."""
        if not self.ok:
            raise InvalidManifests(*(f for f in self.findings if f.is_error))
        return self

    def one_object(self) -> Document | None:
        """Return the only document of a usable file, if it is an object.

        Raises InvalidManifests with every error.
        """
        documents = self.checked().documents
        return documents[0] if len(documents) == 1 and isinstance(documents[0].obj, dict) else None


def parse_file(data: bytes, file: str, limits: Limits = LIMITS) -> Parsed:
    """All documents of a YAML or JSON file; problems are findings, never exceptions.

    Null documents are left out. Positions are computed when a document is first asked for them.
    """
    text, problem = _decode(data, file, limits)
    if problem is not None:
        return Parsed((), (problem,))
    whole = _Text(lambda: text, file, limits)
    composer, findings = _compose(whole)
    return Parsed(_documents(composer.roots, whole, file), tuple(findings()))


class Stored(Protocol):
    """The kept result of a document that was parsed before."""

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
    return Parsed(_documents(entries, _unread(file, read), file))


class Elsewhere:
    """Documents of a file that another process parsed.

    `read` gives its bytes; it is called only for positions.
    """

    def __init__(self, file: str, read: Callable[[], bytes]) -> None:
        self._file, self._whole = file, _unread(file, read)

    def document(
        self, obj: Any, *, index: int, line: int, base: FieldPath, private: bool
    ) -> Document:
        """One document, as the other process knows it."""
        return Document(
            obj=obj, file=self._file, index=index, line=line, base=base, private=private,
            marks=_Marks(self._whole, index), lines=_Lines(self._whole),
        )  # fmt: skip


def _unread(file: str, read: Callable[[], bytes]) -> _Text:
    return _Text(lambda: _decode(read(), file, LIMITS)[0], file, LIMITS)


def _documents(roots: Sequence[Stored], whole: _Text, file: str) -> tuple[Document, ...]:
    private = {root.index for root in roots if holds_secret(root.obj)}
    if private and file.lower().endswith(".json"):  # documents may stand on one line
        private = {root.index for root in roots}
    return tuple(
        Document(
            obj=root.obj, file=file, index=root.index, line=root.line,
            marks=_Marks(whole, root.index), lines=_Lines(whole), private=root.index in private,
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
    message = f"{shown(file)} is beyond a limit: file > {limits.file_bytes:,} bytes ({size:,})"
    return _finding("GK9005", message, file, 0)


def _finding(code: str, message: str, file: str, line: int, column: int = 0) -> Finding:
    return Finding(
        code=code, message=message, places=(SourcePlace(file=file, line=line, column=column),)
    )


def _compose(whole: _Text) -> tuple[Composer, Callable[[], list[Finding]]]:
    """Return the composer after the last event, and the findings."""
    text = whole.read()
    composer = Composer(whole.file, _Lines(whole), whole.limits)
    is_json, complete = json_events.looks_like_json(text, whole.file), False
    try:
        if is_json:
            composer.feed(json_events.events(text))
        else:
            composer.feed(iter(CParser(text).get_event, None))
        complete = True
        whole.starts = composer.starts
    except Stop:
        pass  # the last finding says why
    except json_events.BadJson as error:
        mark = json_events.LinePositions(text).mark(error.start)
        position = Position(mark.line + 1, mark.column + 1, error.length)
        _report(composer, error.code, error.rule, position, quote=error.quote)
    except yaml.MarkedYAMLError as error:
        found = explain(error, whole.lines())
        _report(composer, found.code, found.message, found.position, label=found.label)
    return composer, functools.partial(composer.finish, text, whole=complete, apart=not is_json)


def _report(
    composer: Composer,
    code: str,
    message: str,
    position: Position,
    *,
    label: str = "",
    quote: str = "",
) -> None:
    with contextlib.suppress(Stop):  # it may be the last one allowed; it is kept all the same
        composer.report(code, message, position, label=label, quote=quote)


class _Text:
    """One file's text, and what is computed from it when a message needs it."""

    def __init__(self, read: Callable[[], str], file: str, limits: Limits) -> None:
        self._read, self.file, self.limits = read, file, limits
        self._whole: str | None = None
        self._lines: list[str] | None = None
        self._json: bool | None = None
        self.starts: list[tuple[int, int, int]] | None = None  # offset, line and column
        self._marks: dict[int, Mapping[FieldPath, FieldMark]] = {}

    def read(self) -> str:
        if self._whole is None:
            self._whole = self._read()
        return self._whole

    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = _LINE_END.split(self.read())
        return self._lines

    def marks(self, index: int) -> Mapping[FieldPath, FieldMark]:
        """The positions of one document, from its own part of the text alone.

        Those of the last few documents are kept: findings ask for one after the other.
        """
        if index not in self._marks:
            while len(self._marks) >= _MARKS_KEPT:
                del self._marks[next(iter(self._marks))]
            self._marks[index] = self._marks_of(index)
        return self._marks[index]

    def _marks_of(self, index: int) -> Mapping[FieldPath, FieldMark]:
        starts = self._document_starts()
        if index >= len(starts):
            return {}
        text, (start, line, column) = self._structure(), starts[index]
        end = starts[index + 1][0] if index + 1 < len(starts) else len(text)
        part = " " * column + text[start:end]
        composer = Composer(self.file, (), self.limits, marks_of=0)
        with contextlib.suppress(Stop, json_events.BadJson, yaml.MarkedYAMLError):
            composer.feed(self._events(part))
        return next((root.marks.below(line) for root in composer.roots), {})

    def _document_starts(self) -> list[tuple[int, int, int]]:
        """Starts of the documents, found in one pass over the events unless the text was parsed."""
        if self.starts is None:
            self.starts = []
            with contextlib.suppress(json_events.BadJson, yaml.MarkedYAMLError):
                for event in self._events(self._structure()):
                    if isinstance(event, yaml.DocumentStartEvent):
                        mark = event.start_mark
                        assert mark is not None
                        self.starts.append((mark.index, mark.line, mark.column))
        return self.starts

    def _structure(self) -> str:
        """The text as far as it has positions: those of a chart's template are around actions."""
        return without_actions(self.read())

    def _events(self, part: str) -> Iterator[yaml.Event]:
        if self._json is None:
            self._json = json_events.looks_like_json(self.read(), self.file)
        if self._json:
            return json_events.events(part)
        return iter(CParser(part).get_event, None)


class _Marks(Mapping[FieldPath, FieldMark]):
    __slots__ = ("_index", "_text")

    def __init__(self, text: _Text, index: int) -> None:
        self._text, self._index = text, index

    def __getitem__(self, path: FieldPath) -> FieldMark:
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


def is_encrypted(obj: Any) -> bool:
    """Return whether `obj` carries the metadata that sops writes into encrypted files."""
    return isinstance(get(obj, METADATA, "mac"), str) if isinstance(obj, dict) else False


def expanded(document: Document) -> Iterator[Document | Finding]:
    """Yield the document, or the items of a List, one level; a Finding for what is no object."""
    obj: object = document.obj
    if not isinstance(obj, dict):
        yield _no_object(document)
        return
    items = obj.get("items")
    if items is None and "items" in obj and obj.get("kind") == "List":
        return  # as templates write a list without items
    if not str(obj.get("kind")).endswith("List") or not isinstance(items, list):
        yield _no_items(document) if obj.get("kind") == "List" else document
        return
    if is_encrypted(obj):
        what = "an encrypted List is not opened; encrypt its Secrets one by one"
        yield finding_at(document, "GK1504", what, ("kind",))
        return
    for number, item in enumerate(items):
        inner = replace(document, obj=_typed(item, obj), base=("items", number))
        if not isinstance(item, dict):
            yield finding_at(inner, "GK2002", "an item of this List is not an object", ())
        elif str(item.get("kind")).endswith("List") and "items" in item:
            yield finding_at(inner, "GK2010", "a List inside a List is not read", ("kind",))
        else:
            yield replace(inner, line=inner.place().line)


def _typed(item: Any, listed: Mapping[str, Any]) -> Any:
    """Return an item with the kind that its list names, as kubectl reads it: a ConfigMapList holds
    ConfigMaps."""
    kind, version = listed["kind"].removesuffix("List"), listed.get("apiVersion")
    if not isinstance(item, dict) or item.get("kind") or item.get("apiVersion") or not kind:
        return item
    return {"apiVersion": version, "kind": kind, **item}


def _no_items(document: Document) -> Finding:
    """GK2002 for a List whose items are missing, or are no list."""
    has = "items" in document.obj
    found = finding_at(document, "GK2002", "this List has no list of items", ("items",) * has)
    return replace(found, notes=(("next", "write the objects under items, or remove the List"),))


def finding_at(document: Document, code: str, message: str, path: tuple[str | int, ...]) -> Finding:
    """Return a finding about a field of a document."""
    place = document.place(path, label="here")
    return Finding(code=code, message=message, places=(place,))


def _no_object(document: Document) -> Finding:
    """GK2002 for a document that is a list, a text or a number."""
    obj: object = document.obj
    what = "a list" if isinstance(obj, list) else "plain text or a number"
    return finding_at(document, "GK2002", f"the document is {what}, not an object", ())
