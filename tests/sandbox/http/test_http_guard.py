"""Requests that no Kubernetes client sends are refused before anything happens."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import pytest

from tests.sandbox.served import Client

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/livez", {"Authorization": ""}, 200),
        ("/readyz", {"Authorization": ""}, 200),
        ("/healthz", {"Authorization": ""}, 200),
        ("/version", {"Authorization": ""}, 200),
        ("/metrics", {"Authorization": ""}, 404),  # B-A31
        ("/api", {"Authorization": ""}, 401),  # B-A03
        ("/openapi/v2", {"Authorization": ""}, 401),
        (PODS, {"Authorization": "Bearer wrong"}, 401),
        (PODS, {"Authorization": "Basic YTpi"}, 401),
        (PODS, {"Authorization": "Bearer " + "x" * 10_000}, 401),
        (PODS + "?access_token={token}&token={token}", {"Authorization": ""}, 401),
        (PODS, {"Host": "evil.example"}, 421),  # B-A01
        (PODS, {"Host": "127.0.0.1:1"}, 421),
        (PODS, {"Host": "localhost."}, 421),
        (PODS, {"Origin": "https://evil.example"}, 403),  # B-A02
        (PODS, {"Origin": "null"}, 403),
        (PODS, {"Impersonate-User": "root"}, 200),
        (PODS, {"Impersonate-User": "root", "Impersonate-Group": "system:masters"}, 200),
        (PODS, {"Impersonate-User": "root", "Authorization": "Bearer wrong"}, 401),  # B-A04
        (PODS, {"Impersonate-User": " "}, 400),
        (PODS, {"Impersonate-User": "root", "Impersonate-Group": " "}, 400),
        (PODS, {"Impersonate-Group": "system:masters"}, 403),
        (PODS, {"Impersonate-User": "root", "Impersonate-Extra-Scopes": "all"}, 403),
        (PODS, {"Accept": "application/vnd.kubernetes.protobuf"}, 406),  # B-A11
        (PODS + "?limit=1&limit=2", {}, 400),
        (PODS, {}, 200),
    ],
)
def test_reads(client: Client, path: str, headers: dict[str, str], status: int) -> None:
    answer = client.ask(path.format(token=client.token), headers=headers)
    assert answer.status == status, answer.data
    if answer.data == b"404 page not found\n":
        assert status == 404
    elif status >= 400:
        assert answer.body["code"] == status
        assert (answer.body["kind"], answer.body["status"]) == ("Status", "Failure")
    assert "Access-Control-Allow-Origin" not in answer.headers


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "guarded"}}
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", MAPS, b"\x1f\x8b", {"Content-Encoding": "gzip"}, 415),  # B-A07
        ("POST", MAPS, b"x" * (3 * 1024 * 1024 + 1), {}, 413),  # B-A08
        ("POST", MAPS, CONFIG, {"Content-Type": "application/xml"}, 415),
        ("POST", MAPS, CONFIG, {"Content-Type": "application/json; charset=utf-16"}, 415),
        ("POST", MAPS, CONFIG, {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ("POST", MAPS, b"[" * 10_000, {}, 400),  # B-A12
        ("POST", MAPS, b'{"a": NaN}', {}, 400),
        ("POST", MAPS, b'{"a": 1} tail', {}, 400),
        ("POST", MAPS, b"\xef\xbb\xbf{}", {}, 400),
        ("POST", MAPS, b'"text"', {}, 400),
        ("POST", MAPS, b'{"a": "\\ud800"}', {}, 400),
        ("POST", MAPS, b'{"a":1}{"b":2}', {"Content-Type": "application/yaml"}, 400),
        ("POST", MAPS + "/guarded", CONFIG, {}, 405),
        ("PUT", MAPS, CONFIG, {}, 405),
        ("PATCH", MAPS + "/guarded", CONFIG, {"Content-Type": "application/json"}, 415),
        ("TRACE", MAPS, None, {}, 405),  # B-A10
        ("GET", "/api/v1/nothings", None, {}, 404),
        ("POST", "/version", b"{}", {}, 405),
    ],
)  # fmt: skip
def test_writes(
    client: Client, method: str, path: str, body: object, headers: dict[str, str], status: int
) -> None:
    answer = client.ask(path, method, body, headers)
    assert answer.status == status, answer.data
    assert answer.body["code"] == status
    assert client.ask(MAPS + "/guarded").status == 404  # STORE-15


def test_a_key_given_twice_is_refused_under_strict_validation(client: Client) -> None:
    twice = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}'
    answer = client.ask(MAPS + "?fieldValidation=Strict&dryRun=All", "POST", twice)
    assert (answer.status, answer.body["reason"]) == (400, "BadRequest")
    assert 'duplicate field "name"' in answer.body["message"]


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\nabc"


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n" + CHUNKED,
        b"GET /version HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n",
        b"GET /version HTTP/1.1\r\n\r\n",
        # Beyond the limit in the last TLS record: an earlier refusal would cut off our sending.
        b"GET /version HTTP/1.1\r\nHost: {host}\r\nX: " + b"a" * 17_000 + b"\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"GET /%00\x00 HTTP/1.1\r\nHost: {host}\r\n\r\n",
    ],
    ids=["both lengths", "two hosts", "no host", "huge header", "two lengths", "NUL"],
)
def test_broken_framing_is_a_400(client: Client, raw: bytes) -> None:  # B-A05
    parts = urlsplit(client.url)
    assert parts.hostname is not None
    context = ssl.create_default_context(cadata=client.ca)
    with (
        socket.create_connection((parts.hostname, parts.port or 0), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=parts.hostname) as tls,
    ):
        tls.sendall(raw.replace(b"{host}", parts.netloc.encode()))
        assert tls.recv(64).split()[1] == b"400"


WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCOUNT = "system:serviceaccount:shop:deployer"


@pytest.mark.parametrize(
    ("headers", "groups"),
    [
        ({}, ["system:masters", "system:authenticated"]),
        ({"Impersonate-User": "dana"}, ["system:authenticated"]),
        ({"Impersonate-User": "dana", "Impersonate-Group": "ops"}, ["ops", "system:authenticated"]),
        (
            {"Impersonate-User": ACCOUNT},
            ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
        ),
    ],
)
def test_whom_a_request_is_made_for(
    client: Client, headers: dict[str, str], groups: list[str]
) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = client.ask(WHO, method="POST", body=review, headers=headers)
    assert answer.status == 201, answer.data
    user = answer.body["status"]["userInfo"]
    assert user == {"username": headers.get("Impersonate-User", "system:admin"), "groups": groups}
