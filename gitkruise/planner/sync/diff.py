"""Differences between a live object and the desired one, limited to fields that git sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from gitkruise.model.gitops.change import MISSING, FieldChange
from gitkruise.model.gitops.document import FieldPath
from gitkruise.wire.kruise.go_types import OMITTED_ZEROS
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.schema.structural import Node
from gitkruise.wire.values.quantity import parse_quantity

# Written or normalised by the server, never a difference a person cares about.
_SERVER_OWNED: Final = frozenset(
    {
        ("status",),
        ("metadata", "resourceVersion"),
        ("metadata", "uid"),
        ("metadata", "generation"),
        ("metadata", "creationTimestamp"),
        ("metadata", "managedFields"),
        ("metadata", "selfLink"),
    }
)
_QUANTITY_PARENTS: Final = frozenset({"limits", "requests", "capacity", "hard", "overhead"})
_QUANTITY_FIELDS: Final = frozenset({"storage", "sizeLimit", "divisor"})


def owned_differences(desired: Obj, live: Obj, node: Node | None) -> tuple[FieldChange, ...]:
    """Fields of `desired` whose live value has another meaning, in path order.

    Maps, keyed lists and sets are compared by the entries in git; extra live entries belong to
    other managers (server-side apply). Other lists are compared whole, quantities by value. A null
    names nothing. The API version is how an object is read, not what it says.
    """
    found = _compare(desired, live, node, ())
    return tuple(c for c in found if c.path != ("apiVersion",) and not _left_out(c))


def kept_differences(
    desired: Obj, before: Obj | None, reply: Obj, node: Node | None
) -> frozenset[FieldPath]:
    """Paths on which the server differs from `desired` after it was applied: its normal form.

    `before` is the object as it was; where applying changed nothing its own differences count.
    """
    kept = owned_differences(desired, reply, node)
    if before is not None and _version(before) == _version(reply):
        kept += owned_differences(desired, before, node)
    return frozenset(change.path for change in kept)


def _version(obj: Obj) -> Any:
    return obj["metadata"].get("resourceVersion")


def all_differences(before: Obj, after: Obj, node: Node | None) -> tuple[FieldChange, ...]:
    """Every field that differs between two versions of git, additions and removals included."""
    forward = {c.path: c for c in _compare(after, before, node, ())}
    for change in _compare(before, after, node, ()):
        forward.setdefault(
            change.path, FieldChange(path=change.path, before=change.after, after=change.before)
        )
    return sorted_fields(forward.values())


def sorted_fields(changes: Iterable[FieldChange]) -> tuple[FieldChange, ...]:
    """Return changes in the order of their paths."""
    return tuple(sorted(changes, key=lambda change: _sortable(change.path)))


def _sortable(path: FieldPath) -> tuple[str, ...]:
    return tuple(f"{part:06d}" if isinstance(part, int) else part for part in path)


def _compare(want: Any, live: Any, node: Node | None, path: FieldPath) -> Iterator[FieldChange]:
    if path in _SERVER_OWNED or want is None:
        return
    if _is_map(want) and _is_map(live):
        for key in sorted(want):
            wanted, there = want[key], live.get(key, MISSING)
            if type(wanted) is str and wanted == there:
                continue  # most are, and need no words
            child = node.child(key) if node else None
            yield from _compare(wanted, there, child, (*path, key))
    elif _is_list(want) and _is_list(live):
        yield from _compare_lists(want, live, node, path)
    elif not same_meaning(want, live, path):
        yield FieldChange(path=path, before=live, after=want)


def _is_map(value: Any) -> bool:
    return type(value) is dict or isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    kind = type(value)
    if kind is list or kind is str or kind is int:
        return kind is list
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _compare_lists(
    want: Sequence[Any], live: Sequence[Any], node: Node | None, path: FieldPath
) -> Iterator[FieldChange]:
    keys = _list_keys(want, live, node)
    items = node.items if node else None
    if node and node.list_type == "set":
        if any(item not in live for item in want):
            yield FieldChange(path=path, before=live, after=want)
    elif keys:
        found = {_identity(item, keys): item for item in live}
        for index, item in enumerate(want):
            other = found.get(_identity(item, keys), MISSING)
            yield from _compare(item, other, items, (*path, index))
    elif len(want) != len(live):
        yield FieldChange(path=path, before=live, after=want)
    else:
        for index, (item, other) in enumerate(zip(want, live, strict=True)):
            yield from _compare(item, other, items, (*path, index))


def _list_keys(want: Sequence[Any], live: Sequence[Any], node: Node | None) -> tuple[str, ...]:
    """Keys that identify items: the schema's, or `name` where every item has one that is text."""
    if node and node.list_type == "map" and node.list_keys:
        return tuple(node.list_keys)
    if node and node.list_type == "atomic":
        return ()
    everything = [*want, *live]
    names = [item.get("name") if isinstance(item, Mapping) else None for item in everything]
    named = bool(names) and all(isinstance(name, str) and name for name in names)
    unique = named and len(set(names[: len(want)])) == len(want)
    return ("name",) if named and unique else ()


def _identity(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    if not isinstance(item, Mapping):
        return (repr(item),)
    defaults = {"protocol": "TCP"}
    return tuple(item.get(key, defaults.get(key)) for key in keys)


def same_meaning(want: Any, live: Any, path: FieldPath) -> bool:
    """Return whether two leaves mean the same to the API server."""
    if want == live and isinstance(want, bool) == isinstance(live, bool):
        return True
    if live is MISSING or live is None:  # an empty list comes back as null where Go keeps a null
        return want is None or want in ({}, [], "")
    if isinstance(want, int | float) and isinstance(live, int | float):
        return not isinstance(want, bool) and not isinstance(live, bool) and want == live
    if _holds_quantity(path):
        return _value(want) is not None and _value(want) == _value(live)
    return False


def _left_out(change: FieldChange) -> bool:
    """Return whether the API server shows nothing where git has a false or a zero."""
    zero = change.after is False or (type(change.after) is int and change.after == 0)
    return zero and change.before is MISSING and change.path[-1] in OMITTED_ZEROS


def _holds_quantity(path: FieldPath) -> bool:
    last = path[-1] if path else ""
    return last in _QUANTITY_FIELDS or (len(path) > 1 and path[-2] in _QUANTITY_PARENTS)


def _value(leaf: Any) -> Fraction | None:
    try:
        return parse_quantity(leaf).value
    except ValueError:
        return None
