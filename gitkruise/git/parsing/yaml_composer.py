"""Parse events made raw objects: iterative, bounded, strict about keys, tags and aliases."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gitkruise.errors import Finding, Severity
from gitkruise.git.parsing.yaml_scalars import (
    QUOTE,
    BadScalar,
    Scalar,
    always_text,
    ambiguity,
    resolve,
    worded,
)
from gitkruise.model.gitops.document import FieldMark, FieldPath, Position, place_at, reveals
from gitkruise.printable import shown
from gitkruise.wire.primitives.secret_names import holds_secret, keeps_secret, may_hold_secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one file; every one names itself in its error (GK9001 to GK9005)."""

    file_bytes: int = 8 << 20
    documents: int = 1_000
    document_chars: int = 1 << 20  # no API server stores a larger object
    nesting: int = 100
    alias_nodes: int = 50_000  # a document's aliases, expanded
    map_keys: int = 10_000
    items: int = 100_000
    nodes: int = 500_000  # keys and values of the whole file
    key_chars: int = 1_024
    findings: int = 50


class Stop(Exception):
    """Reading on makes no sense; the findings say why."""


_TAG: Final = "tag:yaml.org,2002:"
_COLLECTION_TAGS: Final = {
    _TAG + "map": yaml.MappingStartEvent,
    _TAG + "seq": yaml.SequenceStartEvent,
}
_SCALAR_TAGS: Final[Mapping[str, tuple[type, ...]]] = {
    _TAG + "str": (str,),
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "bool": (bool,),
    _TAG + "null": (type(None),),
}
_PLAIN_NAMES: Final = {"apiVersion", "kind", "name", "namespace", "generateName", "image"}
_UNSEEN: Final = re.compile(  # control, bidi and zero-width characters
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
)
_MERGE: Final = object()  # the key << in a frame
_NO_KEY: Final = object()  # the next scalar in a mapping is a key
_NEVER_A_KEY: Final = object()  # in a list
_QUOTED: Final = frozenset({"'", '"', "|", ">"})


class _Frame:
    """A collection being filled. Events stand for positions: few are ever asked for."""

    __slots__ = ("anchor", "at", "key", "key_at", "keys", "path", "value", "weight")

    def __init__(
        self, value: Any, event: yaml.CollectionStartEvent, path: FieldPath, weight: int
    ) -> None:
        self.value = value
        self.at = event
        self.anchor: str | None = event.anchor
        self.path = path
        self.weight = weight  # of the document when this began
        self.key: Any = _NO_KEY if type(value) is dict else _NEVER_A_KEY
        self.key_at: yaml.Event | None = None
        self.keys: dict[str, yaml.Event] = {}


class EventMarks(Mapping[FieldPath, FieldMark]):
    """Positions in one document by its events, `below` so many lines: few are ever asked for."""

    __slots__ = ("_below", "_events")

    def __init__(
        self, events: Mapping[FieldPath, tuple[yaml.Event, yaml.Event | None]], below: int = 0
    ) -> None:
        self._events, self._below = events, below

    def __getitem__(self, path: FieldPath) -> FieldMark:
        value, key = self._events[path]
        return FieldMark(self._position(value), None if key is None else self._position(key))

    def __iter__(self) -> Iterator[FieldPath]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def _position(self, event: yaml.Event) -> Position:
        position = position_of(event)
        return position._replace(line=position.line + self._below)

    def below(self, lines: int) -> EventMarks:
        """The same so many lines further down."""
        return EventMarks(self._events, self._below + lines)


@dataclass(frozen=True, slots=True)
class Root:
    """The value of one document, its line, and the positions when they were asked for."""

    obj: Any
    line: int
    index: int
    marks: EventMarks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """A finding before it is known whether its document may hold a secret."""

    code: str
    message: str  # with QUOTE where `quote` goes, and VALUE where `value` goes
    position: Position
    label: str
    quote: str
    value: str
    severity: Severity
    first: Position | None  # of two places the one further up
    document: int


