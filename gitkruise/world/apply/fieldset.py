"""Sets of field paths as server-side apply keeps them, and their FieldsV1 form.

A FieldSet is a tree of plain dicts: an element (`f:name`, `k:{"name":"web"}`, `v:"x"`) leads to
the set below it; the key "." says that the path itself is a member. FieldsV1 differs in one
point only: a member without children is written `{}` there.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

FieldSet: TypeAlias = "Mapping[str, FieldSet]"
SELF: Final = "."
MEMBER: Final[FieldSet] = {SELF: {}}
NOTHING: Final[FieldSet] = {}


def field(name: str) -> str:
    """Element of a map entry."""
    return "f:" + name


def value(item: Any) -> str:
    """Element of an entry of a set list."""
    return "v:" + _json(item)


def keyed(keys: Mapping[str, Any]) -> str:
    """Element of an entry of a map list."""
    pairs = [f"{_json(name)}:{_json(item)}" for name, item in sorted(keys.items())]
    return "k:{" + ",".join(pairs) + "}"


def _json(item: Any) -> str:
    if item.__class__ is str:
        return encode_basestring(item)
    if item.__class__ is int:
        return str(item)
    return json.dumps(item, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def path_set(paths: Iterable[Sequence[str]]) -> FieldSet:
    """The set with exactly these members."""
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[SELF] = {}
    return root


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right or left is right:
        return left or right
    out = dict(left)
    for element, below in right.items():
        out[element] = union(out[element], below) if element in out else below
    return out


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    out: dict[str, FieldSet] = {}
    for element, below in left.items():
        if element not in right:
            continue
        if element == SELF:
            out[SELF] = NOTHING
        elif both := intersection(below, right[element]):
            out[element] = both
    return out


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of `left` that are not members of `right`."""
    if not left or not right:
        return left
    out: dict[str, FieldSet] = {}
    for element, below in left.items():
        if element not in right:
            out[element] = below
        elif element != SELF and (rest := difference(below, right[element])):
            out[element] = rest
    return out


def without_below(left: FieldSet, right: FieldSet) -> FieldSet:
    """`left` without the members of `right` and everything below them."""
    out: dict[str, FieldSet] = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            out[element] = below
        elif SELF not in other and (rest := without_below(below, other)):
            out[element] = rest
    return out


def members(fields: FieldSet, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every member; those of one level come before everything below them, as the server walks."""
    elements = [element for element in _in_order(fields) if element != SELF]
    out = [(*at, element) for element in elements if SELF in fields[element]]
    for element in elements:
        out += members(fields[element], (*at, element))
    return out


def from_fields_v1(fields: Mapping[str, Any]) -> FieldSet:
    """Parse a FieldsV1 document (its root is never a member)."""
    return {
        element: MEMBER if not below else from_fields_v1(below)
        for element, below in fields.items()
        if element != SELF
    } | ({SELF: NOTHING} if SELF in fields else {})


def to_fields_v1(fields: FieldSet) -> dict[str, Any]:
    """The FieldsV1 document of a set, elements in the server's order."""
    out: dict[str, Any] = {}
    for element in _in_order(fields):
        below = fields[element]
        plain = below is MEMBER or element == SELF or below == MEMBER
        out[element] = {} if plain else to_fields_v1(below)
    return out


def touches(raw: Mapping[str, Any], fields: FieldSet) -> bool:
    """Return whether a FieldsV1 document has any member of `fields`; walks only `fields`."""
    for element, inner in fields.items():
        other = raw.get(element) if element != SELF else None
        if other is None:
            continue
        if SELF in inner and (not other or SELF in other):
            return True
        if other and touches(other, inner):
            return True
    return False


def covers(raw: Mapping[str, Any], fields: FieldSet) -> bool:
    """Return whether a FieldsV1 document has every member of `fields`."""
    for element, inner in fields.items():
        if element == SELF:
            continue
        other = raw.get(element)
        if other is None or (SELF in inner and other and SELF not in other):
            return False
        if not covers(other, inner):
            return False
    return True


def _in_order(fields: FieldSet) -> list[str]:
    """Elements as the server sorts them: as texts, but those by index come last."""
    names = sorted(fields)
    at = bisect_left(names, "i:")
    return sorted(names, key=_order) if at < len(names) and names[at][0] == "i" else names


def _order(element: str) -> tuple[int, str]:
    return (".fkvi".index(element[0]), element)


def printed(path: Sequence[str]) -> str:
    """A path as conflicts name it: `.spec.containers[name="web"].image`."""
    return "".join(map(_printed_element, path))


def _printed_element(element: str) -> str:
    mark, text = element[0], element[2:]
    if mark == "f":
        return "." + text
    if mark == "k":
        pairs = (f"{key}={_json(val)}" for key, val in sorted(json.loads(text).items()))
        return "[" + ",".join(pairs) + "]"
    return f"[={text}]" if mark == "v" else f"[{text}]"
