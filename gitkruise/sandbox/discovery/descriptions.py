"""Texts of `kubectl explain`, added to OpenAPI v3 documents when a client asks for one.

Schemas are recorded without texts, because nothing but `explain` reads them. The texts of built-in
kinds and of OpenKruise's are our own words, read once; those of built-in kinds cover every kind and
the fields that people ask for. Kinds of other definitions bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gitkruise.kube.system.package_data import KRUISE_GROUPS, read_json

GVK: Final = "x-kubernetes-group-version-kind"
_REF: Final = "$ref"
Schema = Mapping[str, Any]
Texts = Mapping[str, str]  # by property; "" is the schema itself, `a.b` is b of a


def described(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """The components of a document with their texts."""
    return {name: _with_texts(schema, _texts_of(name, schema)) for name, schema in schemas.items()}


def _texts_of(name: str, schema: Schema) -> Texts:
    for entry in schema.get(GVK) or ():
        if entry["group"] in KRUISE_GROUPS:
            return _kruise().get(entry["kind"], {})
    return _kubernetes().get(name, {})


def _with_texts(schema: Schema, texts: Texts, at: str = "") -> Schema:
    """`schema` with the text at `at` and those below it; items of a list have that of the list."""
    if not texts:
        return schema
    out = dict(schema)
    if at in texts and not schema.get("description"):
        if _REF in out:
            out["allOf"] = [{_REF: out.pop(_REF)}]
        out["description"] = texts[at]
    if properties := schema.get("properties"):
        below = f"{at}." if at else ""
        out["properties"] = {
            name: _with_texts(child, texts, f"{below}{name}") for name, child in properties.items()
        }
    if isinstance(items := schema.get("items"), Mapping) and items.get("properties"):
        mine = {path: text for path, text in texts.items() if path != at}
        out["items"] = _with_texts(items, mine, at)
    return out


@cache
def _kubernetes() -> Mapping[str, Texts]:
    found: Mapping[str, Texts] = read_json("descriptions", "kubernetes.json")
    return found


@cache
def _kruise() -> Mapping[str, Texts]:
    found: Mapping[str, Texts] = read_json("descriptions", "kruise.json")
    return found
