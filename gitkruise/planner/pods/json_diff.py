"""The JSON diff OpenKruise decides by: which operations turn one template into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tokens = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """`op` is add, remove or replace; `path` holds unescaped tokens."""

    op: str
    path: Tokens
    value: Any = None

    @property
    def pointer(self) -> str:
        return "".join("/" + str(t).replace("~", "~0").replace("/", "~1") for t in self.path)


def json_diff(old: Any, new: Any, path: Tokens = ()) -> list[Operation]:
    """Operations that turn `old` into `new`. Source: the appscode/jsonpatch rules.

    Lists of scalars (and of flat objects) differ as a whole sequence, all others position by
    position, so a container moved in its list is a change of two containers.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _objects(old, new, path)
    if isinstance(old, list) and isinstance(new, list):
        return _sequences(old, new, path)
    if old is None and new is not None:
        return [Operation("add", path, new)]
    return [] if _same(old, new) else [Operation("replace", path, new)]


def _objects(old: Mapping[str, Any], new: Mapping[str, Any], path: Tokens) -> list[Operation]:
    found: list[Operation] = []
    for key in sorted({*old, *new}):
        at = (*path, key)
        if key not in new:
            found.append(Operation("remove", at))
        elif key not in old:
            found.append(Operation("add", at, new[key]))
        else:
            found += json_diff(old[key], new[key], at)
    return found


def _same(old: Any, new: Any) -> bool:
    """True and 1 are different JSON values, 1 and 1.0 are not."""
    return isinstance(old, bool) == isinstance(new, bool) and bool(old == new)


def _sequences(old: list[Any], new: list[Any], path: Tokens) -> list[Operation]:
    if _simple(old) and _simple(new):
        return _edits(old, new, path)
    found: list[Operation] = []
    for at in range(min(len(old), len(new))):
        found += json_diff(old[at], new[at], (*path, at))
    found += [Operation("remove", (*path, at)) for at in range(len(old) - 1, len(new) - 1, -1)]
    found += [Operation("add", (*path, at), new[at]) for at in range(len(old), len(new))]
    return found


def _simple(items: Sequence[Any]) -> bool:
    """Scalars only, or the first object holds scalars only."""
    for item in items:
        if isinstance(item, Mapping):
            return not any(isinstance(v, Mapping | list) for v in item.values())
        if item is None or isinstance(item, list):
            return False
    return True


def _edits(old: list[Any], new: list[Any], path: Tokens) -> list[Operation]:
    """Without a common prefix and suffix; only whether an edit is a pure replacement matters."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    shared = min(len(left), len(right))
    found = [
        Operation("replace", (*path, start + at), right[at])
        for at in range(shared)
        if not _same(left[at], right[at])
    ]
    found += [
        Operation("remove", (*path, start + at)) for at in range(len(left) - 1, shared - 1, -1)
    ]
    found += [Operation("add", (*path, start + at), right[at]) for at in range(shared, len(right))]
    return found
