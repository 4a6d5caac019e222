"""The JSONPath of printer columns: `.a.b`, `[0]`, `[*]`, `['key']`, `[?(@.type=="Ready")]`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gitkruise.errors import BadRequest

MAX_RESULTS: Final = 10_000

_STEP: Final = re.compile(
    r"\.(?P<name>(?:\\.|[^.\[\]\\()?'\"\s])+)"
    r"|\[(?P<index>-?\d+)\]"
    r"|\[(?P<star>\*)\]"
    r"|\[\s*(?P<quoted>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")\s*\]"
    r"|\[\?\(\s*@(?P<left>[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>[^\]]*?)\s*)?\)\]"
)


@dataclass(frozen=True, slots=True)
class Field:
    """An entry of a map; `*` is every entry."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """An element of a list; negative counts from the end."""

    at: int


@dataclass(frozen=True, slots=True)
class Every:
    """Every element of a list."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The elements whose `left` compares with `right`; with op "" those that have it."""

    left: JsonPath
    op: str
    right: Any


Step: TypeAlias = Field | Index | Every | Filter

_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path."""

    steps: tuple[Step, ...]

    def find_all(self, obj: Any) -> list[Any]:
        """Everything the path leads to, in document order; a missing step leads nowhere."""
        found = [obj]
        for step in self.steps:
            found = [value for start in found for value in _follow(step, start)]
            if len(found) > MAX_RESULTS:
                raise BadRequest(f"the path leads to more than {MAX_RESULTS} values")
        return found


def _follow(step: Step, value: Any) -> Iterator[Any]:
    match step:
        case Field(name):
            yield from _entries(name, value)
        case Index(at):
            if isinstance(value, list | tuple) and -len(value) <= at < len(value):
                yield value[at]
        case Every():
            if isinstance(value, list | tuple):
                yield from value
            elif isinstance(value, Mapping):
                yield from value.values()
        case Filter():
            for item in value if isinstance(value, list | tuple) else ():
                if _passes(step, item):
                    yield item


def _entries(name: str, value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if name == "*":
            yield from value.values()
        elif name in value:
            yield value[name]


def _passes(step: Filter, item: Any) -> bool:
    found = step.left.find_all(item)
    if not step.op:
        return bool(found)
    comparable = found and _kind(found[0]) is _kind(step.right)
    return bool(comparable) and _COMPARE[step.op](found[0], step.right)


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def parse_json_path(text: str) -> JsonPath:
    """A path such as `.status.conditions[?(@.type=="Ready")].status`. Raises BadRequest."""
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1].strip()
    body = body.removeprefix("$")
    if not body or body == ".":
        return JsonPath(())
    steps: list[Step] = []
    at = 0
    while at < len(body):
        found = _STEP.match(body, at)
        if not found:
            raise BadRequest(f"{text!r} is not a JSON path we know, from {body[at:]!r} on")
        steps.append(_step(found))
        at = found.end()
    return JsonPath(tuple(steps))


def _step(found: re.Match[str]) -> Step:
    if found["name"] is not None:
        return Field(re.sub(r"\\(.)", r"\1", found["name"]))
    if found["index"] is not None:
        return Index(int(found["index"]))
    if found["star"] is not None:
        return Every()
    if found["quoted"] is not None:
        return Field(re.sub(r"\\(.)", r"\1", found["quoted"][1:-1]))
    return Filter(parse_json_path(found["left"]), found["op"] or "", _literal(found["right"]))


def _literal(text: str | None) -> Any:
    if text is None:
        return None
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        raise BadRequest(f"{text!r} is not a literal of a JSON path") from None
