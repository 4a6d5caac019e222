"""Is a value what its schema says? Every broken rule, in the API server's words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, TypeAlias

from gitkruise.errors import BadRequest, Problem
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.times import parse_duration
from gitkruise.wire.schema.nodes import MISSING, Node
from gitkruise.wire.schema.patterns import CompiledPattern, PatternTooCostly
from gitkruise.wire.values.quantity import parse_quantity

MAX_DEPTH: Final = 200
REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
DUPLICATE: Final = "FieldValueDuplicate"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"

Steps: TypeAlias = tuple[str | int, ...]

_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_INT_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


_TYPE_WORDS: Final[Mapping[type, str]] = {
    type(None): "null", bool: "boolean", int: "integer", str: "string",
    list: "array", tuple: "array", dict: "object",
}  # fmt: skip


def json_type(value: Any) -> str:
    """The JSON Schema word for the type of a decoded value; a whole float is an integer."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _TYPE_WORDS.get(type(value), "object")  # mappings, and RawJSON, which is always one


def validate(node: Node, value: Any, at: Steps = ()) -> list[Problem]:
    """Every way in which `value` breaks its schema, in document order; unknown fields do not count.

    `at` is the path of `value` in its object, for the problems' paths and messages.

    Wording and cause reasons are kube-openapi's for custom resources; built-in kinds are checked
    by the same rules (types, required, enum), which is what decoding and validation refuse there.
    Stricter than the server in one place: it lets a custom resource exceed int32, which no Go
    client can then decode. CEL rules (x-kubernetes-validations) are not evaluated.
    """
    found: list[Problem] = []
    _check(node, value, at, found)
    return found


def _check(node: Node, value: Any, at: Steps, found: list[Problem]) -> None:
    """Add every problem of `value`. Runs for every field of every write."""
    if len(at) > MAX_DEPTH:
        raise BadRequest(f"the object nests deeper than {MAX_DEPTH} levels")
    if value is None and (node.nullable or not node.types):
        return
    kind = _TYPE_WORDS.get(value.__class__) or json_type(value)
    if kind not in node.types and (wrong := _wrong_type(node, kind, at)) is not None:
        found.append(wrong)
        return
    if node.enum and value not in node.enum:
        found.append(_unsupported(node, value, at))
    if kind == "object":
        if not isinstance(value, RawJSON):
            _object(node, value, at, found)
    elif kind == "array":
        _array(node, value, at, found)
    elif node.bounded and kind in _BY_TYPE:
        found += _BY_TYPE[kind](node, value, at)
    if node.combines:
        _combined(node, value, at, found)


def _wrong_type(node: Node, kind: str, at: Steps) -> Problem | None:
    if not node.types or (kind == "integer" and "number" in node.types):
        return None
    wanted = "integer,string" if node.int_or_string else ",".join(node.types)
    field = Problem(at, "", "").field
    message = f'Invalid value: "{kind}": {field} in body must be of type {wanted}: "{kind}"'
    return Problem(at, TYPE_INVALID, message)


def _unsupported(node: Node, value: Any, at: Steps) -> Problem:
    known = ", ".join(shown(word) for word in node.enum)
    return Problem(
        at, NOT_SUPPORTED, f"Unsupported value: {shown(value)}: supported values: {known}"
    )


def _object(node: Node, value: Mapping[str, Any], at: Steps, found: list[Problem]) -> None:
    if node.required:
        found += [
            Problem((*at, key), REQUIRED, "Required value")
            for key in node.required
            if value.get(key) is None and not _is_given(node, key, value)
        ]
    if node.limits:
        found += _size(node, value, at)
    for key, item in value.items():
        child = node.child(key)
        if child is None or item.__class__ is child.carefree:
            continue
        if item is not None or child.nullable:
            _check(child, item, (*at, key), found)


def _size(node: Node, value: Mapping[str, Any], at: Steps) -> Iterator[Problem]:
    size, limits = len(value), node.limits
    if size > limits.get("maxProperties", size):
        most = int(limits["maxProperties"])
        yield Problem(at, TOO_MANY, f"Too many: {size}: must have at most {most} items")
    if size < limits.get("minProperties", 0):
        least = int(limits["minProperties"])
        yield _invalid(at, size, f"should have at least {least} properties")


def _is_given(node: Node, key: str, value: Mapping[str, Any]) -> bool:
    """Return whether a required field that is null or missing counts as present.
    Defaults of custom resources count: the server applies them before validation. Defaults of
    built-in kinds do not: they are only Go's zero values. Go writes an empty list as null."""
    child = node.child(key)
    if child is None:
        return key in value
    defaulted = child.default is not MISSING and not node.component
    if defaulted or (node.component, key) in _OPTIONAL:
        return True
    empty = child.nullable or (bool(node.component) and child.type == "array")
    return bool(empty and key in value)


def _array(node: Node, value: list[Any], at: Steps, found: list[Problem]) -> None:
    size, limits = len(value), node.limits
    if size > limits.get("maxItems", size):
        most = int(limits["maxItems"])
        found.append(Problem(at, TOO_MANY, f"Too many: {size}: must have at most {most} items"))
    if size < limits.get("minItems", 0):
        least = int(limits["minItems"])
        found.append(_invalid(at, size, f"should have at least {least} items"))
    items = node.items
    if items is None:
        return
    for index, item in enumerate(value):
        if item.__class__ is not items.carefree:
            _check(items, item, (*at, index), found)
    if node.list_type in ("set", "map") and not node.merge_strategy:  # built-in lists may repeat
        found += _duplicates(node, items, value, at)


