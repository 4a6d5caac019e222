"""Types inside the schemas of CustomResourceDefinitions, looked at before a schema is compiled.

The schema of CustomResourceDefinition itself leaves `items` and `additionalProperties` open, which
may be a schema or something else; what is below them is checked by the same table here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gitkruise.errors import Problem
from gitkruise.wire.schema.nodes import Components, Node
from gitkruise.wire.schema.validation import TYPE_INVALID, validate

_ANY: Final[Mapping[str, Any]] = {}
_OBJECT: Final = {"type": "object"}
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "string": (
        "type", "format", "title", "description", "pattern", "id", "$ref", "$schema",
        "x-kubernetes-list-type", "x-kubernetes-map-type",
    ),
    "number": ("minimum", "maximum", "multipleOf"),
    "integer": (
        "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    ),
    "boolean": (
        "nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum",
        "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
    ),
    "object": ("items", "not", "properties"),
}  # fmt: skip
_LISTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "required": {"type": "string"}, "x-kubernetes-list-map-keys": {"type": "string"},
    "enum": _ANY, "allOf": _OBJECT, "anyOf": _OBJECT, "oneOf": _OBJECT,
    "x-kubernetes-validations": _OBJECT,
}  # fmt: skip
_FLAT: Final = Node(
    {
        "type": "object",
        "properties": {
            **{name: {"type": kind} for kind, names in _TYPES.items() for name in names},
            **{name: {"type": "array", "items": items} for name, items in _LISTS.items()},
        },
    },
    Components(dict[str, Any]().__getitem__),
)
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
Steps = tuple[str | int, ...]


def schema_problems(schema: Any, at: Steps, *, most: int) -> Iterator[Problem]:
    """Every value of a schema, and of at most `most` schemas in it, that is of another type than
    it must be, and every reference; `at` is its path. What is below such a value is not looked at.
    """
    stack: list[tuple[Any, Steps]] = [(schema, at)]
    seen = 0
    while stack and seen <= most:
        raw, path = stack.pop()
        seen += 1
        if not isinstance(raw, Mapping):
            yield _no_schema(raw, path)
            continue
        problems = validate(_FLAT, raw, path)
        if raw.get("$ref"):
            problems.append(
                Problem(path, "FieldValueForbidden", "Forbidden: $ref is not supported")
            )
        yield from problems
        if not problems:
            stack += _below(raw, path)


def _below(raw: Mapping[str, Any], path: Steps) -> Iterator[tuple[Any, Steps]]:
    for name, item in (raw.get("properties") or {}).items():
        yield item, (*path, "properties", name)
    for name in _BRANCHES:
        for index, item in enumerate(raw.get(name) or ()):
            yield item, (*path, name, index)
    for name in ("items", "not", "additionalProperties"):
        item = raw.get(name)
        if item is not None and not (name == "additionalProperties" and isinstance(item, bool)):
            yield item, (*path, name)


def _no_schema(value: Any, path: Steps) -> Problem:
    words = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
    kind = words.get(type(value), "array")
    field = Problem(path, "", "").field
    message = f'Invalid value: "{kind}": {field} in body must be of type object: "{kind}"'
    return Problem(path, TYPE_INVALID, message)
