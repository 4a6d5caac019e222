"""Limits of what a client holds open: connections, unsent headers and bodies, unread watches."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from gitkruise.sandbox.backend.encoding import Encoder
from gitkruise.sandbox.backend.watch_fanout import CHUNK_BYTES, joined
from gitkruise.sandbox.handlers.app import SERVER_ARGS
from gitkruise.sandbox.server import SandboxOptions
from gitkruise.wire.primitives.requests import WatchEvent
from tests.sandbox.served import Client, Served, served

AT_ONCE = 3


@pytest.fixture(scope="module")
def strict() -> Iterator[Served]:
    """A sandbox that waits for a fifth of a second and takes three connections."""
    options = SandboxOptions(ephemeral=True, nodes=0, kubelet=False, controllers=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SERVER_ARGS, "keepalive_timeout", 0.2)
        patch.setattr("gitkruise.sandbox.http.request_decoding.BODY_WITHIN_S", 0.2)
        patch.setattr("gitkruise.kube.serve.connection_limits.CONNECTIONS_MAX", AT_ONCE)
        with served(options) as running:
            yield running


@contextmanager
def opened(client: Client) -> Iterator[ssl.SSLSocket]:
    parts = urlsplit(client.url)
    context = ssl.create_default_context(cadata=client.ca)
    with (
        socket.create_connection((parts.hostname, parts.port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname=parts.hostname) as tls,
    ):
        yield tls


def received(tls: ssl.SSLSocket) -> bytes:
    """Everything up to the end of the connection."""
    pieces = []
    try:
        while piece := tls.recv(1 << 16):
            pieces.append(piece)
    except (ConnectionError, ssl.SSLError):
        pass
    return b"".join(pieces)


def head(client: Client, *lines: str) -> bytes:
    host = f"Host: {urlsplit(client.url).netloc}"
    return "\r\n".join([*lines, host, f"Authorization: Bearer {client.token}", ""]).encode()


@pytest.mark.parametrize("answer", ["nothing", "half a header"])
def test_a_connection_without_a_whole_header_is_closed(strict: Served, answer: str) -> None:
    with opened(strict.client) as tls:
        if answer != "nothing":
            tls.sendall(head(strict.client, "GET /version HTTP/1.1"))
        assert received(tls) == b""


@pytest.mark.slow
def test_a_body_that_does_not_come_is_answered_504(strict: Served) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    with opened(strict.client) as tls:
        lines = (f"POST {path} HTTP/1.1", "Content-Length: 100", "Content-Type: application/json")
        tls.sendall(head(strict.client, *lines) + b"\r\n{")
        assert received(tls).startswith(b"HTTP/1.1 504 ")


def test_a_connection_too_many_is_hung_up(strict: Served) -> None:
    client = strict.client
    watch = head(client, "GET /api/v1/pods?watch=1 HTTP/1.1") + b"\r\n"
    with ExitStack() as stack:
        for _ in range(AT_ONCE):
            tls = stack.enter_context(opened(client))
            tls.sendall(watch)
            assert tls.recv(12) == b"HTTP/1.1 200"
        assert not answers(client)
    # Places are free again once the server heard of it.
    assert any(answers(client) for _ in range(2000))


def answers(client: Client) -> bool:
    try:
        return client.ask("/livez").status == 200
    except (ConnectionError, ssl.SSLError, http.client.HTTPException):
        return False


def test_what_is_written_at_once_is_bounded() -> None:
    big = {"kind": "ConfigMap", "data": {"text": "x" * (CHUNK_BYTES // 4)}}
    events = [WatchEvent(type="ADDED", object=big)] * 10
    frame = len(Encoder().frame(events[0]))
    sizes = [len(piece) for piece in joined(Encoder(), events)]
    assert sum(sizes) == 10 * frame
    assert max(sizes) <= CHUNK_BYTES
    assert len(sizes) < len(events)
