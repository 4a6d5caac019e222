"""Schemas prune, default and validate as an API server does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import BadRequest, InvalidObject
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.names import split_api_version
from gitkruise.wire.schema.structural import (
    Components,
    Node,
    prune,
    unknown_fields,
    validate,
    with_defaults,
)
from tests.wire.schema.manifests import cloneset

JSON = Path(__file__).parents[3] / "schemas" / "json"


def inline(raw: dict[str, Any]) -> Node:
    none: dict[str, Any] = {}
    return Node({"type": "object", "properties": {"f": raw}}, Components(none.__getitem__))


def schema(word: str, *, strict: bool = False) -> Node:
    kind = load_catalog().find(word)
    assert kind
    return kind.strict if strict else kind.schema


# Validation --------------------------------------------------------------------------------------

INT = {"type": "integer", "format": "int32"}
INT_OR_STRING = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
BY_KEY = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["a", "b"],
    "items": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}},
    },
}
CHECKS: list[tuple[str, dict[str, Any], Any, list[str]]] = [
    ("type", INT, "3", ['Invalid value: "string": f in body must be of type integer: "string"']),
    (
        "true is no integer",
        INT,
        True,
        ['Invalid value: "boolean": f in body must be of type integer: "boolean"'],
    ),
    ("whole float", INT, 3.0, []),
    (
        "too large",
        INT,
        2**31,
        ["Invalid value: 2147483648: f in body must be of type int32: 2147483648"],
    ),
    ("int or string", INT_OR_STRING, "30%", []),
    (
        "neither",
        INT_OR_STRING,
        1.5,
        ['Invalid value: "number": f in body must be of type integer,string: "number"'],
    ),
    (
        "enum",
        {"type": "string", "enum": ["a", "b"]},
        "c",
        ['Unsupported value: "c": supported values: "a", "b"'],
    ),
    (
        "minimum",
        {**INT, "minimum": 0},
        -1,
        ["Invalid value: -1: f in body should be greater than or equal to 0"],
    ),
    (
        "exclusive",
        {**INT, "maximum": 3, "exclusiveMaximum": True},
        3,
        ["Invalid value: 3: f in body should be less than 3"],
    ),
    (
        "pattern",
        {"type": "string", "pattern": "^a+$"},
        "ab",
        ["Invalid value: \"ab\": f in body should match '^a+$'"],
    ),
    (
        "short",
        {"type": "string", "minLength": 1},
        "",
        ['Invalid value: "": f in body should be at least 1 chars long'],
    ),
    ("long", {"type": "string", "maxLength": 2}, "abc", ["Too long: may not be more than 2 bytes"]),
    (
        "wide",
        {"type": "object", "maxProperties": 1},
        {"a": 1, "b": 2},
        ["Too many: 2: must have at most 1 items"],
    ),
    (
        "narrow",
        {"type": "object", "minProperties": 1},
        {},
        ["Invalid value: 0: f in body should have at least 1 properties"],
    ),
    ("tenths", {"type": "number", "multipleOf": 0.1}, 0.3, []),
    (
        "thirds",
        {"type": "integer", "multipleOf": 3},
        7,
        ["Invalid value: 7: f in body should be a multiple of 3"],
    ),
    ("many", {"type": "array", "maxItems": 1}, [1, 2], ["Too many: 2: must have at most 1 items"]),
    (
        "few",
        {"type": "array", "minItems": 1},
        [],
        ["Invalid value: 0: f in body should have at least 1 items"],
    ),
    ("time", {"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", []),
    (
        "no time",
        {"type": "string", "format": "date-time"},
        "2026-13-01",
        ['Invalid value: "2026-13-01": f in body must be of type date-time: "2026-13-01"'],
    ),
    (
        "set",
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        ["a", "b", "a"],
        ['Duplicate value: "a"'],
    ),
    (
        "keyed list",
        BY_KEY,
        [{"a": "1"}, {"a": "1", "b": "x"}],
        ['Duplicate value: {"a":"1","b":"x"}'],
    ),
    (
        "any of",
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        {},
        ['Invalid value: {}: "f" must validate at least one schema (anyOf)'],
    ),
    (
        "one of",
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        {"a": 1, "b": 2},
        ['Invalid value: {"a":1,"b":2}: "f" must validate one and only one schema (oneOf)'],
    ),
    (
        "not",
        {"not": {"required": ["a"]}, "type": "object"},
        {"a": 1},
        ['Invalid value: {"a":1}: "f" must not validate the schema (not)'],
    ),
    (
        "all of",
        {"allOf": [{"minimum": 1}, {"maximum": 3}], "type": "integer"},
        5,
        ["Invalid value: 5: f in body should be less than or equal to 3"],
    ),
    ("duration", {"type": "string", "format": "duration"}, "1m30s", []),
    (
        "no duration",
        {"type": "string", "format": "duration"},
        "soon",
        ['Invalid value: "soon": f in body must be of type duration: "soon"'],
    ),
    ("null counts as absent", INT, None, []),
    ("null where it may be", {**INT, "nullable": True}, None, []),
    ("opaque", {"type": "object", "properties": {"a": INT}}, RawJSON(b'{"a":"x"}'), []),
]


@pytest.mark.parametrize(
    ("raw", "value", "messages"), [r[1:] for r in CHECKS], ids=[r[0] for r in CHECKS]
)
def test_validation(raw: dict[str, Any], value: Any, messages: list[str]) -> None:
    assert [problem.message for problem in validate(inline(raw), {"f": value})] == messages


def test_required_fields_are_reported_by_path() -> None:
    found = validate(schema("cloneset"), {"spec": {"replicas": 1, "template": None}})
    assert [(problem.field, problem.reason, problem.message) for problem in found] == [
        ("spec.selector", "FieldValueRequired", "Required value"),
        ("spec.template", "FieldValueRequired", "Required value"),
    ]


def test_a_zero_value_does_not_stand_for_a_required_field() -> None:
    obj = {"spec": {"containers": [{"image": "a", "ports": [{}]}]}}
    assert [problem.field for problem in validate(schema("pod"), obj)] == [
        "spec.containers[0].name",
        "spec.containers[0].ports[0].containerPort",
    ]


def test_a_strict_schema_looks_into_templates() -> None:
    obj = cloneset()
    obj["spec"]["template"]["spec"]["containers"][0] |= {
        "imag": "x",
        "ports": [{"containerPort": "80"}],
    }
    assert unknown_fields(schema("cloneset"), obj) == []
    assert validate(schema("cloneset"), obj) == []
    strict = schema("cloneset", strict=True)
    (unknown,) = unknown_fields(strict, obj)
    assert unknown.message == 'unknown field "spec.template.spec.containers[0].imag"'
    assert unknown.suggestion == "image"
    (wrong,) = validate(strict, obj)
    assert wrong.field == "spec.template.spec.containers[0].ports[0].containerPort"


def test_a_sidecar_is_a_container_and_more() -> None:
    sidecar = {"name": "s", "image": "a", "podInjectPolicy": "BeforeAppContainer", "imag": "b"}
    obj = {"spec": {"containers": [sidecar], "volumes": [{"name": "v", "emptydir": {}}]}}
    found = unknown_fields(schema("sidecarset", strict=True), obj)
    assert [(p.field, p.suggestion) for p in found] == [
        ("spec.containers[0].imag", "image"),
        ("spec.volumes[0].emptydir", "emptyDir"),
    ]


RECORDED = [
    json.loads(line)
    for line in (JSON.parents[1] / "tests" / "oracle" / "validation.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: str(row["case"]))
def test_what_a_real_server_stored_is_valid_and_not_pruned(row: dict[str, Any]) -> None:
    sent = row["manifest"]
    group, version = split_api_version(sent["apiVersion"])
    kind = load_catalog().by_kind(group, version, sent["kind"])
    assert kind
    if row.get("accepted") is not None:
        stored = {**sent, "spec": row["accepted"]}
        assert validate(kind.schema, stored) == []
        assert prune(kind.schema, stored) is stored
    elif problems := validate(kind.schema, sent):
        named = row["fields"]
        assert all(any(field.startswith(p.field) for field in named) for p in problems)


# Pruning and defaults ----------------------------------------------------------------------------


def test_pruning_drops_what_no_schema_knows_and_shares_the_rest() -> None:
    obj = cloneset(foo=1, scaleStrategy={"podsToDelete": ["a"], "bar": {}})
    obj["spec"]["template"]["anything"] = 1
    pruned = prune(schema("cloneset"), obj)
    assert pruned["spec"]["scaleStrategy"] == {"podsToDelete": ["a"]}
    assert "foo" not in pruned["spec"]
    assert pruned["spec"]["template"] is obj["spec"]["template"]
    assert obj["spec"]["foo"] == 1
    assert prune(schema("cloneset"), pruned) is pruned


def test_built_in_maps_and_opaque_values_are_not_pruned() -> None:
    pod = {"metadata": {"annotations": {"a": "b"}, "managedFields": [{"fieldsV1": {"f:x": {}}}]}}
    assert prune(schema("pod"), pod) is pod
    revision = {"data": RawJSON(b'{"spec":{}}'), "revision": 1}
    assert prune(schema("controllerrevision"), revision) is revision
    crd = {
        "spec": {
            "versions": [
                {"schema": {"openAPIV3Schema": {"properties": {"a": {"default": {"b": 1}}}}}}
            ]
        }
    }
    assert prune(schema("crd"), crd) is crd


def test_defaults_fill_what_is_missing_or_null() -> None:
    strategy = {"scaleStrategy": {"maxUnavailable": 1}}
    filled = with_defaults(schema("cloneset"), cloneset(replicas=None, **strategy))
    assert filled["spec"]["scaleStrategy"] == {"maxUnavailable": 1, "enablePVCReuse": False}
    assert "replicas" not in filled["spec"]
    assert with_defaults(schema("cloneset"), filled) is filled


def test_defaults_of_defaults_are_filled() -> None:
    inner = {
        "type": "object",
        "properties": {"b": {"type": "integer", "default": 2}},
        "default": {},
    }
    node = inline({"type": "object", "properties": {"a": inner}})
    assert with_defaults(node, {"f": {}}) == {"f": {"a": {"b": 2}}}
    assert with_defaults(node, {"f": {"a": None}}) == {"f": {"a": {"b": 2}}}
    assert with_defaults(node, {}) == {}


def test_deep_objects_are_refused_not_crashed_on() -> None:
    raw: dict[str, Any] = {"$ref": "#/components/schemas/Loop"}
    node = Components({"Loop": {"type": "object", "properties": {"a": raw}}}.__getitem__).node(
        "Loop", {}
    )
    shallow: dict[str, Any] = {}
    for _ in range(100):
        shallow = {"a": shallow}
    assert prune(node, shallow) is shallow
    assert validate(node, shallow) == unknown_fields(node, shallow) == []
    deep = shallow
    for _ in range(5000):
        deep = {"a": deep}
    for function in (prune, unknown_fields, with_defaults, validate):
        with pytest.raises(BadRequest, match="nests deeper"):
            function(node, deep)


def test_recursive_definitions_compile_to_one_node_a_component() -> None:
    props = schema("crd")
    for step in ("spec", "versions"):
        child = props.child(step)
        assert child
        props = child
    assert props.items
    root = props.items.child("schema")
    assert root
    first = root.child("openAPIV3Schema")
    assert first
    again = first.child("properties")
    assert again
    assert again.additional
    assert again.additional.child("not") is first.child("not")


def test_a_bad_pattern_is_reported_when_the_schema_is_applied() -> None:
    crd = json.loads((JSON.parent / "crds" / "sinks.gitkruise.io.json").read_text())
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["bad"] = {"type": "string", "pattern": "(?=a)b"}
    with pytest.raises(InvalidObject, match="invalid or unsupported Perl syntax"):
        load_catalog().with_crd(crd)
