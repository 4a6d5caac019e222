"""OpenAPI v2 (Swagger) of the sandbox, as JSON and as the protobuf that kubectl up to 1.26 reads.

The protobuf messages are those of gnostic's OpenAPIv2.proto; the numbers below are its fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gitkruise import __version__
from gitkruise.kube.client.codec import encode
from gitkruise.sandbox.discovery.openapi_v3 import REF, OpenApiV3, paths_of
from gitkruise.wire.catalog.catalog import Catalog

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
DEFINITIONS: Final = "#/definitions/"
TITLE: Final = "gitkruise sandbox"
_NUMBERS: Final = (("multipleOf", 6), ("maximum", 7), ("minimum", 9))
_COUNTS: Final = (
    ("maxLength", 11), ("minLength", 12), ("maxItems", 14), ("minItems", 15),
    ("maxProperties", 17), ("minProperties", 18),
)  # fmt: skip


class OpenApiV2:
    """One document for everything served, built from the v3 documents when first asked for."""

    def __init__(self, v3: OpenApiV3) -> None:
        self._v3 = v3
        self._catalog: Catalog | None = None
        self._json = b""
        self._protobuf = b""

    def use(self, catalog: Catalog) -> None:
        """Forget what was built when the catalog is another one."""
        if catalog is not self._catalog:
            self._catalog, self._json, self._protobuf = catalog, b"", b""

    def json(self) -> bytes:
        if not self._json:
            self._json = encode(
                {
                    "swagger": "2.0",
                    "info": {"title": TITLE, "version": f"v{__version__}"},
                    "paths": dict(self._paths()),
                    "definitions": self._definitions(),
                }
            )
        return self._json

    def protobuf(self) -> bytes:
        if not self._protobuf:
            info = text(1, TITLE) + text(2, f"v{__version__}")
            paths = b"".join(
                message(2, text(1, path) + message(2, _path_item(item)))
                for path, item in self._paths()
            )
            definitions = b"".join(_named(name, s) for name, s in self._definitions().items())
            self._protobuf = (
                text(1, "2.0") + message(2, info) + message(8, paths) + message(9, definitions)
            )
        return self._protobuf

    def _definitions(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for group, version in self._v3.group_versions():
            for name, schema in self._v3.schemas(group, version).items():
                if name not in out:
                    out[name] = downgrade(schema)
        return out

    def _paths(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for group, version in self._v3.group_versions():
            for kind in self._v3.kinds(group, version):
                for path, item in paths_of(kind):
                    yield path, {verb: _operation(item[verb]) for verb in item}


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    parameters = [
        {"name": p["name"], "in": p["in"], "type": p["schema"]["type"], "uniqueItems": True}
        for p in operation["parameters"]
    ]
    kept = {key: value for key, value in operation.items() if key.startswith("x-")}
    return {"parameters": parameters, "responses": operation["responses"], **kept}


def downgrade(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A v3 schema in v2's words, as kube-apiserver converts them.

    A reference has no siblings, alternatives (`oneOf`, `anyOf`, `not`, `nullable`) are omitted,
    and an integer-or-string is a string of format int-or-string.
    """
    wrapped = schema.get("allOf")
    if wrapped and len(wrapped) == 1 and "$ref" in wrapped[0]:
        schema = wrapped[0]
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace(REF, DEFINITIONS)}
    out = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "oneOf" in schema and "type" not in schema:
        out["type"] = "string"  # Quantity and IntOrString
    if schema.get("x-kubernetes-int-or-string"):
        out |= {"type": "string", "format": "int-or-string"}
    if "properties" in schema:
        out["properties"] = {key: downgrade(value) for key, value in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            out[key] = downgrade(schema[key])
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        for key in ("properties", "items", "additionalProperties"):
            out.pop(key, None)
    return out


_DROPPED: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable"})


# The protobuf form -------------------------------------------------------------------------------


def _named(name: str, schema: Mapping[str, Any]) -> bytes:
    return message(1, text(1, name) + message(2, _schema(schema)))


def _schema(schema: Mapping[str, Any]) -> bytes:
    out = [text(1, schema.get("$ref", "")), text(2, schema.get("format", ""))]
    out += [text(3, schema.get("title", "")), text(4, schema.get("description", ""))]
    if "default" in schema:
        out.append(message(5, _any(schema["default"])))
    out += [double(number, float(schema.get(key, 0))) for key, number in _NUMBERS]
    out += [integer(number, int(schema.get(key, 0))) for key, number in _COUNTS]
    out.append(text(13, schema.get("pattern", "")))
    out.append(boolean(16, schema.get("uniqueItems")))
    out.append(texts(19, schema.get("required") or ()))
    out += [message(20, _any(value)) for value in schema.get("enum") or ()]
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        out.append(message(21, message(1, _schema(additional))))
    elif additional is not None:
        out.append(message(21, boolean(2, additional)))
    if schema.get("type"):
        out.append(message(22, texts(1, [schema["type"]])))
    if isinstance(schema.get("items"), Mapping):
        out.append(message(23, message(1, _schema(schema["items"]))))
    if "properties" in schema:
        named = b"".join(_named(key, value) for key, value in schema["properties"].items())
        out.append(message(25, named))
    out.append(_extensions(31, schema))
    return b"".join(out)


def _any(value: Any) -> bytes:
    """An Any carries its value as YAML; JSON is YAML."""
    return text(2, encode(value).decode() + "\n")


def _extensions(field: int, holder: Mapping[str, Any]) -> bytes:
    return b"".join(
        message(field, text(1, key) + message(2, _any(value)))
        for key, value in holder.items()
        if key.startswith("x-")
    )


_VERBS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(item: Mapping[str, Any]) -> bytes:
    return b"".join(message(_VERBS[verb], _protobuf_operation(op)) for verb, op in item.items())


def _protobuf_operation(operation: Mapping[str, Any]) -> bytes:
    parameters = b"".join(message(8, _parameter(p)) for p in operation["parameters"])
    answer = message(1, text(1, "OK"))  # ResponseValue.response
    responses = message(9, message(1, text(1, "200") + message(2, answer)))
    return parameters + responses + _extensions(13, operation)


def _parameter(parameter: Mapping[str, Any]) -> bytes:
    query = (
        text(2, parameter["in"]) + text(4, parameter["name"]) + text(6, parameter["type"])
        + boolean(20, parameter["uniqueItems"])
    )  # fmt: skip
    non_body = message(3, query)
    return message(1, message(2, non_body))


def varint(value: int) -> bytes:
    """An unsigned base-128 number."""
    if value < 0:
        raise ValueError(f"{value} has no unsigned form")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _key(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def message(field: int, content: bytes) -> bytes:
    """An embedded message (also bytes): present even when empty."""
    return _key(field, _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A string field; nothing for "" (proto3's default)."""
    return message(field, value.encode()) if value else b""


def texts(field: int, values: Iterable[str]) -> bytes:
    """A repeated string field."""
    return b"".join(message(field, value.encode()) for value in values)


def integer(field: int, value: int) -> bytes:
    """A non-negative int64 field; nothing for 0."""
    return _key(field, _VARINT) + varint(value) if value else b""


def boolean(field: int, value: object) -> bytes:
    """A bool field; nothing for false."""
    return _key(field, _VARINT) + b"\1" if value else b""


def double(field: int, value: float) -> bytes:
    """A double field; nothing for 0."""
    return _key(field, _FIXED64) + struct.pack("<d", value) if value else b""
