"""Reading and changing raw objects by path; what a change does not touch is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Path = Sequence[str | int]


def get(obj: Any, *path: str | int, default: Any = None) -> Any:
    """The value at `path`; `default` where a step is missing or the value is null."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(obj, Sequence) or not -len(obj) <= step < len(obj):
                return default
            obj = obj[step]
        elif type(obj) is dict or isinstance(
            obj, Mapping
        ):  # fast path: nearly all objects are dicts
            obj = obj.get(step)
        else:
            return default
        if obj is None:
            return default
    return obj


def put(obj: Any, path: Path, value: Any) -> Any:
    """`obj` with `value` at `path`; missing maps are made, list indexes must exist."""
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(head, int):
        items = list(obj)
        items[head] = put(items[head], rest, value)
        return items
    base = dict(obj) if isinstance(obj, Mapping) else {}
    base[head] = put(base.get(head), rest, value)
    return base


def drop(obj: Any, path: Path) -> Any:
    """`obj` without the map entry at `path`; unchanged (and shared) when it is not there."""
    if not path:
        raise ValueError("an object itself cannot be dropped")
    head, rest = path[0], path[1:]
    if isinstance(head, int):
        if not isinstance(obj, Sequence) or not 0 <= head < len(obj):
            return obj
        if not rest:
            return [*obj[:head], *obj[head + 1 :]]
        changed = drop(obj[head], rest)
        return obj if changed is obj[head] else [*obj[:head], changed, *obj[head + 1 :]]
    if not isinstance(obj, Mapping) or head not in obj:
        return obj
    if not rest:
        return {key: value for key, value in obj.items() if key != head}
    changed = drop(obj[head], rest)
    return obj if changed is obj[head] else {**obj, head: changed}
