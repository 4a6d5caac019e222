"""HttpTransport against a real server: retries, limits, failures and what they are called."""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from gitkruise.errors import (
    ApiError,
    BadRequest,
    ClusterFailed,
    Conflict,
    Finding,
    Forbidden,
    GatewayTimeout,
    InternalError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.codec import encode
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.limits import AdaptiveLimit
from gitkruise.kube.client.rawobject import RawObject, thaw
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.requests import APPLY_PATCH, MERGE_PATCH, ApiRequest, ResourceRef
from tests.kube.server import FAST, Answer, connection_to, raw, reply, run, serving, silence
from tests.kube.toy import CONFIG_MAPS, PODS

GET = ApiRequest(verb="get", resource=CONFIG_MAPS, namespace="shop", name="a")
POST = ApiRequest(verb="create", resource=CONFIG_MAPS, namespace="shop", body={"a": 1})
PATCH = ApiRequest(
    verb="patch",
    resource=CONFIG_MAPS,
    namespace="shop",
    name="a",
    body={"data": {"a": "1"}},
    content_type=MERGE_PATCH,
)
APPLY = replace(PATCH, content_type=APPLY_PATCH, params={"fieldManager": "gitkruise"})
OK = reply(200, b'{"kind":"ConfigMap"}')
CUT = raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"kind":')
HANG_UP = raw(b"")
BUSY = reply(429, encode(TooManyRequests("slow down").as_status()), Content_Type="application/json")
DOWN = reply(503, encode(Unavailable("starting").as_status()))
BROKEN = reply(500, b"boom")
BY_WEBHOOK = Unauthorized('admission webhook "a.b" denied the request: no owner')
DENIED = reply(401, encode(BY_WEBHOOK.as_status()))


def test_a_request_as_it_goes_over_the_wire() -> None:
    async def main() -> None:
        async with serving(reply(201, b'{"kind":"X"}', Warning='299 - "old \\"v1\\""')) as (t, s):
            got = await t.send(replace(PATCH, params={"fieldManager": "git kruise"}))
        assert (got.status, got.body, got.warnings) == (201, {"kind": "X"}, ('old "v1"',))
        asked = s.asked[0]
        assert asked.line == (
            "PATCH /api/v1/namespaces/shop/configmaps/a?fieldManager=git+kruise HTTP/1.1"
        )
        assert asked.headers["authorization"] == "bearer t0ken"
        assert asked.headers["content-type"] == MERGE_PATCH
        assert asked.body == b'{"data":{"a":"1"}}'

    run(main())


ROWS: list[tuple[str, ApiRequest, list[Answer], type[ApiError] | None, int]] = [
    ("read after a cut body", GET, [CUT, OK], None, 2),
    ("read after a hang-up", GET, [HANG_UP, OK], None, 2),
    ("read after 500", GET, [BROKEN, OK], None, 2),
    ("read after 503", GET, [DOWN, DOWN, OK], None, 3),
    ("read never", GET, [DOWN] * 5, Unavailable, 5),
    ("apply after a cut body", APPLY, [CUT, OK], None, 2),
    ("write after 429", POST, [BUSY, BUSY, OK], None, 3),
    ("write never admitted", POST, [BUSY] * 5, TooManyRequests, 5),
    ("write after a cut body", POST, [CUT, OK], GatewayTimeout, 1),
    ("write after a hang-up", PATCH, [HANG_UP, OK], GatewayTimeout, 1),
    ("write after 500", POST, [BROKEN, OK], InternalError, 1),
    ("write after 503", POST, [DOWN, OK], Unavailable, 1),
    ("conflict", PATCH, [reply(409, encode(Conflict("moved").as_status()))], Conflict, 1),
    ("redirect", GET, [reply(307, Location="https://evil.example")] * 5, InternalError, 5),
    ("unauthorized", GET, [reply(401, b"who?")], Unauthorized, 1),
    ("a webhook that denies with 401", PATCH, [DENIED], Forbidden, 1),
    ("garbage for a write", POST, [reply(200, b"<html>")], GatewayTimeout, 1),
]


@pytest.mark.parametrize(
    ("request_", "answers", "error", "asked"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_what_is_tried_again(
    request_: ApiRequest, answers: list[Answer], error: type[ApiError] | None, asked: int
) -> None:
    async def main() -> None:
        async with serving(*answers) as (transport, scripted):
            if error is None:
                assert (await transport.send(request_)).body == {"kind": "ConfigMap"}
            else:
                with pytest.raises(error):
                    await transport.send(request_)
        assert len(scripted.asked) == asked

    run(main())


def test_connections_are_kept_and_used_again() -> None:
    async def main() -> None:
        async with serving(OK, OK, OK) as (transport, scripted):
            for _ in range(3):
                await transport.send(GET)
        assert scripted.connections == 1

    run(main())


def test_retry_after_is_obeyed_and_halves_the_limit() -> None:
    async def main() -> None:
        async with serving(reply(429, b"", Retry_After="7"), OK) as (transport, _):
            began = FAST.monotonic()
            await transport.send(POST)
            assert FAST.monotonic() - began >= 7
            assert transport.limit.limit == 8

    run(main())


def test_a_lease_waits_for_no_request_that_hangs() -> None:
    lease = ApiRequest(
        verb="update", resource=LEASES, namespace="kube-system", name="gitkruise-sync", body={}
    )

    async def main() -> None:
        hangs = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            hangs.set()
            await reader.read()

        only = AdaptiveLimit(start=1)
        async with serving(hang, OK, limit=only) as (transport, _), asyncio.TaskGroup() as tasks:
            hanging = tasks.create_task(transport.send(POST))
            await hangs.wait()
            async with asyncio.timeout(5):
                await transport.send(lease)
            hanging.cancel()

    run(main())


def test_a_refusal_keeps_the_servers_words() -> None:
    async def main() -> None:
        async with serving(reply(503, b"upstream is gone\n", Retry_After="3")) as (transport, _):
            with pytest.raises(Unavailable) as caught:
                await transport.send(POST)
            assert caught.value.message == "the server answered 503: upstream is gone"
            assert caught.value.details.retry_after_s == 3

    run(main())


@pytest.mark.parametrize(
    ("request_", "status", "error"),
    [
        (POST, 429, TooManyRequests),
        (GET, 429, TooManyRequests),
        (GET, 503, Unavailable),
        (GET, 504, GatewayTimeout),
    ],
)
def test_a_refusal_whose_pause_outlasts_the_deadline_is_what_is_reported(
    request_: ApiRequest, status: int, error: type[ApiError]
) -> None:
    """The server did answer, and a write it refused did not take place."""

    async def main() -> None:
        answer = reply(status, b"busy", Retry_After="3600")
        async with serving(answer, deadline_s=0.05) as (transport, _):
            with pytest.raises(error, match=f"^the server answered {status}: busy$"):
                await transport.send(request_)
            assert transport.limit.running == 0

    run(main())


@pytest.mark.parametrize(
    ("request_", "error"), [(GET, Unavailable), (POST, GatewayTimeout)], ids=["read", "write"]
)
def test_a_silent_server_costs_the_deadline(request_: ApiRequest, error: type[ApiError]) -> None:
    async def main() -> None:
        async with serving(silence, deadline_s=0.05) as (transport, _):
            with pytest.raises(error, match=r"127\.0\.0\.1:\d+: no answer within 0\.05 s"):
                await transport.send(request_)
            assert transport.limit.running == 0

    run(main())


def test_waiting_for_a_turn_does_not_cost_the_deadline() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(start=1, ceiling=1)
        async with serving(OK, deadline_s=0.3, limit=limit) as (transport, _):
            async with asyncio.TaskGroup() as tasks, limit.slot():
                sent = tasks.create_task(transport.send(GET))
                await asyncio.sleep(0.4)
            assert sent.result().status == 200

    run(main())


def test_slow_headers_cost_the_deadline() -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)

    async def main() -> None:
        async with serving(drip, deadline_s=0.05) as (transport, _):
            with pytest.raises(Unavailable, match="within"):
                await transport.send(GET)

    run(main())


def test_large_answers_are_refused() -> None:
    async def main() -> None:
        async with serving(reply(200, b" " * 5000), reply_bytes_max=4096) as (transport, _):
            with pytest.raises(TooLarge):
                await transport.send(GET)

    run(main())


def test_nothing_listens() -> None:
    async def main() -> None:
        async with serving() as (transport, _):
            server = transport.connection.server
        transport = HttpTransport(connection_to(server), FAST)
        try:
            with pytest.raises(Unavailable) as caught:
                await transport.send(POST)
        finally:
            await transport.close()
        host = server.removeprefix("http://")
        assert caught.value.message == (
            f"cannot reach the API server at {host}: connection refused: nothing listens there"
        )

    run(main())


@pytest.mark.parametrize("name", ["..", ".", "a/b"])
def test_names_cannot_leave_their_place_in_the_path(name: str) -> None:
    async def main() -> None:
        async with serving() as (transport, scripted):
            with pytest.raises(BadRequest):
                await transport.send(replace(GET, name=name))
        assert scripted.asked == []

    run(main())


@dataclass
class Renewed:
    """Credentials whose first token is out of date."""

    token: str = "old"
    renewable: ClassVar[bool] = True

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def renew(self) -> None:
        self.token += "+"


def test_refused_credentials_are_renewed_once() -> None:
    def connect(connection: Connection) -> Connection:
        return replace(connection, credentials=Renewed())

    async def main() -> None:
        async with serving(reply(401), OK, connect=connect) as (transport, scripted):
            await transport.send(POST)
        assert [a.headers["authorization"] for a in scripted.asked] == ["bearer old", "bearer old+"]
        async with serving(reply(401), reply(401), OK, connect=connect) as (transport, scripted):
            with pytest.raises(Unauthorized):
                await transport.send(POST)
        assert len(scripted.asked) == 2

    run(main())


class Lost(Renewed):
    """Credentials that cannot be read any more."""

    async def headers(self) -> dict[str, str]:
        raise ClusterFailed(Finding(code="GK4104", message="no token", notes=(("", "gone"),)))


def test_lost_credentials_are_an_answer_that_callers_wait_out() -> None:
    def connect(connection: Connection) -> Connection:
        return replace(connection, credentials=Lost())

    async def main() -> None:
        async with serving(connect=connect) as (transport, scripted):
            with pytest.raises(Unauthorized, match="no token: gone"):
                await transport.send(GET)
            with pytest.raises(Unauthorized, match="no token: gone"):
                await anext(transport.watch(replace(GET, verb="watch", name="")))
        assert scripted.asked == []

    run(main())


def test_pods_stay_bytes_and_revisions_keep_theirs() -> None:
    pod = b'{"metadata":{"name":"a","resourceVersion":"7"},"spec":{}}'
    pods = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[' + pod + b"]}"
    revision = b'{"kind":"ControllerRevision","data":{"b": 1,"a":2}}'

    async def main() -> None:
        async with serving(reply(200, pods), reply(200, revision)) as (transport, _):
            listed = await transport.send(ApiRequest(verb="list", resource=PODS))
            ref = ResourceRef("apps", "v1", "controllerrevisions")
            got = await transport.send(ApiRequest(verb="get", resource=ref, name="r"))
        item: Any = listed.body["items"][0]
        assert isinstance(item, RawObject)
        assert item.raw == pod
        assert thaw(item)["kind"] == "Pod"
        assert listed.body["metadata"] == {"resourceVersion": "9"}
        assert got.body["data"] == RawJSON(b'{"b": 1,"a":2}')

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such option")
def test_bytes_that_the_server_does_not_take_are_dropped() -> None:
    """Else the kernel would deliver them when a partition ends, long after the lease was lost."""
    big = replace(POST, body={"data": "x" * 2**19})

    async def main() -> None:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.bind(("127.0.0.1", 0))
            deaf.listen()
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            where = connection_to(url, token="", ca_pem="")
            async with HttpTransport(where, FAST, unsent_s=0.2) as transport:
                with pytest.raises(GatewayTimeout, match="timed out"):
                    await transport.send(big)

    asyncio.run(main())
