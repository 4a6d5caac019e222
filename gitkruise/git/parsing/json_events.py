"""JSON text as the same events libyaml gives for YAML, by JSON's own rules."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping
from typing import Final

import yaml

from gitkruise.git.parsing.yaml_scalars import QUOTE

_TOKEN: Final = re.compile(
    r'[ \t\r\n]*(?:(?P<mark>[{}\[\]:,])|(?P<text>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")'
    r"|(?P<word>[-+.A-Za-z0-9_]+)|(?P<end>\Z)|(?P<other>.))",
    re.DOTALL,
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NOT_IN_JSON: Final = {"NaN", "Infinity", "-Infinity"}
_STARTS: Final[Mapping[str, type[yaml.CollectionStartEvent]]] = {
    "{": yaml.MappingStartEvent,
    "[": yaml.SequenceStartEvent,
}
_ENDS: Final[Mapping[str, type[yaml.CollectionEndEvent]]] = {
    "}": yaml.MappingEndEvent,
    "]": yaml.SequenceEndEvent,
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

VALUE, KEY_OR_END, KEY, COLON, COMMA_OR_END, VALUE_OR_END = range(6)


class BadJson(ValueError):
    """Text that is not JSON; `start` and `length` are character offsets.

    `rule` is the sentence with QUOTE in the place of the text at fault, which may be a secret.
    """

    def __init__(self, code: str, rule: str, start: int, length: int = 1, quote: str = "") -> None:
        super().__init__(rule)
        self.code, self.rule, self.quote = code, rule, quote
        self.start, self.length = start, length


def looks_like_json(text: str, file: str) -> bool:
    """Return whether the file is JSON: by its name, or by how its only document opens."""
    if file.lower().endswith(".json"):
        return True
    opening = text.lstrip()[:200]
    return bool(re.match(r'\{\s*(?:"|\})', opening)) and not re.search(r"(?m)^---", text)


class LinePositions:
    """Line and column of character offsets."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(m.end() for m in re.finditer(r"\r\n|\r|\n", text))]

    def mark(self, index: int) -> yaml.Mark:
        line = bisect_right(self._starts, index) - 1
        return yaml.Mark("", index, line, index - self._starts[line], None, 0)


def events(text: str) -> Iterator[yaml.Event]:
    """Events of every JSON value in `text`, one document each. Raises BadJson."""
    lines = LinePositions(text)
    position = 0
    while True:
        token = _TOKEN.match(text, position)
        assert token
        if token.lastgroup == "end":
            return
        mark = lines.mark(token.start(token.lastgroup or 0))
        yield yaml.DocumentStartEvent(mark, mark, explicit=True)
        position = yield from _value(text, position, lines)
        end = lines.mark(position)
        yield yaml.DocumentEndEvent(end, end)


def _value(text: str, position: int, lines: LinePositions) -> Generator[yaml.Event, None, int]:
    """Events of one value; returns the offset after it."""
    expect = VALUE
    open_marks: list[str] = []
    while True:
        token = _TOKEN.match(text, position)
        assert token
        kind = token.lastgroup or "other"
        start, position = token.span(kind)
        word = token[kind]
        if kind == "mark" and word in ":,":
            expect = _punctuation(word, expect, open_marks, start)
            continue
        if kind == "mark" and word in "}]":
            _closing(word, expect, open_marks, start)
            open_marks.pop()
        elif expect in {COLON, COMMA_OR_END} or (kind != "text" and expect in {KEY, KEY_OR_END}):
            raise _unexpected(kind, word, expect, start)
        begin, end = lines.mark(start), lines.mark(position)
        yield _event(kind, word, begin, end)
        if word in "{[" and kind == "mark":
            open_marks.append(word)
            expect = KEY_OR_END if word == "{" else VALUE_OR_END
            continue
        if not open_marks:
            return position
        expect = COLON if expect in {KEY, KEY_OR_END} and kind == "text" else COMMA_OR_END


def _punctuation(word: str, expect: int, open_marks: list[str], start: int) -> int:
    if word == ":" and expect == COLON:
        return VALUE
    if word == "," and expect == COMMA_OR_END:
        return KEY if open_marks[-1] == "{" else VALUE
    raise BadJson("GK1101", f"this is not valid JSON: {word!r} is not expected here", start)


def _closing(word: str, expect: int, open_marks: list[str], start: int) -> None:
    opener = "{" if word == "}" else "["
    if not open_marks or open_marks[-1] != opener:
        raise BadJson("GK1101", f"this is not valid JSON: {word!r} closes nothing", start)
    if expect not in {KEY_OR_END, VALUE_OR_END, COMMA_OR_END}:
        trailing = expect in {KEY, VALUE} and open_marks
        why = "there is a comma before it" if trailing else "a value is missing"
        raise BadJson("GK1101", f"this is not valid JSON: {word!r} is too early, {why}", start)


_EXPECTED: Final = {
    COLON: "':'",
    COMMA_OR_END: "',' or the end",
    KEY: 'a "key"',
    KEY_OR_END: 'a "key"',
}


def _unexpected(kind: str, word: str, expect: int, start: int) -> BadJson:
    if kind == "end":
        return BadJson("GK1101", "this is not valid JSON: it ends in the middle", start)
    if kind == "other":
        return _other(word, start)
    message = f"this is not valid JSON: {_EXPECTED[expect]} is missing before this"
    return BadJson("GK1101", message, start, len(word))


def _other(word: str, start: int) -> BadJson:
    why = {
        "/": "JSON has no comments",
        "#": "JSON has no comments",
        "'": 'JSON quotes with " only',
        '"': "this quote is never closed",
    }.get(word, "this character is not expected here")
    return BadJson("GK1101", f"this is not valid JSON: {why}", start)


def _event(kind: str, word: str, begin: yaml.Mark, end: yaml.Mark) -> yaml.Event:
    if kind == "mark":
        if word in _STARTS:
            return _STARTS[word](None, None, implicit=True, start_mark=begin, end_mark=end)
        return _ENDS[word](begin, end)
    if kind == "text":
        return yaml.ScalarEvent(None, None, (False, True), _string(word, begin), begin, end, '"')
    if kind == "word":
        _check_word(word, begin.index)
        return yaml.ScalarEvent(None, None, (True, False), word, begin, end, None)
    if kind == "end":
        raise BadJson("GK1101", "this is not valid JSON: it ends in the middle", begin.index)
    raise _other(word, begin.index)


def _string(word: str, begin: yaml.Mark) -> str:
    try:
        text = json.loads(word, strict=False)
    except ValueError as error:
        raise BadJson("GK1101", "this is not valid JSON: unknown escape", begin.index) from error
    if _SURROGATE.search(text):
        raise BadJson("GK1001", "half of a surrogate pair is not a character", begin.index)
    assert isinstance(text, str)
    return text


def _check_word(word: str, start: int) -> None:
    if word in _NOT_IN_JSON:
        rule = f"{QUOTE} is not a number JSON can hold"
        raise BadJson("GK1006", rule, start, len(word), word)
    if word not in {"true", "false", "null"} and not _NUMBER.fullmatch(word):
        rule = f"this is not valid JSON: {QUOTE} needs double quotes"
        raise BadJson("GK1101", rule, start, len(word), word)
