"""Values that no Go type can hold, and encoding/json's sentences about them.

A server decodes built-in kinds into structs, and OpenKruise's webhooks do so with its own: a wrong
type, an amount or a time that is none and a number out of range end there, before any rule is
asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from gitkruise.errors import Problem
from gitkruise.wire.schema.nodes import Node
from gitkruise.wire.schema.validation import INVALID, TYPE_INVALID, validate
from gitkruise.wire.values.quantity import GRAMMAR

_GO_TYPES: Final = {"integer": "int32", "boolean": "bool", "number": "float64", "string": "string"}
_SHOWN: Final = {"integer": "number", "boolean": "bool"}
_INTEGERS: Final = frozenset({"int32", "int64"})
_DECODED: Final = frozenset({"quantity", "date-time", *_INTEGERS})


def misfit(root: Node, kind: str, obj: Any) -> str:
    """The sentence about the first value of `obj` that does not fit, or "".

    A null is a field that is not set; an item of a list cannot be one.
    """
    for problem in validate(root, obj):
        why = sentence(root, kind, problem, obj, problem.path)
        item = bool(problem.path) and isinstance(problem.path[-1], int)
        if why and (item or value_at(obj, problem.path) is not None):
            return why
    return ""


def sentence(root: Node, kind: str, problem: Problem, value: Any, path: Sequence[str | int]) -> str:
    """The decoder's sentence about a problem; "" when decoding does not mind it.

    `value` is a part of the object, and `path` leads from there to the spot.
    """
    node = _node_at(root, problem.path)
    if problem.reason == TYPE_INVALID:
        return _mistyped(root, kind, problem, node)
    if problem.reason != INVALID or node is None or node.format not in _DECODED:
        return ""
    if node.format == "quantity":
        return f"quantities must match the regular expression '{GRAMMAR}'"
    if node.format in _INTEGERS:
        return _mistyped(root, kind, problem, node, f"number {value_at(value, path)}")
    return f"parsing time {json.dumps(value_at(value, path))} as RFC 3339: cannot parse it"


def value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _node_at(root: Node, path: Sequence[str | int]) -> Node | None:
    node: Node | None = root
    for step in path:
        if node is not None:
            node = node.items if isinstance(step, int) else node.child(step)
    return node


def _mistyped(root: Node, kind: str, problem: Problem, node: Node | None, found: str = "") -> str:
    """encoding/json's sentence about a value that does not fit its field."""
    at: Node | None = root
    owner, names = kind, list[str]()
    for step in problem.path:
        if at is None:
            break
        if isinstance(step, str) and step in at.names:
            owner = at.component.rpartition(".")[2] or owner
            names.append(step)
        at = at.items if isinstance(step, int) else at.child(step)
    if not found:
        word = problem.message.split('"')[1]
        found = _SHOWN.get(word, word)
    return (
        f"json: cannot unmarshal {found} into Go struct field {owner}.{'.'.join(names)}"
        f" of type {_go_type(node)}"
    )


def _go_type(node: Node | None) -> str:
    """The Go type a field is decoded into, as far as the schema defines it."""
    if node is None:
        return "value"
    if node.items is not None:
        return "[]" + _go_type(node.items)
    if node.additional is not None:
        return "map[string]" + _go_type(node.additional)
    if node.component:
        version, _, name = node.component.rpartition(".")
        return f"{version.rpartition('.')[2]}.{name}"
    return "int64" if node.format == "int64" else _GO_TYPES.get(node.type, node.type)
