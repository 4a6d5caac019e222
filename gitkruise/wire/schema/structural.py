"""Schema rules of an API server: unknown fields, pruning, defaults, checks.

All functions share what they do not change and never touch their input. They follow
apiextensions-apiserver's structural schemas for custom resources; for built-in kinds the same
rules over the published OpenAPI give what decoding into Go types and encoding again gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_not
from typing import Any, Final, TypeAlias

from gitkruise.errors import BadRequest, Problem
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.schema.nodes import MISSING, Components, Node, resolve
from gitkruise.wire.schema.validation import validate

__all__ = [
    "MISSING", "Components", "Node", "prune", "resolve", "unknown_fields", "validate",
    "with_defaults",
]  # fmt: skip

MAX_DEPTH: Final = 200  # levels of nesting; deeper objects are refused before Python's own limit
MAX_SUGGESTIONS: Final = 20  # unknown fields of one object that get one; looking for it is slow
UNKNOWN_FIELD: Final = "FieldValueUnknown"
LEAVES: Final = frozenset({str, int, float, bool, type(None), RawJSON})
_ALWAYS_KNOWN: Final = frozenset({"apiVersion", "kind", "metadata"})

Steps: TypeAlias = tuple[str | int, ...]


def prune(node: Node, value: Any) -> Any:
    """`value` without the fields its schema does not know; the same value when nothing goes.

    Where unknown fields are preserved they stay, and known ones are still pruned inside.
    """
    return _prune(node, value, 0)


def _prune(node: Node, value: Any, depth: int) -> Any:
    _check_depth(depth)
    if isinstance(value, list | tuple):
        items = node.items
        if items is None:
            return value
        pruned = [_prune(items, item, depth + 1) for item in value]
        return pruned if _differs(pruned, value) else value
    if not isinstance(value, (dict, Mapping)):
        return value
    changed: dict[str, Any] = {}
    for key, item in value.items():
        child = node.child(key)
        if child is None:
            if not _keeps(node, key):
                changed[key] = MISSING
        elif item.__class__ not in LEAVES:
            kept = _prune(child, item, depth + 1)
            if kept is not item:
                changed[key] = kept
    if not changed:
        return value
    merged = {key: changed.get(key, item) for key, item in value.items()}
    return {key: item for key, item in merged.items() if item is not MISSING}


def _keeps(node: Node, key: str) -> bool:
    """Return whether a field without a schema is kept."""
    return node.preserve_unknown or (node.embedded_resource and key in _ALWAYS_KNOWN)


def unknown_fields(node: Node, value: Any, at: Steps = ()) -> list[Problem]:
    """Fields that `prune` would drop, in document order, each with the nearest known name.

    `at` is the path of `value` in its object.
    """
    found: list[Problem] = []
    _unknown(node, value, at, found)
    return found


def _unknown(node: Node, value: Any, at: Steps, found: list[Problem]) -> None:
    _check_depth(len(at))
    if isinstance(value, list | tuple):
        items = node.items
        for index, item in enumerate(value if items else ()):
            assert items is not None
            _unknown(items, item, (*at, index), found)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            child = node.child(key)
            if child is not None:
                if item.__class__ not in LEAVES:
                    _unknown(child, item, (*at, key), found)
            elif not _keeps(node, key):
                near = nearest(key, node.names) if len(found) < MAX_SUGGESTIONS else ""
                path = Problem((*at, key), "", "").field
                message = f'unknown field "{path}"'
                found.append(Problem((*at, key), UNKNOWN_FIELD, message, near))


def nearest(word: str, known: Mapping[str, Any]) -> str:
    """The known name that `word` is most likely a slip of, or ""."""
    import difflib  # noqa: PLC0415  only for what is misspelt

    folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(word).lower(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else ""


def with_defaults(node: Node, value: Any) -> Any:
    """`value` with the schema's defaults filled in; the same value when nothing was missing.

    A null where null is not allowed counts as missing: it becomes the default, or goes
    (apiextensions: "nulls for fields that are not nullable are pruned before defaulting").
    """
    return _defaults(node, value, 0)


def _defaults(node: Node, value: Any, depth: int) -> Any:
    _check_depth(depth)
    if isinstance(value, list | tuple):
        return _list_defaults(node, value, depth)
    if not isinstance(value, (dict, Mapping)):
        return value
    out: dict[str, Any] = {}
    changed = False
    for key, item in value.items():
        if item is not None and item.__class__ in LEAVES:
            out[key] = item
            continue
        child = node.child(key)
        new = _filled(child, item, depth) if child is not None else item
        changed = changed or new is not item
        if new is not MISSING:
            out[key] = new
    for key, child in node.defaulted():
        if key not in out:
            out[key] = _defaults(child, child.default, depth + 1)
            changed = True
    return out if changed else value


def _filled(node: Node, item: Any, depth: int) -> Any:
    """The item with defaults; MISSING for a null that neither may be nor has a default."""
    if item is not None and item.__class__ in LEAVES:
        return item
    anything = node.component and not node.types
    if item is None and not node.nullable and not anything:
        if node.default is MISSING:
            return MISSING
        item = node.default
    return _defaults(node, item, depth + 1)


def _list_defaults(node: Node, value: Any, depth: int) -> Any:
    items = node.items
    if items is None:
        return value
    filled = [item if (new := _filled(items, item, depth)) is MISSING else new for item in value]
    return filled if _differs(filled, value) else value


def _differs(new: list[Any], old: Any) -> bool:
    return any(map(is_not, new, old))


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadRequest(f"the object nests deeper than {MAX_DEPTH} levels")
