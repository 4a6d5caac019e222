"""Cells of tables: ages as Kubernetes prints them, and the values a CRD's columns point at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gitkruise.errors import BadRequest
from gitkruise.kube.client.codec import encode
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import parse_time
from gitkruise.wire.values.selectors import label_selector

Cell: TypeAlias = str | int | float | bool | None
Step: TypeAlias = str | int | tuple[str, str]  # a key, an index, "*", or a filter (key, value)

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEP: Final = re.compile(
    r"""\.(?P<key>(?:[\w$-]|\\.)+)
      | \[(?P<index>\d+|\*)\]
      | \['(?P<quoted>[^']*)'\]
      | \[\?\(@\.(?P<name>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\)\]""",
    re.VERBOSE,
)


def human_duration(seconds: float) -> str:
    """A span in Kubernetes' short words: 45s, 3m12s, 5h3m, 2d4h (apimachinery HumanDuration)."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 2 * _MINUTE:
        return f"{max(total, 0)}s"
    minutes, hours, days = total // _MINUTE, total // _HOUR, total // _DAY
    table = (  # until, large unit, small unit (0: none)
        (10 * _MINUTE, (minutes, "m"), (total % 60, "s")),
        (3 * _HOUR, (minutes, "m"), (0, "")),
        (8 * _HOUR, (hours, "h"), (minutes % 60, "m")),
        (48 * _HOUR, (hours, "h"), (0, "")),
        (8 * _DAY, (days, "d"), (hours % 24, "h")),
        (730 * _DAY, (days, "d"), (0, "")),
        (2920 * _DAY, (days // 365, "y"), (days % 365, "d")),
    )
    for until, (large, unit), (small, small_unit) in table:
        if total < until:
            return f"{large}{unit}" + (f"{small}{small_unit}" if small else "")
    return f"{days // 365}y"


def selector_cell(selector: Obj | None) -> str:
    """A label selector as kubectl prints it: "" for none, `<error>` for an unreadable one."""
    try:
        return str(label_selector(selector)) if selector else ""
    except BadRequest:
        return "<error>"


def since(text: str | None, now: datetime) -> str:
    """The age of an RFC 3339 instant, `<unknown>` where there is none."""
    instant = parse_time(text)
    return "<unknown>" if instant is None else human_duration((now - instant).total_seconds())


def age(obj: Obj, now: datetime) -> str:
    """Time since the object was created."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def crd_cell(obj: Obj, json_path: str, kind: str, now: datetime) -> Cell:
    """The first value a column's JSONPath finds, converted as apiextensions does; None if none."""
    value = next(find(obj, json_path), None)
    if value is None:
        return None
    if kind == "date":
        return _date(value, now)
    if kind == "string":
        return value if isinstance(value, str) else encode(value).decode()
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)


def _date(value: Any, now: datetime) -> Cell:
    if not isinstance(value, str):
        return None
    try:
        return since(value, now)
    except ValueError:
        return "<invalid>"


def find(obj: Any, json_path: str) -> Iterator[Any]:
    """Values at a simple JSONPath (keys, indexes, [*], equality filters), in document order."""
    values = [obj]
    for step in _steps(json_path):
        values = [found for value in values for found in _take(value, step)]
    return iter(values)


@lru_cache(maxsize=1024)
def _steps(json_path: str) -> tuple[Step, ...]:
    """The steps of a path; one this server does not understand finds nothing, as an empty cell."""
    steps: list[Step] = []
    position = 0
    while position < len(json_path):
        found = _STEP.match(json_path, position)
        if found is None:
            return ("\0",)
        position = found.end()
        steps.append(_step(found))
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    key, index, quoted, name, value = found.group("key", "index", "quoted", "name", "value")
    if key is not None:
        return str(key).replace("\\", "")
    if index is not None:
        return "*" if index == "*" else int(index)
    return (str(name), str(value)) if name is not None else str(quoted)


def _take(value: Any, step: Step) -> Iterator[Any]:
    if isinstance(step, tuple):
        name, wanted = step
        if isinstance(value, Sequence) and not isinstance(value, str):
            yield from (entry for entry in value if next(find(entry, f".{name}"), None) == wanted)
    elif isinstance(value, Mapping):
        if step == "*":
            yield from value.values()
        elif step in value:
            yield value[step]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if step == "*":
            yield from value
        elif isinstance(step, int) and step < len(value):
            yield value[step]