def _duplicates(node: Node, items: Node, value: list[Any], at: Steps) -> Iterator[Problem]:
    """Each entry that comes again, where it comes the second time."""
    seen: dict[str, int] = {}
    for index, item in enumerate(value):
        identity = list_identity(node, items, item)
        if identity is None:
            continue
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield Problem((*at, index), DUPLICATE, f"Duplicate value: {text}")


def list_identity(node: Node, items: Node, item: Any) -> Any:
    """The unique key of a "set" or "map" list element: the element, or its keys with defaults."""
    if node.list_type == "set":
        return item
    if not isinstance(item, Mapping):
        return None
    out = {}
    for key in node.list_keys:
        child = items.child(key)
        default = None if child is None or child.default is MISSING else child.default
        found = item.get(key, default)
        if found is not None:
            out[key] = found
    return out


def _string(node: Node, value: str, at: Steps) -> Iterator[Problem]:
    limits, size = node.limits, len(value)
    if size > limits.get("maxLength", size):
        most = int(limits["maxLength"])
        yield Problem(at, TOO_LONG, f"Too long: may not be more than {most} bytes")
    if size < limits.get("minLength", 0):
        least = int(limits["minLength"])
        yield _invalid(at, value, f"should be at least {least} chars long")
    if node.pattern is not None:
        yield from _mismatch(node.pattern, value, at)
    check = _FORMATS.get(node.format)
    if check is not None and not check(value):
        yield _invalid(at, value, f"must be of type {node.format}: {shown(value)}")


def _mismatch(pattern: CompiledPattern, value: str, at: Steps) -> Iterator[Problem]:
    try:
        if not pattern.search(value):
            yield _invalid(at, value, f"should match '{pattern.source}'")
    except PatternTooCostly as error:
        yield _invalid(at, value, f"cannot be compared with '{pattern.source}': {error}")


def _number(node: Node, value: float, at: Steps) -> Iterator[Problem]:
    limits = node.limits
    least, most = limits.get("minimum"), limits.get("maximum")
    if least is not None and (value < least or (node.exclusive_minimum and value == least)):
        word = "greater than" if node.exclusive_minimum else "greater than or equal to"
        yield _invalid(at, value, f"should be {word} {shown(least)}")
    if most is not None and (value > most or (node.exclusive_maximum and value == most)):
        word = "less than" if node.exclusive_maximum else "less than or equal to"
        yield _invalid(at, value, f"should be {word} {shown(most)}")
    step = limits.get("multipleOf")
    if step is not None and step > 0 and Fraction(str(value)) % Fraction(str(step)):
        yield _invalid(at, value, f"should be a multiple of {shown(step)}")
    low, high = _INT_RANGES.get(node.format, (value, value))
    if not low <= value <= high or (node.format == "quantity" and not _is_quantity(value)):
        yield _invalid(at, value, f"must be of type {node.format}: {shown(value)}")


def _combined(node: Node, value: Any, at: Steps, found: list[Problem]) -> None:
    for branch in node.all_of:
        _check(branch, value, at, found)
    if node.any_of and not any(not validate(branch, value) for branch in node.any_of):
        sentence = "must validate at least one schema (anyOf)"
        found.append(Problem(at, INVALID, _combination(at, value, sentence)))
    if node.one_of and sum(not validate(branch, value) for branch in node.one_of) != 1:
        sentence = "must validate one and only one schema (oneOf)"
        found.append(Problem(at, INVALID, _combination(at, value, sentence)))
    if node.unless is not None and not validate(node.unless, value):
        sentence = "must not validate the schema (not)"
        found.append(Problem(at, INVALID, _combination(at, value, sentence)))


def _combination(at: Steps, value: Any, sentence: str) -> str:
    return f'Invalid value: {shown(value)}: "{Problem(at, "", "").field}" {sentence}'


def _invalid(at: Steps, value: Any, sentence: str) -> Problem:
    field = Problem(at, "", "").field
    return Problem(at, INVALID, f"Invalid value: {shown(value)}: {field} in body {sentence}")


def shown(value: Any) -> str:
    """A value as Kubernetes quotes it in a message: strings quoted, the rest as compact JSON."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)


def _is_date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def _is_quantity(text: str | float) -> bool:
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _is_date_time,
    "duration": _is_duration,
    "quantity": _is_quantity,
}
# Fields that the API of Kubernetes calls required, and its server fills in or does without.
_OPTIONAL: Final = frozenset({
    ("io.k8s.api.rbac.v1.RoleRef", "apiGroup"),
    ("io.k8s.api.scheduling.v1.PriorityClass", "value"),
    ("io.k8s.api.discovery.v1.EndpointSlice", "endpoints"),
})  # fmt: skip
_BY_TYPE: Final[Mapping[str, Callable[[Node, Any, Steps], Iterator[Problem]]]] = {
    "string": _string, "integer": _number, "number": _number,
}  # fmt: skip
