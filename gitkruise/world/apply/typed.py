"""Schema-aware walks over objects for server-side apply: field sets, comparison, merge.

The rules are those of structured merge: maps are granular unless their schema says atomic, lists
are atomic unless it says `map` or `set`; data without a schema is granular maps and atomic lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitkruise.wire.schema.nodes import MISSING, Node
from gitkruise.wire.schema.structural import LEAVES
from gitkruise.world.apply.fieldset import MEMBER, SELF, FieldSet, keyed, printed, union
from gitkruise.world.apply.fieldset import field as field_element
from gitkruise.world.apply.fieldset import value as value_element


def is_map(value: Any, node: Node | None) -> bool:
    """Return whether `value` is a map whose entries are owned one by one."""
    return isinstance(value, (dict, Mapping)) and not (
        node is not None and node.map_type == "atomic"
    )


def is_list(value: Any, node: Node | None) -> bool:
    """Return whether `value` is a list whose entries are owned one by one."""
    return isinstance(value, list | tuple) and node is not None and node.list_type in ("map", "set")


def below(node: Node | None, name: str) -> Node | None:
    return node.child(name) if node is not None else None


def declared(node: Node | None, name: str) -> bool:
    """Return whether the schema has a field of this name (a map's free keys are not declared)."""
    return node is not None and name in node.names


def elements(items: Sequence[Any], node: Node | None) -> Iterator[tuple[str, Any]]:
    """The entries of a granular list with their path elements, in list order."""
    assert node is not None
    if node.list_type == "set":
        for item in items:
            yield value_element(item), item
        return
    for item in items:
        pairs = ((key, _key_value(item, key, node)) for key in node.list_keys)
        yield keyed({key: value for key, value in pairs if value is not None}), item


def _key_value(item: Any, key: str, node: Node) -> Any:
    if isinstance(item, Mapping) and item.get(key) is not None:
        return item[key]
    child = node.items.child(key) if node.items else None
    return None if child is None or child.default is MISSING else child.default


def field_set(value: Any, node: Node | None) -> FieldSet:
    """The paths an applier of `value` owns."""
    if is_map(value, node):
        out: dict[str, FieldSet] = {}
        for name, item in value.items():
            inner = field_set(item, below(node, name))
            if not declared(node, name) or item is None or item == {}:
                inner = union(inner, MEMBER)
            if inner:
                out[field_element(name)] = inner
        return out
    if is_list(value, node):
        items = node.items if node is not None else None
        found: dict[str, FieldSet] = {}
        for element, item in elements(value, node):
            found[element] = union(field_set(item, items), MEMBER)
        return found
    return MEMBER


@dataclass(slots=True)
class Comparison:
    """Paths that differ between two objects."""

    added: dict[str, Any] = field(default_factory=dict)
    modified: dict[str, Any] = field(default_factory=dict)
    removed: dict[str, Any] = field(default_factory=dict)


def compare(before: Any, after: Any, node: Node | None) -> Comparison:
    """Compare `before` with `after`; parts that are the same Python object are skipped."""
    found = Comparison()
    _compare_maps(before, after, node, (), found)
    return found


_ABSENT = object()


def _compare(
    before: Any, after: Any, node: Node | None, path: tuple[str, ...], found: Comparison
) -> None:
    if before is after:
        return
    if before is _ABSENT:
        _hang(found.added, path, whole(after, node))
    elif after is _ABSENT:
        _hang(found.removed, path, whole(before, node))
    elif before == after:
        return
    elif maps := _both(before, after, node, is_map):
        _compare_maps(*maps, node, path, found)
    elif lists := _both(before, after, node, is_list):
        _compare_lists(*lists, node, path, found)
    else:
        _compare_kinds(before, after, node, path, found)


def whole(value: Any, node: Node | None) -> FieldSet:
    """The path of `value` itself and every path inside of it."""
    if value.__class__ in LEAVES:
        return MEMBER
    out: dict[str, FieldSet] = {SELF: {}}
    if is_map(value, node):
        for name, item in value.items():
            out["f:" + name] = (
                MEMBER
                if item.__class__ in LEAVES
                else whole(item, node.child(name) if node is not None else None)
            )
    elif is_list(value, node):
        items = node.items if node is not None else None
        for element, item in elements(value, node):
            out[element] = whole(item, items)
    return out


def _both(before: Any, after: Any, node: Node | None, test: Any) -> tuple[Any, Any] | None:
    """Both sides as collections of one kind; a null or empty side is an empty one."""
    if not (test(before, node) or test(after, node)):
        return None
    empty: Any = {} if test is is_map else []
    sides = [empty if side is None else side for side in (before, after)]
    if not all(test(side, node) for side in sides) or not any(sides):
        return None
    return sides[0], sides[1]


def _compare_kinds(
    before: Any, after: Any, node: Node | None, path: tuple[str, ...], found: Comparison
) -> None:
    """A leaf changed, or one kind of value took the place of another."""
    old = field_set(before, node)
    new = field_set(after, node)
    if old == new:
        _insert(found.modified, path)
        return
    _insert_all(found.modified, path, MEMBER)
    _insert_all(found.removed, path, {k: v for k, v in old.items() if k != SELF})
    _insert_all(found.added, path, {k: v for k, v in new.items() if k != SELF})


def _compare_maps(
    before: Any, after: Any, node: Node | None, path: tuple[str, ...], found: Comparison
) -> None:
    for name, old in before.items():
        new = after.get(name, _ABSENT)
        if new is not old:
            _compare(old, new, below(node, name), (*path, field_element(name)), found)
    for name, new in after.items():
        if name not in before:
            _compare(_ABSENT, new, below(node, name), (*path, field_element(name)), found)


def _compare_lists(
    before: Any, after: Any, node: Node | None, path: tuple[str, ...], found: Comparison
) -> None:
    assert node is not None
    old, new = dict(elements(before, node)), dict(elements(after, node))
    for element in old | new:
        left, right = old.get(element, _ABSENT), new.get(element, _ABSENT)
        _compare(left, right, node.items, (*path, element), found)


def _hang(tree: dict[str, Any], path: tuple[str, ...], fields: FieldSet) -> None:
    """Put `fields` at a path nothing of which is in the tree yet."""
    *way, last = path
    for element in way:
        tree = tree.setdefault(element, {})
    tree[last] = fields


def _insert(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    for element in path:
        tree = tree.setdefault(element, {})
    tree[SELF] = {}


def _insert_all(tree: dict[str, Any], path: tuple[str, ...], fields: FieldSet) -> None:
    for element, inner in fields.items():
        if element == SELF:
            _insert(tree, path)
        else:
            _insert_all(tree, (*path, element), inner)


def merge(live: Any, config: Any, node: Node | None) -> Any:
    """`live` with the applied `config` laid over it."""
    if is_map(live, node) and is_map(config, node):
        out = dict(live)
        for name, item in config.items():
            out[name] = merge(live[name], item, below(node, name)) if name in live else item
        return out
    if is_list(live, node) and is_list(config, node):
        return _merge_lists(live, config, node)
    return config


def _merge_lists(live: Sequence[Any], config: Sequence[Any], node: Node | None) -> list[Any]:
    """Shared entries in the applied order; an entry of others stays before what follows it.

    Walks both lists: entries only in `live` keep their position, shared ones follow the order of
    the applied list, and an applied entry comes after the live entries before its counterpart.
    """
    assert node is not None
    old, new = list(elements(live, node)), list(elements(config, node))
    known, wanted = dict(old), dict(new)
    shared = [element for element, _ in new if element in known]
    out: list[Any] = []
    at = 0
    for element, item in new:
        while at < len(old) and old[at][0] != element:
            other, entry = old[at]
            if other in wanted and (not shared or other == shared[0]):
                break
            if other not in wanted:
                out.append(entry)
            at += 1
        if at < len(old) and old[at][0] == element:
            at += 1
        out.append(merge(known[element], item, node.items) if element in known else item)
        if shared and shared[0] == element:
            shared.pop(0)
    out.extend(entry for other, entry in old[at:] if other not in wanted)
    return out


def remove(value: Any, fields: FieldSet, node: Node | None) -> Any:
    """`value` without the members of `fields` (and what is below them)."""
    if is_map(value, node):
        kept: dict[str, Any] = {}
        for name, item in value.items():
            inner = fields.get(field_element(name))
            if inner is None:
                kept[name] = item
            elif SELF not in inner:
                kept[name] = remove(item, inner, below(node, name))
        return kept
    if is_list(value, node):
        assert node is not None
        left: list[Any] = []
        for element, item in elements(value, node):
            inner = fields.get(element)
            if inner is None:
                left.append(item)
            elif SELF not in inner:
                left.append(remove(item, inner, node.items))
        return left
    return value


def with_named_fields(fields: FieldSet, node: Node | None) -> FieldSet:
    """`fields` and every declared field on the way to its members."""
    out: dict[str, FieldSet] = {}
    for element, inner in fields.items():
        if element == SELF:
            out[SELF] = inner
            continue
        mark, name = element[0], element[2:]
        child = below(node, name) if mark == "f" else (node.items if node is not None else None)
        nested = with_named_fields(inner, child)
        if mark == "f" and declared(node, name) and SELF not in nested:
            nested = {SELF: {}, **nested}
        out[element] = nested
    return out


def duplicate(value: Any, node: Node | None, path: str = "") -> str:
    """The first entry a granular list holds twice, as structured merge says it; "" without one."""
    if is_map(value, node):
        parts = ((item, below(node, name), f"{path}.{name}") for name, item in value.items())
        return next(filter(None, (duplicate(*part) for part in parts)), "")
    if not is_list(value, node):
        return ""
    assert node is not None
    seen: set[str] = set()
    for element, item in elements(value, node):
        if element in seen:
            return f"{path}: duplicate entries for key {printed([element])}"
        seen.add(element)
        if found := duplicate(item, node.items, path + printed([element])):
            return found
    return ""


_TYPES: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    "string": ("string", str),
    "integer": ("numeric (int or float)", (int, float)),
    "number": ("numeric (int or float)", (int, float)),
    "boolean": ("boolean", bool),
    "array": ("list", (list, tuple)),
    "object": ("map", Mapping),
}


def mistyped(value: Any, node: Node | None, path: str = "") -> str:
    """The first value that is not of its schema's type, as structured merge says it; "" if none."""
    if node is None or value is None or isinstance(value, bytes):
        return ""
    if len(node.types) == 1:
        name, wanted = _TYPES[node.type]
        if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
            return f"{path}: expected {name}, got {json.dumps(value)}"
    if isinstance(value, Mapping):
        parts = ((item, below(node, key), f"{path}.{key}") for key, item in value.items())
        return next(filter(None, (mistyped(*part) for part in parts)), "")
    if isinstance(value, list | tuple):
        rows = ((item, node.items, f"{path}[{i}]") for i, item in enumerate(value))
        return next(filter(None, (mistyped(*row) for row in rows)), "")
    return ""