class Composer:
    """Feed it events, then `finish`; `roots` and `findings` are the result.

    `marks_of` is the document whose positions are wanted; positions of others are not kept.
    """

    def __init__(
        self, file: str, lines: Sequence[str], limits: Limits, *, marks_of: int | None = None
    ) -> None:
        self.roots: list[Root] = []
        self.starts: list[tuple[int, int, int]] = []  # of documents: offset, line and column
        self._reports: list[_Report] = []
        self._two_kinds: set[int] = set()  # documents that say what they are more than once
        self._file, self._lines, self._limits = file, lines, limits
        self._marks_of = marks_of
        self._nodes = 0
        self._documents = 0
        self._handlers: Mapping[type[yaml.Event], Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._begin,
            yaml.DocumentEndEvent: self._end,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
        }
        self._reset()

    def _reset(self) -> None:
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open_anchors: set[str] = set()
        self._weight = 0  # nodes of this document, aliases expanded
        self._alias_weight = 0
        self._root: Any = None
        self._root_line = 0
        self._marks: dict[FieldPath, tuple[yaml.Event, yaml.Event | None]] | None = None

    def feed(self, events: Iterable[yaml.Event]) -> None:
        """Compose until the events end. Raises Stop after a finding that makes the rest useless."""
        handler_of = self._handlers.get
        for event in events:
            handler = handler_of(type(event))
            if handler is not None:
                handler(event)

    def report(
        self, code: str, message: str, at: Position | yaml.Event, *, label: str = "",
        quote: str = "", value: str = "",
        severity: Severity = Severity.ERROR, first: Position | None = None,
    ) -> None:  # fmt: skip
        """Keep a finding; raises Stop when there are too many.

        `message` and `label` have QUOTE where `quote`, a text of the file, is to be read: it is
        left out where the file may hold a secret.
        """
        if severity is Severity.WARNING and len(self._reports) >= self._limits.findings // 2:
            return
        self._reports.append(
            _Report(
                code=code, message=message, label=label, quote=quote, value=value,
                position=at if isinstance(at, Position) else position_of(at),
                severity=severity, first=first,
                document=self._documents - 1,
            )
        )  # fmt: skip
        if len(self._reports) >= self._limits.findings:
            raise Stop

    def finish(self, text: str, *, whole: bool, apart: bool) -> list[Finding]:
        """The findings, once the file `text` is read: `whole`, or up to an error.

        Documents of a file may stand on one line unless they are written `apart`.
        """
        if not self._reports:
            return []
        private = {r.index for r in self.roots if holds_secret(r.obj) or keeps_secret(r.obj)}
        private |= self._two_kinds
        rest = not whole and may_hold_secret(text, self._kinds())
        known = {root.index for root in self.roots}
        if private and not apart:
            private, rest = known, True
        return [
            self._finding(report, private=self._hidden(report.document, private, known, rest))
            for report in self._reports
        ]

    @staticmethod
    def _hidden(number: int, private: set[int], known: set[int], rest: bool) -> bool:
        return number in private or (rest and number not in known)

    def _kinds(self) -> list[Any]:
        """Kinds of the documents as far as they were read."""
        objects = [root.obj for root in self.roots]
        objects.append(self._stack[0].value if self._stack else self._root)
        return [obj.get("kind") if isinstance(obj, dict) else None for obj in objects]

    def _finding(self, report: _Report, *, private: bool) -> Finding:
        hidden = private or reveals(self._lines, report.position)
        place_of = functools.partial(place_at, self._file, self._lines, hidden=private)
        label = worded(report.label, report.quote, hidden=hidden)
        place = place_of(report.position, label=label)
        others = (place_of(report.first, label="first"),) if report.first else ()
        message = worded(report.message, report.quote, hidden=hidden, value=report.value)
        return Finding(
            code=report.code, message=message, places=(*others, place), severity=report.severity
        )

    def _exceeds(self, code: str, limit: str, at: Position | yaml.Event) -> Stop:
        self.report(code, f"{shown(self._file)} is beyond a limit: {limit}", at, label="here")
        return Stop()

    def _begin(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        mark = event.start_mark
        assert mark is not None
        self.starts.append((mark.index, mark.line, mark.column))
        if self._documents > self._limits.documents:
            limit = f"{self._limits.documents:,} documents a file"
            raise self._exceeds("GK9004", limit, event)
        self._reset()
        if self._marks_of == self._documents - 1:
            self._marks = {}
        if getattr(event, "tags", None):
            self.report("GK1009", "the directive %TAG is not allowed", event)

    def _end(self, event: yaml.DocumentEndEvent) -> None:
        start, line, column = self.starts[-1]
        assert event.end_mark is not None
        if event.end_mark.index - start > self._limits.document_chars:
            limit = f"{self._limits.document_chars:,} characters a document"
            raise self._exceeds("GK9005", limit, Position(line + 1, column + 1, 1))
        if self._root is not None:
            marks = EventMarks(self._marks or {})
            self.roots.append(Root(self._root, self._root_line, self._documents - 1, marks))

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        stack = self._stack
        if stack and stack[-1].key is _NO_KEY:
            self.report("GK1004", "a key must be text, not a list or a mapping", event)
            raise Stop
        if len(stack) >= self._limits.nesting:
            raise self._exceeds("GK9002", f"nesting > {self._limits.nesting} levels", event)
        if event.tag and not isinstance(event, _COLLECTION_TAGS.get(event.tag, ())):
            self._tag_refused(event.tag, event)
        self._count(event)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._new_anchor(event.anchor, event)
            self._open_anchors.add(event.anchor)
        stack.append(_Frame(value, event, self._path(), self._weight))

    def _close(self, _: yaml.CollectionEndEvent) -> None:
        frame = self._stack.pop()
        if frame.anchor:
            self._open_anchors.discard(frame.anchor)
            self._anchors[frame.anchor] = (frame.value, self._weight - frame.weight + 1)
        self._put(frame.value, frame.at)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._count(event)
        text: str = event.value
        value: Scalar = text
        if event.tag or (event.style not in _QUOTED and not always_text(text)):
            value = self._value_of(event)
        if event.anchor:
            self._new_anchor(event.anchor, event)
            self._anchors[event.anchor] = (value, 1)
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.key is _NO_KEY:
            self._key(frame, _MERGE if text == "<<" and _is_merge(event) else value, text, event)
        else:
            self._put(value, event)
            if value is not text:
                self._warn_if_ambiguous(event, value)

    def _alias(self, event: yaml.AliasEvent) -> None:
        self._count(event)
        name = event.anchor or ""
        if name in self._open_anchors:
            self.report("GK1011", f"the anchor &{QUOTE} contains itself", event, quote=name)
            raise Stop
        if name not in self._anchors:
            self.report(
                "GK1010", f"there is no anchor &{QUOTE} before this alias", event, quote=name
            )
            raise Stop
        value, weight = self._anchors[name]
        self._weight += weight - 1
        self._alias_weight += weight
        if self._alias_weight > self._limits.alias_nodes:
            limit = f"alias expansion > {self._limits.alias_nodes:,} nodes"
            raise self._exceeds("GK9003", limit, event)
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.key is _NO_KEY:
            self._key(frame, value, "*" + name, event)
        else:
            self._put(value, event)

    def _new_anchor(self, name: str, at: yaml.Event) -> None:
        if name in self._anchors:
            message = f"the anchor &{QUOTE} is defined again; the later one counts"
            self.report("GK1012", message, at, quote=name, severity=Severity.WARNING)

    def _count(self, at: yaml.Event) -> None:
        self._nodes += 1
        self._weight += 1
        if self._nodes > self._limits.nodes:
            raise self._exceeds("GK9001", f"{self._limits.nodes:,} keys and values a file", at)

    def _value_of(self, event: yaml.ScalarEvent) -> Scalar:
        """The value of a scalar that is tagged, or neither quoted nor always text."""
        try:
            return self._tagged(event) if event.tag else resolve(event.value)
        except BadScalar as problem:
            label = "quote it if you mean text"
            self.report(problem.code, problem.rule, event, label=label, quote=event.value)
            return event.value

    def _tagged(self, event: yaml.ScalarEvent) -> Scalar:
        tag, text = event.tag or "", event.value
        wanted = _SCALAR_TAGS.get(tag)
        if wanted is None:
            self._tag_refused(tag, event)
            return text
        value = text if str in wanted else resolve(text)
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            name = tag.removeprefix(_TAG)
            message = f"{QUOTE} is not what its tag !!{name} says"
            self.report("GK1008", message, event, quote=text)
        return value

    def _tag_refused(self, tag: str, at: yaml.Event) -> None:
        name = "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag
        self.report("GK1008", f"the tag {QUOTE} is not allowed", at, quote=name)

    def _warn_if_ambiguous(self, event: yaml.ScalarEvent, value: Scalar) -> None:
        why = "" if isinstance(value, str) else ambiguity(event.value)
        if why:
            label = "quote it if you mean text"
            meaning = str(value).lower()
            self.report(
                "GK1013", why, event, label=label, quote=event.value, value=meaning,
                severity=Severity.WARNING,
            )  # fmt: skip

    def _key(self, frame: _Frame, value: Any, text: str, at: yaml.Event) -> None:
        if value is not _MERGE:
            if not isinstance(value, str):
                label = f'quote it: "{QUOTE}"'
                self.report("GK1004", f"the key {QUOTE} is not text", at, label=label, quote=text)
                value = text
            keys = frame.keys
            if value in keys or len(value) > self._limits.key_chars or not value.isprintable():
                self._check_key(frame, value, at)
            keys[value] = at
            if len(keys) > self._limits.map_keys:
                raise self._exceeds("GK9001", f"{self._limits.map_keys:,} keys a mapping", at)
        frame.key, frame.key_at = value, at

    def _check_key(self, frame: _Frame, key: str, at: yaml.Event) -> None:
        if len(key) > self._limits.key_chars:
            limit = f"{self._limits.key_chars:,} characters a key"
            raise self._exceeds("GK9001", limit, at)
        self._check_visible(key, "a key", at)
        if key in frame.keys:
            first, again = position_of(frame.keys[key]), position_of(at)
            lines = f"first on line {first.line}, again on line {again.line}"
            if key == "kind":
                self._two_kinds.add(self._documents - 1)
            message = f'duplicate key "{QUOTE}": {lines}'
            self.report("GK1003", message, again, label="again", quote=key, first=first)

    def _check_visible(self, text: str, what: str, at: yaml.Event) -> None:
        bad = None if text.isprintable() else _UNSEEN.search(text)
        if bad is None:
            return
        if unicodedata.category(bad[0]) == "Cf":
            name = unicodedata.name(bad[0], f"U+{ord(bad[0]):04X}").lower()
            message = f"an invisible character ({name}) in {what}"
            self.report("GK1014", message, at, label="write it without")
        else:
            self.report("GK1002", f"a control character (U+{ord(bad[0]):04X}) in {what}", at)

    def _path(self) -> FieldPath:
        """Path of the next value; only kept up while positions are wanted."""
        if self._marks is None or not self._stack:
            return ()
        frame = self._stack[-1]
        if isinstance(frame.value, list):
            return (*frame.path, len(frame.value))
        return (*frame.path, "<<" if frame.key is _MERGE else frame.key)

    def _put(self, value: Any, at: yaml.Event) -> None:
        frame = self._stack[-1] if self._stack else None
        if self._marks is not None:
            self._marks[self._path()] = at, frame.key_at if frame else None
        if frame is None:
            self._root, self._root_line = value, position_of(at).line
            return
        key, holder = frame.key, frame.value
        if key is _NEVER_A_KEY:
            if len(holder) >= self._limits.items:
                raise self._exceeds("GK9001", f"{self._limits.items:,} items a list", at)
            holder.append(value)
            return
        if key is _MERGE:
            self._merge(frame, value, at)
        else:
            if key in _PLAIN_NAMES and isinstance(value, str):
                self._check_visible(value, f"the {key}", at)
            holder[key] = value
        frame.key, frame.key_at = _NO_KEY, None

    def _merge(self, frame: _Frame, value: Any, at: yaml.Event) -> None:
        """`<<`: in document order, as kubectl; of several the first named wins."""
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            self.report("GK1005", "<< takes a mapping or a list of mappings", at)
            return
        overridden = sorted({k for s in sources for k in s if k in frame.keys})
        if overridden:
            message = f'<< replaces "{QUOTE}" that is written above it'
            self.report(
                "GK1005", message, at, label="put << first", quote=overridden[0],
                severity=Severity.WARNING,
            )  # fmt: skip
        for source in reversed(sources):
            frame.value.update(source)
        if len(frame.value) > self._limits.map_keys:
            raise self._exceeds("GK9001", f"{self._limits.map_keys:,} keys a mapping", at)


def position_of(event: yaml.Event) -> Position:
    start, end = event.start_mark, event.end_mark
    assert start is not None
    assert end is not None
    length = end.column - start.column if end.line == start.line else 1
    return Position(start.line + 1, start.column + 1, max(length, 1))


def _is_merge(event: yaml.ScalarEvent) -> bool:
    plain = not event.tag and event.style not in _QUOTED
    return event.value == "<<" and (plain or event.tag == _TAG + "merge")
