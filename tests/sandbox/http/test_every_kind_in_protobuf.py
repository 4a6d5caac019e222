"""Every built-in kind is read from protobuf as from JSON: typed Go clients send nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random  # noqa: TID251  drawn from a seed
from typing import Any, Final

import pytest

from gitkruise.kube.client.codec import encode
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.http.negotiation import PROTOBUF
from gitkruise.sandbox.http.protobuf_decoder import read
from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.schema.nodes import Node
from tests.objects import Drawing
from tests.sandbox.http.protobuf_encoder import TABLE, encoded, package_of
from tests.sandbox.served import Client
from tests.transcripts.script import FOLDER, chapters

KINDS: Final = [kind for kind in load_catalog().kinds() if not kind.crd]
# Bodies of subresources and options: they are no resources of their own.
OTHERS: Final = ("autoscaling/v1.Scale", "policy/v1.Eviction", "authentication/v1.TokenRequest",
                 "core/v1.Binding", "meta/v1.DeleteOptions")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_all_fields_of_a_kind_arrive(kind: Kind) -> None:
    for seed, often in enumerate((1.0, 0.5, 0.0)):
        obj = _as_sent(Drawing(Random(seed), often).object(kind))
        assert json.loads(encode(read(encoded(obj)))) == obj


def _as_sent(obj: dict[str, Any]) -> dict[str, Any]:
    """Without the kinds of embedded objects, which Go's protobuf leaves out."""
    return {
        key: value if key in {"apiVersion", "kind"} else _bare(value, key)
        for key, value in obj.items()
    }


def _bare(value: Any, name: str) -> Any:
    if isinstance(value, list):
        unkinded = name == "volumeClaimTemplates"
        drop = {"apiVersion", "kind"} if unkinded else frozenset()
        return [
            _bare({k: v for k, v in item.items() if k not in drop}, "")
            if isinstance(item, dict)
            else item
            for item in value
        ]
    if isinstance(value, dict):
        return {key: _bare(item, key) for key, item in value.items()}
    return value


def test_the_table_has_every_field_of_the_api() -> None:
    """A field of the OpenAPI documents that the table lacks would be lost without a word."""
    lacking = {
        f"{name}.{field}"
        for kind in KINDS
        for name, node in _structs(kind.schema, f"{package_of(kind.api_version)}.{kind.kind}")
        for field in node.names
        if field not in {"apiVersion", "kind"} and field not in _names(name)
    }
    assert not lacking


def _structs(node: Node, name: str) -> Iterator[tuple[str, Node]]:
    """Every type in a kind's schema with its name in the table."""
    seen: set[str] = set()
    open_ = [(name, node)]
    while open_:
        name, node = open_.pop()
        if name in seen or not node.has_fields:
            continue
        seen.add(name)
        yield name, node
        types = {row[1]: row[2].removeprefix("map:") for row in _rows(name)}
        for field, child in node.children():
            inner = child.items or child.additional or child
            if types.get(field) in TABLE:
                open_.append((types[field], inner))


def _rows(name: str) -> Iterator[list[Any]]:
    for row in TABLE[name]:
        if "+" in row[3]:
            yield from _rows(row[2])
        else:
            yield row


def _names(name: str) -> set[str]:
    return {row[1] for row in _rows(name)}


def test_bodies_of_subresources_have_types() -> None:
    assert set(OTHERS) <= TABLE.keys()


WEBHOOK: Final = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "a"},
    "webhooks": [
        {
            "name": "a.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "aGk="},
            "rules": [
                {"apiGroups": ["x"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
            ],
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
        }
    ],
}
SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "map": {"type": "object", "additionalProperties": {"type": "number", "maximum": 9}},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "flag": {"type": "boolean", "default": False},
            },
            "x-kubernetes-validations": [{"rule": "true"}],
        }
    },
}
DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


def _created() -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and object of a creation: of kinds with a chapter of transcripts, and of two others."""
    for chapter in chapters(FOLDER):
        if chapter.name.startswith("kind-"):
            posts = (s for s in chapter.steps if s.method == "POST" and "?" not in s.path)
            step = next(posts)
            yield step.path.replace("${ns}", "default"), step.body
    yield "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", WEBHOOK
    yield "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION


@pytest.mark.parametrize(
    ("path", "obj"), [pytest.param(*row, id=row[1]["kind"]) for row in _created()]
)
def test_a_server_takes_an_object_in_protobuf(
    path: str, obj: dict[str, Any], client: Client
) -> None:
    """It is stored as the same object in JSON is."""
    known = client.ask(path + "?dryRun=All", "POST", obj)
    sent = client.ask(path + "?dryRun=All", "POST", encoded(obj), {"Content-Type": PROTOBUF})
    assert (known.status, sent.status) == (201, 201), (known.data, sent.data)
    assert _own(sent.body) == _own(known.body)


# The server draws these: two requests get two of each, and a second may pass between them.
DRAWN: Final = {
    "uid", "managedFields", "creationTimestamp", "lastPhaseTransitionTime", "lastTransitionTime",
}  # fmt: skip


def _own(obj: dict[str, Any]) -> dict[str, Any]:
    """What is not drawn by the server."""
    return {**obj, "metadata": _undrawn(obj["metadata"]), "status": _undrawn(obj.get("status", {}))}


def _undrawn(value: Any) -> Any:
    if isinstance(value, list):
        return [_undrawn(item) for item in value]
    if isinstance(value, dict):
        return {key: _undrawn(item) for key, item in value.items() if key not in DRAWN}
    return value
