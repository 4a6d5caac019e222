"""Changed parts of an object: only they are pruned, defaulted and validated.

Patches share unchanged parts with the old object, so that comparing identities finds the changes:
a small patch of a large object costs what it changes. Unshared objects are processed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.schema.nodes import Node

Path = tuple[str | int, ...]
DEPTH_MAX: Final = 6  # spec.template.spec.containers[0].env; deeper parts are taken whole


class ChangedPart(NamedTuple):
    """A value that is not the old object's own; `node` is None where the schema knows no field."""

    path: Path
    value: Any
    node: Node | None


class _Memo:
    """The last question and its answer: each step of a write asks it again, most change nothing.

    Objects never change in place, so the same three are the same question.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[Node, Obj, Obj, list[ChangedPart]] | None = (
            None  # one value: threads share it
        )

    def touched(self, schema: Node, obj: Obj, old: Obj) -> list[ChangedPart]:
        last = self._last
        if last and last[0] is schema and last[1] is obj and last[2] is old:
            return last[3]
        found = _touched(schema, obj, old)
        self._last = (schema, obj, old, found)
        return found


_memo: Final = _Memo()


def touched(schema: Node, obj: Obj, old: Obj) -> list[ChangedPart]:
    """The smallest parts of `obj` that are not shared with `old`; apiVersion and kind aside.

    The list is not to be changed.
    """
    return _memo.touched(schema, obj, old)


def _touched(schema: Node, obj: Obj, old: Obj) -> list[ChangedPart]:
    found: list[ChangedPart] = []
    for name, value in obj.items():
        before = old.get(name)
        if (value is not before or value is None) and name not in ("apiVersion", "kind"):
            _within((name,), value, before, schema.child(name), found)
    return found


def _within(path: Path, value: Any, old: Any, node: Node | None, found: list[ChangedPart]) -> None:
    """Add the parts of `value` that differ from `old`. Runs for every field of every write."""
    if old is not None and (value is old or (type(value) is type(old) and _same(value, old))):
        return
    if old is None or node is None or len(path) >= DEPTH_MAX or not _alike(value, old, node):
        found.append(ChangedPart(path, value, node))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if item is not old[index] or item is None:
                _within((*path, index), item, old[index], node.items, found)
    else:
        for name, item in value.items():
            before = old.get(name)
            if item is not before or item is None:
                _within((*path, name), item, before, node.child(name), found)


def _same(value: Any, old: Any) -> bool:
    return isinstance(value, str | int | float) and bool(value == old)


def _alike(value: Any, old: Any, node: Node) -> bool:
    """Return whether two values may be compared entry by entry: no rule is about the whole."""
    if isinstance(value, list):
        if not isinstance(old, list) or node.items is None:
            return False
        same = len(value) == len(old) and node.list_type != "set"
        return same and all(_same_keys(a, b, node) for a, b in zip(value, old, strict=True))
    if not (_is_map(value) and _is_map(old)):
        return False
    closed = node.has_fields and not node.preserve_unknown and not node.any_of
    return closed and old.keys() <= value.keys()


def _is_map(value: Any) -> bool:
    return isinstance(value, (dict, Mapping))  # dict first: it is much faster


def _same_keys(item: Any, old: Any, node: Node) -> bool:
    if item is old:
        return True
    if not (_is_map(item) and _is_map(old)):
        return not node.list_keys
    return all(item.get(key) == old.get(key) for key in node.list_keys)


def rewritten(obj: Obj, parts: list[ChangedPart], change: Callable[[Node, Any], Any]) -> Obj:
    """`obj` with every part its schema knows replaced by what `change` makes of it."""
    for path, value, node in parts:
        if node is not None and (new := change(node, value)) is not value:
            obj = put(obj, path, new)
    return obj
