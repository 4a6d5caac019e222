"""Schemas of CustomResourceDefinitions: they have to be structural.

Source: ValidateStructural and ValidateCustomResourceDefinition of apiextensions-apiserver 1.34,
without the completeness of nested validations, and the values of defaults. Types inside a schema
are right before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final

from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, required, unsupported
from gitkruise.errors import MapKey, Problem
from gitkruise.wire.primitives.names import Obj

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("additionalItems", "definitions", "dependencies", "id", "patternProperties")
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
# What no validation inside of allOf, anyOf, oneOf and not may say, and how it is to be instead.
_OUTSIDE: Final = {
    "type": "empty", "default": "undefined", "title": "empty", "description": "empty",
    "nullable": "false", "additionalProperties": "undefined",
    "x-kubernetes-preserve-unknown-fields": "false", "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false", "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined", "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}  # fmt: skip
_LIST, _KEYS, _MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_EITHER_TYPE, _KEEP = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"


class _Level(Enum):
    """The place of a schema; the value says where a type is missed."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"
    NESTED = ""  # a validation inside of allOf, anyOf, oneOf or not
    EITHER = "-"  # the same, and its anyOf may be that of an integer or a string


def structural_problems(schema: Obj, at: Path) -> Iterator[Problem]:
    """Every rule that a schema, whose path is `at`, breaks anywhere."""
    stack: list[tuple[Obj, Path, _Level]] = [(schema, at, _Level.ROOT)]
    while stack:
        raw, path, level = stack.pop()
        yield from _keywords(raw, path)
        if level in (_Level.NESTED, _Level.EITHER):
            yield from _nested(raw, path)
        else:
            yield from _specified(raw, path, level)
            yield from _list(raw, path)
            yield from _map(raw, path)
        stack += reversed(list(_below(raw, path, level)))


def _below(raw: Obj, path: Path, level: _Level) -> Iterator[tuple[Obj, Path, _Level]]:
    inner = level in (_Level.NESTED, _Level.EITHER)
    for name, item in (raw.get("properties") or {}).items():
        where = _Level.NESTED if inner else _Level.FIELD
        yield item, (*path, "properties", MapKey(name)), where
    if raw.get("items") is not None:
        yield raw["items"], (*path, "items"), _Level.NESTED if inner else _Level.ITEM
    extra = raw.get("additionalProperties")
    if not inner and extra is not None and not isinstance(extra, bool):
        yield extra, (*path, "additionalProperties"), _Level.FIELD
    for word in _BRANCHES:
        branches = raw.get(word) or ()
        if word == "anyOf" and branches == _EITHER and level is not _Level.NESTED:
            continue
        for index, item in enumerate(branches):
            first = word == "allOf" and index == 0 and not inner
            yield item, (*path, word, index), _Level.EITHER if first else _Level.NESTED
    if raw.get("not") is not None:
        yield raw["not"], (*path, "not"), _Level.NESTED


