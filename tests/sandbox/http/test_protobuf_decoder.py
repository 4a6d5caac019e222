"""Bodies in Kubernetes' protobuf mean what the same object in JSON means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.kube.system.package_data import read_json
from gitkruise.sandbox.discovery.openapi_v2 import integer, message, text
from gitkruise.sandbox.http.protobuf_decoder import MAGIC, read
from tests.sandbox.served import Client


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + message(1, text(1, api_version) + text(2, kind)) + message(2, raw)


def pair(number: int, key: str, value: bytes) -> bytes:
    return message(number, text(1, key) + message(2, value))


NAME = text(1, "web")
META = message(1, NAME + message(2, b"") + message(8, b""))  # an empty string, the zero time


@pytest.mark.parametrize(
    ("api_version", "kind", "raw", "body"),
    [
        ("v1", "Namespace", META + message(2, b"") + message(3, b""),
         {"metadata": {"name": "web"}, "spec": {}, "status": {}}),
        ("v1", "ConfigMap", message(1, NAME + pair(11, "a", b"b")) + pair(2, "k", "é".encode()),
         {"metadata": {"name": "web", "labels": {"a": "b"}}, "data": {"k": "é"}}),
        ("v1", "Secret", META + pair(2, "k", b"\0\xff") + text(3, "Opaque"),
         {"metadata": {"name": "web"}, "data": {"k": "AP8="}, "type": "Opaque"}),
        ("v1", "ConfigMap", META + b"\x20\0", {"metadata": {"name": "web"}, "immutable": False}),
        ("apps/v1", "Deployment",
         META + message(2, b"\x08\0" + message(3, message(2, message(2, text(1, "app")
            + message(8, pair(2, "cpu", text(1, "100m")))
            + message(11, message(1, message(2, text(1, "/") + message(2, integer(1, 1)
                + message(3, b"http")))) + integer(2, 5)))))),
         {"metadata": {"name": "web"}, "spec": {"replicas": 0, "template": {"spec": {"containers": [
             {"name": "app", "resources": {"requests": {"cpu": "100m"}}, "readinessProbe": {
                 "httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 5}}]}}}}),
        ("v1", "Service", META + message(2, message(1, integer(3, 80)
            + message(4, integer(2, 8080)))),
         {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
        ("policy/v1", "Eviction", META + message(2, b"\x08\0"),
         {"metadata": {"name": "web"}, "deleteOptions": {"gracePeriodSeconds": 0}}),
        ("authorization.k8s.io/v1", "SubjectAccessReview",
         message(2, text(3, "me") + message(5, text(1, "scopes") + message(2, message(1, b"x")))),
         {"spec": {"user": "me", "extra": {"scopes": ["x"]}}}),
        ("batch/v1", "Job", META + message(2, integer(10, 1)),
         {"metadata": {"name": "web"}, "spec": {"suspend": True}}),
        ("v1", "Pod", message(1, NAME + message(8, integer(1, 1_700_000_000))),
         {"metadata": {"name": "web", "creationTimestamp": "2023-11-14T22:13:20Z"}}),
    ],
)  # fmt: skip
def test_objects(api_version: str, kind: str, raw: bytes, body: dict[str, Any]) -> None:
    assert read(envelope(api_version, kind, raw)) == {
        "apiVersion": api_version,
        "kind": kind,
        **body,
    }


@pytest.mark.parametrize(
    "data",
    [
        b"", b"k8s", b"{}", MAGIC, MAGIC + b"\xff", envelope("v1", "Nothing", b""),
        envelope("apps.kruise.io/v1alpha1", "CloneSet", META), envelope("v1", "Pod", META)[:-3],
        envelope("v1", "Pod", b"\x08\x01"),
        envelope("v1", "Pod", message(1, text(1, "x") + b"\x0b")),
        envelope("v1", "Pod", message(1, message(1, b"\xff"))),
    ],
)  # fmt: skip
def test_broken_bodies(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_a_value_error(data: bytes) -> None:
    for body in (MAGIC + data, envelope("v1", "Pod", data)):
        try:
            read(body)
        except ValueError:
            continue


def test_the_table_names_types_it_has() -> None:
    table = read_json("protobuf.json")
    plain = {"string", "bytes", "int", "bool", "double", "time", "microtime", "quantity", "intstr",
             "raw", "items"}  # fmt: skip
    named = {row[2].removeprefix("map:") for rows in table.values() for row in rows}
    assert named - plain <= set(table)


def test_a_server_takes_protobuf(client: Client) -> None:
    body = envelope("v1", "ConfigMap", message(1, text(1, "proto")) + pair(2, "a", b"b"))
    path = "/api/v1/namespaces/default/configmaps"
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    answer = client.ask(path + "?dryRun=All", "POST", body, headers)
    assert (answer.status, answer.body["data"]) == (201, {"a": "b"})
    cut = client.ask(path, "POST", body[:-1], headers)
    assert (cut.status, cut.body["reason"]) == (400, "BadRequest")
