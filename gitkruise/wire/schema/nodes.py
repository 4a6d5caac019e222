"""Compiled schemas: one Node a field, made from OpenAPI v3 and CRD schemas when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from gitkruise.wire.schema.patterns import CompiledPattern, compile_pattern

Raw: TypeAlias = Mapping[str, Any]
Lookup: TypeAlias = Callable[[str], Raw]  # component name -> raw schema; KeyError if there is none

MISSING: Final = object()
REF_PREFIX: Final = "#/components/schemas/"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
OBJECT_META: Final = _META + "ObjectMeta"
_OPAQUE_MAP: Final = frozenset({_META + "FieldsV1", _META + "Patch"})
_RAW_EXTENSION: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_NUMBERS: Final = (
    "minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties",
)  # fmt: skip

_CAREFREE: Final[Mapping[tuple[str, ...], type]] = {("string",): str, ("boolean",): bool}


class Components:
    """The named schemas of a document, and the Nodes already compiled from them.

    `lookup` gives a component's raw schema by name and raises KeyError when there is none.
    """

    __slots__ = ("_lookup", "_nodes")

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._nodes: dict[tuple[str, str], Node] = {}

    def node(self, name: str, around: Raw) -> Node:
        """Node of component `name` with what a reference adds (a default, list keys)."""
        key = (name, repr(around) if around else "")
        found = self._nodes.get(key)
        if found is None:
            inner = self._lookup(name)
            found = Node({**inner, **around} if around else inner, self, name)
            self._nodes[key] = found
        return found


class Node:
    """One field as the API server's schema defines it.

    Plain attributes are read from the raw schema directly; `items`, `additional` and children are
    compiled when first asked for and kept, so a recursive definition is a graph and a large
    document costs only what is visited. Equal questions get the same Node.

    type               "object" | "array" | "string" | "integer" | "number" | "boolean" | "" (any)
    types              the JSON types allowed (two for int-or-string and quantities, none for any)
    additional         Node of a map's values; None when the map has named fields or is opaque
    preserve_unknown   fields no schema names are kept (and not looked into)
    list_type          "atomic" | "set" | "map" (server-side apply); CRD lists default to "atomic"
    list_keys          keys of a "map" list; those with a default may be missing in an element
    map_type           "granular" | "atomic"
    merge_key, merge_strategy   strategic merge patch (x-kubernetes-patch-*), "" without one
    default            the schema's default, or MISSING
    component          name of the component this node was compiled from, "" for an inline schema
    combines           allOf, anyOf, oneOf or not say more about the value
    bounded            a format, a pattern or limits say more about a text or a number
    carefree           a class whose values keep every rule of this node (str, bool), or None
    """

    __slots__ = (
        "_children", "_components", "_defaulted", "_fills", "_items", "_properties", "_values",
        "additional_allowed", "all_of", "any_of", "bounded", "carefree", "combines", "component",
        "default", "embedded_resource", "enum",
        "exclusive_maximum", "exclusive_minimum", "format", "int_or_string", "limits", "list_keys",
        "list_type", "map_type", "merge_key", "merge_strategy", "nullable", "one_of", "pattern",
        "preserve_unknown", "raw", "required", "type", "types", "unless",
    )  # fmt: skip

    def __init__(self, raw: Raw, components: Components, component: str = "") -> None:
        self.raw = raw
        self.component = component
        self._components = components
        self._children: dict[str, Node] = {}
        self._items: Node | None = None
        self._fills: bool | None = None
        self._defaulted: tuple[tuple[str, Node], ...] | None = None
        self._values: Node | None = None
        self._properties: Raw = raw.get("properties") or {}
        self._read_shape(raw)
        self._read_extensions(raw)
        self._read_limits(raw)

    def _read_shape(self, raw: Raw) -> None:
        quantity = self.component == QUANTITY
        self.int_or_string: bool = bool(
            raw.get("x-kubernetes-int-or-string") or raw.get("format") == "int-or-string"
        )
        self.type: str = raw.get("type") or ""
        self.types: tuple[str, ...] = (self.type,) if self.type else ()
        if self.int_or_string:
            self.types = ("integer", "string")
        elif quantity:
            self.types = ("string", "number")
        self.format: str = "quantity" if quantity else raw.get("format") or ""
        self.nullable: bool = bool(raw.get("nullable"))
        self.default: Any = raw.get("default", MISSING)
        self.enum: tuple[Any, ...] = tuple(raw.get("enum") or ())
        self.required: tuple[str, ...] = tuple(raw.get("required") or ())
        extra = raw.get("additionalProperties")
        self.additional_allowed: bool = extra is not None and extra is not False

    def _read_extensions(self, raw: Raw) -> None:
        untyped = not self.types and not self._properties and not self.additional_allowed
        self.preserve_unknown: bool = bool(
            raw.get("x-kubernetes-preserve-unknown-fields")
            or self.component in _OPAQUE_MAP
            or self.component == _RAW_EXTENSION
            or (self.component and untyped)
            or raw.get("additionalProperties") is True
        )
        self.embedded_resource: bool = bool(raw.get("x-kubernetes-embedded-resource"))
        self.list_type: str = raw.get("x-kubernetes-list-type") or "atomic"
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())
        whole = "atomic" if self.component == _RAW_EXTENSION else "granular"
        self.map_type: str = raw.get("x-kubernetes-map-type") or whole
        self.merge_key: str = raw.get("x-kubernetes-patch-merge-key") or ""
        self.merge_strategy: str = raw.get("x-kubernetes-patch-strategy") or ""

    def _read_limits(self, raw: Raw) -> None:
        self.limits: Mapping[str, float] = {k: raw[k] for k in _NUMBERS if raw.get(k) is not None}
        self.exclusive_minimum: bool = bool(raw.get("exclusiveMinimum"))
        self.exclusive_maximum: bool = bool(raw.get("exclusiveMaximum"))
        self.pattern: CompiledPattern | None = (
            compile_pattern(raw["pattern"]) if raw.get("pattern") else None
        )
        plain = self.int_or_string or self.format == "quantity"
        self.all_of: tuple[Node, ...] = () if plain else self._branches("allOf")
        self.any_of: tuple[Node, ...] = () if plain else self._branches("anyOf")
        self.one_of: tuple[Node, ...] = () if plain else self._branches("oneOf")
        self.unless: Node | None = Node(raw["not"], self._components) if raw.get("not") else None
        self.combines = bool(self.all_of or self.any_of or self.one_of or self.unless)
        self.bounded = bool(self.limits or self.pattern or self.format)
        ruled = self.combines or self.enum or self.bounded
        self.carefree: type | None = None if ruled else _CAREFREE.get(self.types)

    def _branches(self, word: str) -> tuple[Node, ...]:
        return tuple(Node(branch, self._components) for branch in self.raw.get(word) or ())

    def __repr__(self) -> str:
        return f"Node({self.component or self.type or 'any'}, {len(self._properties)} fields)"

    @property
    def names(self) -> Mapping[str, Any]:
        """The named fields; only keys are meant to be read."""
        return self._properties

    @property
    def has_fields(self) -> bool:
        """Return whether this is a map with named fields (a struct in Go)."""
        return bool(self._properties)

    def child(self, key: str) -> Node | None:
        """Node of the named field or map value `key`; None when nothing is known of it."""
        found = self._children.get(key)
        if found is not None:
            return found
        raw = self._properties.get(key)
        if raw is None:
            return self.additional
        self._children[key] = found = resolve(raw, self._components)
        return found

    def children(self) -> Iterator[tuple[str, Node]]:
        """Every named field with its Node, in document order."""
        for key in self._properties:
            child = self.child(key)
            assert child is not None
            yield key, child

    def defaulted(self) -> tuple[tuple[str, Node], ...]:
        """The named fields that have a default."""
        if self._defaulted is None:
            names = [key for key, raw in self._properties.items() if "default" in raw]
            found = ((key, self.child(key)) for key in names)
            self._defaulted = tuple((key, child) for key, child in found if child is not None)
        return self._defaulted

    @property
    def fills(self) -> bool:
        """Return whether a CRD's schema, which has no references, may have a default anywhere."""
        if self._fills is None:
            self._fills = _mentions_default(self.raw)
        return self._fills

    @property
    def items(self) -> Node | None:
        """Node of a list's elements."""
        if self._items is None and isinstance(self.raw.get("items"), Mapping):
            self._items = resolve(self.raw["items"], self._components)
        return self._items

    @property
    def additional(self) -> Node | None:
        """Node of the values of a map without named fields."""
        raw = self.raw.get("additionalProperties")
        if self._values is None and isinstance(raw, Mapping):
            self._values = resolve(raw, self._components)
        return self._values


def resolve(raw: Raw, components: Components) -> Node:
    """The Node of a raw schema; `$ref` and `allOf: [$ref]` with a default are seen through.

    Raises KeyError when a component is named that the document does not have.
    """
    wrapped = raw.get("allOf") or ()
    target: str = raw.get("$ref") or "".join(part.get("$ref", "") for part in wrapped[:1])
    if not target or len(wrapped) > 1:
        return Node(raw, components)
    around = {key: value for key, value in raw.items() if key not in ("$ref", "allOf")}
    return components.node(target.removeprefix(REF_PREFIX), around)


def crd_schema(raw: Raw) -> Raw:
    """A CRD version's openAPIV3Schema with apiVersion, kind and metadata typed."""
    properties = {
        **(raw.get("properties") or {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REF_PREFIX + OBJECT_META},
    }
    return {**raw, "type": "object", "properties": properties}


def _mentions_default(raw: Any) -> bool:
    if isinstance(raw, Mapping):
        return "default" in raw or any(map(_mentions_default, raw.values()))
    return isinstance(raw, list | tuple) and any(map(_mentions_default, raw))
