"""OpenAPI v2 in protobuf says the same as in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gitkruise.sandbox.discovery.openapi_v2 import double, downgrade, integer, text, varint
from tests.sandbox.served import Client

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """A reader of its own, so that the writer is not checked against itself."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 1:
            at += 8
            yield key >> 3, data[at - 8 : at]
        else:
            size = number()
            at += size
            yield key >> 3, data[at - size : at]


def first(data: bytes, field: int) -> Any:
    return next((value for number, value in fields(data) if number == field), None)


def schema(data: bytes) -> dict[str, Any]:
    """A gnostic Schema message as JSON, as far as kubectl reads it."""
    out: dict[str, Any] = {}
    for number, value in fields(data):
        if number in {1, 2, 4}:
            out[{1: "$ref", 2: "format", 4: "description"}[number]] = value.decode()
        elif number == 19:
            out.setdefault("required", []).append(value.decode())
        elif number == 20:
            out.setdefault("enum", []).append(json.loads(first(value, 2)))
        elif number == 21:
            inner = first(value, 1)
            out["additionalProperties"] = bool(first(value, 2)) if inner is None else schema(inner)
        elif number == 22:
            out["type"] = first(value, 1).decode()
        elif number == 23:
            out["items"] = schema(first(value, 1))
        elif number == 25:
            out["properties"] = dict(named(value, 1))
        elif number == 31:
            out[first(value, 1).decode()] = json.loads(first(first(value, 2), 2))
    return out


def named(data: bytes, field: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, entry in fields(data):
        if number == field:
            yield first(entry, 1).decode(), schema(first(entry, 2) or b"")


KEPT = {"$ref", "format", "description", "required", "enum", "additionalProperties", "type",
        "items", "properties"}  # fmt: skip


def readable(value: Any) -> Any:
    """A JSON schema without the words kubectl does not read from protobuf."""
    out = {k: v for k, v in value.items() if k in KEPT or k.startswith("x-")}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = readable(out[key])
    if "properties" in out:
        out["properties"] = {k: readable(v) for k, v in out["properties"].items()}
    return out


def test_protobuf_and_json_are_one_document(client: Client) -> None:
    binary = client.ask("/openapi/v2", headers={"Accept": PROTOBUF})
    assert binary.headers["Content-Type"] == "application/octet-stream"
    plain = client.ask("/openapi/v2").body
    assert first(binary.data, 1) == b"2.0"
    definitions = dict(named(first(binary.data, 9), 1))
    assert definitions == {name: readable(s) for name, s in plain["definitions"].items()}
    paths = {first(v, 1).decode() for n, v in fields(first(binary.data, 8)) if n == 2}
    assert paths == set(plain["paths"])


def test_kubectl_finds_dry_run_on_patches(client: Client) -> None:
    document = client.ask("/openapi/v2", headers={"Accept": PROTOBUF}).data
    wanted = b"/apis/apps.kruise.io/v1alpha1/namespaces/{namespace}/clonesets/{name}"
    items = [v for n, v in fields(first(document, 8)) if n == 2 and first(v, 1) == wanted]
    patch = first(first(items[0], 2), 8)
    names = {first(first(first(first(p, 1), 2), 3), 4).decode() for n, p in fields(patch) if n == 8}
    assert {"dryRun", "fieldValidation", "force"} <= names
    extension = first(patch, 13)
    assert json.loads(first(first(extension, 2), 2))["kind"] == "CloneSet"


def test_v3_words_become_v2_words() -> None:
    ref = {"allOf": [{"$ref": "#/components/schemas/a"}], "default": {}}
    assert downgrade(ref) == {"$ref": "#/definitions/a"}
    either = {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}
    assert downgrade(either) == {"type": "string", "format": "int-or-string"}
    nested = {"type": "object", "properties": {"x": {"nullable": True, "type": "string"}}}
    assert downgrade(nested) == {"type": "object", "properties": {"x": {"type": "string"}}}
    open_ended = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}}
    assert "properties" not in downgrade(open_ended)


def test_wire_format() -> None:
    assert varint(300) == b"\xac\x02"
    assert integer(11, 300) == b"\x58\xac\x02"
    assert text(2, "testing") == b"\x12\x07testing"
    assert double(6, 1.0) == b"\x31" + bytes(6) + b"\xf0\x3f"
