"""Engine for tables of rules: a path and the condition that must hold there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.field_errors import (
    Check,
    Path,
    duplicate,
    invalid,
    required,
    unsupported,
)
from gitkruise.errors import Problem

Step: TypeAlias = str | tuple[str, ...]  # a field, or each of several
Rule: TypeAlias = tuple[tuple[Step, ...], tuple[Check, ...]]

_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
_NO_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    " '93%', regex used for validation is '[0-9]+%')"
)
EACH: Final = "*"  # every element of a list


class Table:
    """Rules by the path they share, so that what is not there is passed over once."""

    __slots__ = ("_asking", "_checks", "_children")

    def __init__(self, *rules: Rule) -> None:
        self._asking: frozenset[str] | None = None
        self._checks: tuple[Check, ...] = ()
        self._children: dict[str, Table] = {}
        for steps, checks in rules:
            self.add(steps, checks)

    def add(self, steps: tuple[Step, ...], checks: tuple[Check, ...]) -> None:
        if not steps:
            self._checks += checks
            return
        head, rest = steps[0], steps[1:]
        for name in (head,) if isinstance(head, str) else head:
            self._children.setdefault(name, Table()).add(rest, checks)

    def asks(self) -> bool:
        """Return whether the rule also applies to a missing value."""
        return any(list(check(None, ())) for check in self._checks)

    def problems(self, value: Any, at: Path) -> list[Problem]:
        """Every problem at and under `value`; at one place the first broken check alone speaks."""
        found: list[Problem] = []
        self.collect(value, at, found)
        return found

    def collect(self, value: Any, at: Path, found: list[Problem]) -> None:
        """Add every problem at and under `value` to `found`."""
        before = len(found)
        for check in self._checks:
            found += check(value, at)
            if len(found) > before:
                break
        if value is None:
            return
        if self._asking is None:
            fields = (name for name in self._children if name != EACH)
            self._asking = frozenset(name for name in fields if self._children[name].asks())
        for name, child in self._children.items():
            if name == EACH:
                for index, item in enumerate(value):
                    child.collect(item, (*at, index), found)
            elif (item := value.get(name)) is not None or name in self._asking:
                child.collect(item, (*at, name), found)


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


def count_or_percent(value: Any, at: Path) -> Iterator[Problem]:
    """Nothing, a number that is not negative or a percentage: ValidatePositiveIntOrPercent."""
    if not isinstance(value, str):
        yield from not_negative(value, at)
    elif not _PERCENT.fullmatch(value):
        yield invalid(at, value, _NO_PERCENT)


def at_most_all(value: Any, at: Path) -> Iterator[Problem]:
    """No percentage beyond 100: IsNotMoreThan100Percent."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield invalid(at, value, "must not be greater than 100%")


def port(value: Any, at: Path) -> Iterator[Problem]:
    """A port by number or by name."""
    if isinstance(value, str):
        yield from like(formats.port_name)(value, at) if value else (required(at),)
    else:
        yield from port_number(value or 0, at)


def unique(items: Any, at: Path, field: str) -> Iterator[Problem]:
    """No two elements share the text at `field`."""
    seen: set[Any] = set()
    for index, item in enumerate(items or ()):
        value = item.get(field)
        if value and value in seen:
            yield duplicate((*at, index, field), value)
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
