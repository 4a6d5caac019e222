"""A small engine for tables of rules: where to look, and what must hold there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from gitkruise.admission import formats
from gitkruise.admission.words import (
    Check,
    Path,
    duplicate,
    invalid,
    required,
    unsupported,
)
from gitkruise.errors import MapKey, Problem

Step: TypeAlias = str | tuple[str, ...]  # a field, or each of several
Rule: TypeAlias = tuple[tuple[Step, ...], tuple[Check, ...]]

EACH: Final = "*"  # every element of a list
ENTRY: Final = "{}"  # every value of a map


def walk(node: Any, steps: tuple[Step, ...], at: Path) -> Iterator[tuple[Any, Path]]:
    """Each value `steps` lead to, with its path. A missing last field counts as None."""
    if not steps:
        yield node, at
        return
    head, rest = steps[0], steps[1:]
    if head == EACH:
        for index, item in enumerate(node or ()):
            yield from walk(item, rest, (*at, index))
    elif head == ENTRY:
        for key, item in (node or {}).items():
            yield from walk(item, rest, (*at, MapKey(key)))
    elif isinstance(node, Mapping):
        for name in (head,) if isinstance(head, str) else head:
            if node.get(name) is not None or not rest:
                yield from walk(node.get(name), rest, (*at, name))


def broken(rules: Iterable[Rule], root: Any, at: Path) -> Iterator[Problem]:
    """Every problem under `root`; at one place the first broken check alone speaks."""
    for steps, checks in rules:
        for value, path in walk(root, steps, at):
            for check in checks:
                found = list(check(value, path))
                yield from found
                if found:
                    break


def present(value: Any, at: Path) -> Iterator[Problem]:
    """The field is there and neither "" nor an empty list or map."""
    if value is None or value in ("", [], {}):
        yield required(at)


def need(detail: str) -> Check:
    """Like `present`, with the server's reason."""

    def check(value: Any, at: Path) -> Iterator[Problem]:
        if value is None or value in ("", [], {}):
            yield required(at, detail)

    return check


def need_number(value: Any, at: Path) -> Iterator[Problem]:
    """The number is there and not 0."""
    if not value:
        yield required(at)


def one_of(*allowed: str) -> Check:
    """One of these texts, or nothing."""

    def check(value: Any, at: Path) -> Iterator[Problem]:
        if value not in (None, "", *allowed):
            yield unsupported(at, value, allowed)

    return check


def like(text_format: formats.Format) -> Check:
    """A text of a format, or nothing."""

    def check(value: Any, at: Path) -> Iterator[Problem]:
        if value:
            yield from (invalid(at, value, sentence) for sentence in text_format(value))

    return check


def between(low: int, high: int, sentence: str) -> Check:
    """A number within bounds, or nothing."""

    def check(value: Any, at: Path) -> Iterator[Problem]:
        if value is not None and not low <= value <= high:
            yield invalid(at, value, sentence)

    return check


def at_least(low: int, sentence: str = "") -> Check:
    return between(low, 2**63, sentence or f"must be greater than or equal to {low}")


not_negative: Final = at_least(0)
port_number: Final = between(1, 65535, formats.PORT_SENTENCE)


def port(value: Any, at: Path) -> Iterator[Problem]:
    """A port by number or by name."""
    if isinstance(value, str):
        yield from like(formats.port_name)(value, at) if value else (required(at),)
    else:
        yield from port_number(value or 0, at)


def unique(items: Any, at: Path, *field: str) -> Iterator[Problem]:
    """No two elements share the text at `field`."""
    seen: set[Any] = set()
    for value, path in walk(items, (EACH, *field), at):
        if value and value in seen:
            yield duplicate(path, value)
        seen.add(value)


def exactly_one(
    node: Mapping[str, Any], kinds: Collection[str], at: Path, words: tuple[str, str]
) -> Iterator[Problem]:
    """One of the fields `kinds` is set. `words`: what to say about none, and about too many."""
    chosen = [kind for kind in kinds if node.get(kind) is not None]
    if not chosen:
        yield required(at, words[0])
    yield from (
        Problem((*at, kind), "FieldValueForbidden", f"Forbidden: {words[1]}") for kind in chosen[1:]
    )


def each(
    items: Any, at: Path, check: Callable[[Any, Path], Iterable[Problem]]
) -> Iterator[Problem]:
    """The problems `check` finds in every element of a list."""
    for index, item in enumerate(items or ()):
        yield from check(item, (*at, index))