def _keywords(raw: Obj, path: Path) -> Iterator[Problem]:
    """Words and types that no schema may have."""
    for word in _UNSUPPORTED:
        if raw.get(word):
            yield forbidden((*path, word), f"{word} is not supported")
    if raw.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden((*path, "uniqueItems"), text)
    if raw.get("type") and raw["type"] not in _TYPES:
        yield unsupported((*path, "type"), raw["type"], _TYPES)
    if raw.get("additionalProperties") not in (None, True) and raw.get("properties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden((*path, "additionalProperties"), text)
    if raw.get(_KEEP) is False:
        yield invalid((*path, _KEEP), raw[_KEEP], "must be true or undefined")


def _nested(raw: Obj, path: Path) -> Iterator[Problem]:
    for word, wanted in _OUTSIDE.items():
        if raw.get(word) not in (None, "", False) and raw.get(word) != []:
            yield forbidden((*path, word), f"must be {wanted} to be structural")
    if "metadata" in (raw.get("properties") or {}):
        text = "must not be specified in a nested context"
        yield forbidden((*path, "properties", MapKey("metadata")), text)


def _specified(raw: Obj, path: Path, level: _Level) -> Iterator[Problem]:
    type_, at = raw.get("type") or "", (*path, "type")
    if type_ == "array" and raw.get("items") is None:
        yield required((*path, "items"), "must be specified")
    if raw.get("additionalProperties") is not None and level is _Level.ROOT:
        yield forbidden((*path, "additionalProperties"), "must not be used at the root")
    if raw.get(_EITHER_TYPE):
        text = f"must be false if {_EITHER_TYPE} is true"
        yield from (invalid((*path, w), raw[w], text) for w in (_KEEP, _EMBEDDED) if raw.get(w))
    if raw.get(_EMBEDDED) and type_ != "object":
        yield _other(at, type_, f"must be object if {_EMBEDDED} is true")
    elif not type_ and not raw.get(_EITHER_TYPE) and not raw.get(_KEEP):
        yield required(at, level.value)
    elif level is _Level.ROOT and type_ not in ("", "object"):
        yield invalid(at, type_, "must be object at the root")
    if raw.get(_EMBEDDED):
        yield from _embedded(raw, path)
    if raw.get(_EMBEDDED) or level is _Level.ROOT:
        yield from _type_meta(raw, path, level)


def _embedded(raw: Obj, path: Path) -> Iterator[Problem]:
    if raw.get("additionalProperties") is not None:
        text = f"must not be used if {_EMBEDDED} is set"
        yield forbidden((*path, "additionalProperties"), text)
    if not raw.get(_KEEP) and not raw.get("properties"):
        text = f"must not be empty if {_EMBEDDED} is true without {_KEEP}"
        yield required((*path, "properties"), text)


def _type_meta(raw: Obj, path: Path, level: _Level) -> Iterator[Problem]:
    """The fields of every object: their types, and of the root's metadata names alone."""
    fields = raw.get("properties") or {}
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        type_ = (fields.get(name) or {}).get("type") or ""
        if name in fields and type_ != wanted:
            at: Path = (*path, "properties", MapKey(name), "type")
            yield invalid(at, type_, f"must be {wanted}")
    meta, here = fields.get("metadata") or {}, (*path, "properties", MapKey("metadata"))
    if level is not _Level.ROOT or not meta:
        return
    if meta.get("default") is not None:
        yield forbidden((*here, "default"), "must not be set in top-level metadata")
    names = set(meta.get("properties") or ())
    more = {word for word, value in meta.items() if value} - {"type", "properties", "default"}
    if more & _OUTSIDE.keys() or not names <= {"name", "generateName"}:
        text = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield forbidden(here, text)


def _list(raw: Obj, path: Path) -> Iterator[Problem]:
    kind, keys, type_ = raw.get(_LIST), raw.get(_KEYS) or [], raw.get("type") or ""
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield unsupported((*path, _LIST), kind, ("atomic", "set", "map"), as_listed=True)
    if kind is not None and type_ != "array":
        yield _other((*path, "type"), type_, f"must be array if {_LIST} is specified")
    if keys and kind != "map":
        yield _other((*path, _LIST), kind or "", f"must be map if {_KEYS} is non-empty")
    items = raw.get("items")
    if type_ != "array" or items is None:
        return
    if kind == "map":
        yield from _list_map(items, keys, path)
    elif kind == "set":
        yield from _set_items(items, (*path, "items"))


def _set_items(items: Obj, at: Path) -> Iterator[Problem]:
    if items.get("nullable"):
        yield forbidden((*at, "nullable"), f"cannot be nullable when {_LIST} is set")
    text = f"must be atomic as item of a list with {_LIST}=set"
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        yield invalid((*at, _MAP), items.get(_MAP), text)
    if items.get("type") == "array" and items.get(_LIST) not in (None, "atomic"):
        yield invalid((*at, _LIST), items.get(_LIST), text)


def _list_map(items: Obj, keys: Sequence[str], path: Path) -> Iterator[Problem]:
    """The keys of a list that is a map are fields of its items, of one value, and always there."""
    at, parent = (*path, "items"), f"parent array's {_LIST} is map"
    if not keys:
        yield required((*path, _KEYS), f"must not be empty if {_LIST} is map")
    if items.get("type") != "object":
        yield invalid((*at, "type"), items.get("type") or "", f"must be object if {parent}")
    if len(set(keys)) < len(keys):
        yield invalid((*path, _KEYS), list(keys), "must not contain duplicate entries")
    fields = items.get("properties") or {}
    if not set(keys) <= fields.keys():
        yield invalid((*path, _KEYS), list(keys), "entries must all be names of item properties")
    member = f"this property is in {_KEYS}, so it"
    for key in keys:
        field: Any = fields.get(key) or {}
        here: Path = (*at, "properties", MapKey(key))
        if field.get("type") in ("array", "object"):
            yield invalid((*here, "type"), field["type"], f"must be a scalar type if {parent}")
        if field.get("nullable"):
            yield forbidden((*here, "nullable"), f"{member} cannot be nullable")
        given = field.get("default") is not None or key in (items.get("required") or ())
        if key in fields and not given:
            text = f"{member} must have a default or be a required property"
            yield required((*here, "default"), text)


def _map(raw: Obj, path: Path) -> Iterator[Problem]:
    kind, type_ = raw.get(_MAP), raw.get("type") or ""
    if kind is None:
        return
    if kind not in ("atomic", "granular"):
        yield unsupported((*path, _MAP), kind, ("atomic", "granular"))
    if type_ != "object":
        yield _other((*path, "type"), type_, f"must be object if {_MAP} is specified")


def _other(at: Path, value: str, text: str) -> Problem:
    """A value is another one than it must be, or missing."""
    return invalid(at, value, text) if value else required(at, text)
