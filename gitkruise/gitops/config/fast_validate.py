"""Fast path of schema validation: a sure yes for valid documents, otherwise no.

jsonschema is slow to import, so it validates only documents without a yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

_Raw: TypeAlias = Mapping[str, Any]

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
}


def sound(schema: _Raw, value: Any) -> bool:
    """Return whether `value` is certainly valid, by the keywords that gitkruise's schemas use."""
    return _sound(schema, value, schema.get("$defs") or {})


def _sound(schema: _Raw, value: Any, defs: _Raw) -> bool:
    for word, asked in schema.items():
        rule = _RULES.get(word)
        if word not in _SAYS_NOTHING and not (rule and rule(asked, value, schema, defs)):
            return False
    return True


def _ref(asked: str, value: Any, _: _Raw, defs: _Raw) -> bool:
    inner = defs.get(asked.removeprefix("#/$defs/"))
    return inner is not None and _sound(inner, value, defs)


def _type(asked: str | list[str], value: Any, _: _Raw, __: _Raw) -> bool:
    names = [asked] if isinstance(asked, str) else asked
    return any(name in _TYPES and _TYPES[name](value) for name in names)


def _properties(asked: Mapping[str, _Raw], value: Any, _: _Raw, defs: _Raw) -> bool:
    return isinstance(value, dict) and all(
        _sound(asked[name], value[name], defs) for name in asked.keys() & value.keys()
    )


def _additional(asked: bool | _Raw, value: Any, schema: _Raw, defs: _Raw) -> bool:
    others = value.keys() - (schema.get("properties") or {}).keys()
    if isinstance(asked, bool):
        return asked or not others
    return all(_sound(asked, value[name], defs) for name in others)


def _items(asked: _Raw, value: Any, _: _Raw, defs: _Raw) -> bool:
    return isinstance(value, list) and all(_sound(asked, item, defs) for item in value)


def _one_of(asked: list[_Raw], value: Any, _: _Raw, defs: _Raw) -> bool:
    """Return True only if every rule has its own type, so that a second one cannot match."""
    types = [rule.get("type") for rule in asked]
    distinct = all(isinstance(t, str) for t in types) and len(set(types)) == len(types)
    return distinct and any(_sound(rule, value, defs) for rule in asked)


_Rule: TypeAlias = Callable[[Any, Any, _Raw, _Raw], bool]
_SAYS_NOTHING: Final = frozenset({
    "$schema", "$defs", "title", "description", "default", "format",
})  # fmt: skip
_RULES: Final[Mapping[str, _Rule]] = {
    "$ref": _ref,
    "type": _type,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "oneOf": _one_of,
    "required": lambda asked, value, *_: isinstance(value, dict) and value.keys() >= set(asked),
    "enum": lambda asked, value, *_: isinstance(value, str) and value in asked,
    "const": lambda asked, value, *_: isinstance(value, str) and value == asked,
    "minLength": lambda asked, value, *_: isinstance(value, str) and len(value) >= asked,
    "minimum": lambda asked, value, *_: isinstance(value, int) and value >= asked,
    "maximum": lambda asked, value, *_: isinstance(value, int) and value <= asked,
}
