"""Requests for measurements: answers, answers that are none, and addresses that are refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from gitkruise.errors import Unavailable
from gitkruise.gitops.analysis.providers import samples, selected, value_of, value_text
from gitkruise.gitops.http_get import (
    ANSWER_MAX,
    Access,
    Fetch,
    GuardedResolver,
    HttpGet,
    HttpReply,
    fetch,
    is_forbidden,
)
from gitkruise.model.gitops.analysis import MetricProvider, PrometheusProvider, WebProvider
from tests.clock import ManualClock
from tests.gitops.analysis.endpoint import Endpoint


def web(endpoint: Endpoint, path: str = "") -> MetricProvider:
    return MetricProvider(web=WebProvider(endpoint.url, path))


def asked(provider: MetricProvider, access: Access | None = None, by: Fetch = fetch) -> Any:
    variables = {"target": "web", "namespace": "shop", "revision": "abc"}
    return asyncio.run(value_of(provider, variables, access or Access(), by, guarded=False))


# JSONPath, answer, value.
VALUES: list[tuple[str, Any, Any]] = [
    ("", {"ok": True}, {"ok": True}),
    ("{$.rate}", {"rate": 0.5}, 0.5),
    ("$.a[0].b", {"a": [{"b": None}]}, None),
    (".a[*].b", {"a": [{"b": 1}, {"b": 2}]}, [1, 2]),
]


@pytest.mark.parametrize(("path", "answer", "value"), VALUES)
def test_values_of_an_endpoint(endpoint: Endpoint, path: str, answer: Any, value: Any) -> None:
    endpoint.says(answer)
    assert asked(web(endpoint, path)) == value


def test_a_query_is_sent_as_prometheus_takes_it(endpoint: Endpoint) -> None:
    endpoint.says({"status": "success", "data": {
        "resultType": "vector", "result": [{"metric": {}, "value": [1, "0.25"]}]}})  # fmt: skip
    query = 'sum(x{r="{{ revision }}", n=~"{{namespace}}|a&b"})'
    provider = MetricProvider(prometheus=PrometheusProvider(f"{endpoint.url}/prom/", query))
    access = Access({"username": "me", "password": "pw"})
    assert asked(provider, access) == [0.25]
    ((path, header),) = endpoint.requests
    assert path == "/prom/api/v1/query?query=sum(x%7Br%3D%22abc%22,+n%3D~%22shop%7Ca%26b%22%7D)"
    assert header == "Basic bWU6cHc="


# Answer of Prometheus, values or the reason why there are none.
SAMPLES: list[tuple[Any, list[float] | str]] = [
    ({"resultType": "scalar", "result": [1, "2"]}, [2.0]),
    ({"resultType": "vector", "result": []}, []),
    ({"resultType": "matrix", "result": []}, "the query gives a matrix"),
    ({"resultType": "string", "result": [1, "x"]}, "the query gives a string"),
    ({"resultType": "vector", "result": [{"histogram": []}]}, "not a list of numbers"),
    ({"resultType": "scalar", "result": [1, "x"]}, "not a list of numbers"),
    ({"resultType": "vector", "result": None}, "not a list of numbers"),
    (None, "the query gives a None"),
]


@pytest.mark.parametrize(("data", "found"), SAMPLES)
def test_samples_of_a_query(data: Any, found: list[float] | str) -> None:
    reply = HttpReply(200, json.dumps({"status": "success", "data": data}).encode())
    if isinstance(found, list):
        assert samples(reply) == found
        return
    with pytest.raises(Unavailable, match=found):
        samples(reply)


def test_an_error_of_prometheus_is_quoted() -> None:
    body = b'{"status":"error","errorType":"bad_data","error":"parse error"}'
    with pytest.raises(Unavailable, match="with status 400: parse error"):
        samples(HttpReply(400, body))


NONE: list[tuple[int, bytes, dict[str, str], str]] = [
    (302, b"{}", {"Location": "http://127.0.0.1:1/"}, "answered with status 302"),
    (503, b"{}", {}, "answered with status 503"),
    (200, b"<html>", {}, "is not JSON"),
    (200, b"", {}, "is not JSON"),
    (200, b"[" * 100_000, {}, "is not JSON"),
    (200, b"[" * 100 + b"]" * 100, {}, "nested more than 64 levels deep"),
    (200, b'{"x": 1}', {}, "has no value at"),
    (200, gzip.compress(b'{"errors": 1}'), {"Content-Encoding": "gzip"}, "is not JSON"),
    (200, b" " * (ANSWER_MAX + 1), {}, "larger than 1048576 bytes"),
]


@pytest.mark.parametrize("row", NONE, ids=[row[3] + str(n) for n, row in enumerate(NONE)])
def test_answers_that_are_none(
    endpoint: Endpoint, row: tuple[int, bytes, dict[str, str], str]
) -> None:
    endpoint.status, endpoint.body, endpoint.headers, why = row
    with pytest.raises(Unavailable, match=why):
        asked(web(endpoint, "{$.errors}"))
    assert len(endpoint.requests) == 1


def test_a_server_that_does_not_answer_is_given_ten_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        request = HttpGet(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        clock = ManualClock()
        with pytest.raises(Unavailable, match="no response within 10 s"):
            clock.run(fetch(request))
        assert clock.monotonic() <= 10


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(Unavailable):
        asyncio.run(fetch(HttpGet(url=f"http://127.0.0.1:{port}")))


@pytest.mark.parametrize("ca", ["x", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"])
def test_a_certificate_that_is_none_is_an_error(ca: str, endpoint: Endpoint) -> None:
    with pytest.raises(Unavailable, match=r"ca\.crt of its Secret is not a certificate"):
        asyncio.run(fetch(HttpGet(url=endpoint.url, ca=ca)))
    assert endpoint.requests == []


# Address that a name leads to, and whether an object may use it.
ADDRESSES = [
    ("10.1.2.3", True), ("93.184.216.34", True), ("2001:db8::1", True), ("fd00::1", True),
    ("127.0.0.1", False), ("127.9.9.9", False), ("::1", False), ("0.0.0.0", False), ("::", False),
    ("169.254.169.254", False), ("fe80::1%eth0", False), ("224.0.0.1", False), ("ff02::1", False),
    ("::ffff:127.0.0.1", False), ("::ffff:169.254.169.254", False),
]  # fmt: skip


class Names(AbstractResolver):
    """Every name leads to `address`; names are kept as they were asked for."""

    def __init__(self, address: str) -> None:
        self.address, self.asked = address, list[str]()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        found = {"hostname": host, "host": self.address, "port": port}
        return [ResolveResult(**found, family=family, proto=0, flags=0)]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("address", "good"), ADDRESSES)
def test_a_name_of_an_object_that_leads_to_this_machine_is_refused(
    address: str, good: bool
) -> None:
    assert is_forbidden(address) is not good
    names = Names(address)
    resolver = GuardedResolver(names)
    if good:
        (found,) = asyncio.run(resolver.resolve("a.example.com", 443))
        assert (found["hostname"], found["host"]) == ("a.example.com", address)
    else:
        with pytest.raises(OSError, match="that objects may not use"):
            asyncio.run(resolver.resolve("a.example.com", 443))
    assert names.asked == ["a.example.com."]


def test_only_services_are_searched_in_the_domains_of_the_cluster() -> None:
    names = Names("10.0.0.1")
    resolver = GuardedResolver(names)
    for host in ("prometheus.shop.svc", "kubernetes.default", "a.example.com."):
        asyncio.run(resolver.resolve(host))
    assert names.asked == ["prometheus.shop.svc", "kubernetes.default.", "a.example.com."]


def test_a_guarded_request_does_not_reach_this_machine_by_a_name(endpoint: Endpoint) -> None:
    url = f"http://a.example.com:{endpoint.url.rpartition(':')[2]}"
    with pytest.raises(Unavailable, match="that objects may not use"):
        asyncio.run(fetch(HttpGet(url=url, guarded=True), Names("127.0.0.1")))
    assert endpoint.requests == []
    reply = asyncio.run(fetch(HttpGet(url=url), Names("127.0.0.1")))
    assert (reply.status, len(endpoint.requests)) == (200, 1)


def test_values_as_records_show_them() -> None:
    shown = [value_text(v) for v in ([0.5], [1, 2], "ok", True, None, {"a": "é"}, [float("nan")])]
    assert shown == ["0.5", "[1,2]", '"ok"', "true", "null", '{"a":"é"}', "NaN"]
    access = Access({"username": "me", "password": 'p"w/d', "ca.crt": "cert"})
    text = 'p"w/d p\\"w/d p%22w%2Fd bWU6cCJ3L2Q= me cert\nline'
    assert access.cover(text) == "*** *** *** *** me cert line"
    assert len(Access().cover("x" * 999)) == 200
    for length in range(19_990, 20_010):
        echo = Access({"bearerToken": "s3cr3t-" * 2_000}).cover("s3cr3t-" * 2_000 + "." * length)
        assert "s3cr3t" not in echo
    assert "s3" not in Access({"bearerToken": "s3cr3t-" * 900}).cover("s3cr3t-" * 9_000)


def test_a_header_that_cannot_be_sent_is_an_error_without_its_value() -> None:
    with pytest.raises(Unavailable) as refused:
        Access({"bearerToken": "s3cret\r\nX: y"}).headers()
    assert "s3cret" not in str(refused.value)


def test_a_selected_value_is_bounded() -> None:
    body = b'{"a":[' + b",".join([b"1"] * 20_000) + b"]}"
    with pytest.raises(Unavailable, match="more than 10000 values"):
        selected(".a[*]", HttpReply(200, body))


def test_the_end_of_a_line_is_no_part_of_a_user_or_password() -> None:
    plain = Access({"username": "me", "password": "pw"})
    assert Access({"username": "me\n", "password": "pw\n"}).headers() == plain.headers()
