"""A watch that is not read is closed at its bound; too many watches are refused."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

import pytest

from tests.sandbox.served import Client, Served

MAPS = "/api/v1/namespaces/default/configmaps"


def rest_of(tls: ssl.SSLSocket) -> bytes:
    """Read to the end of the connection; return the last bytes."""
    last = b""
    try:
        while piece := tls.recv(1 << 20):
            last = (last + piece)[-16:]
    except (ConnectionError, ssl.SSLError):
        return last
    return last


@pytest.mark.slow
def test_a_slow_reader_is_let_go(
    sandbox: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:  # WATCH-8
    monkeypatch.setattr("gitkruise.sandbox.handlers.resources.WRITE_WITHIN_S", 0.2)
    monkeypatch.setattr("gitkruise.sandbox.handlers.resources.WATCHES_MAX", 1)
    parts = urlsplit(client.url)
    assert parts.hostname is not None
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(20)
    plain.connect((parts.hostname, parts.port))
    context = ssl.create_default_context(cadata=client.ca)
    with context.wrap_socket(plain, server_hostname=parts.hostname) as tls:
        tls.sendall(
            f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {client.token}\r\n\r\n".encode()
        )
        assert tls.recv(16).startswith(b"HTTP/1.1 200")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "big-"}}
        for _ in range(12):
            answer = client.ask(MAPS, "POST", {**body, "data": {"x": "y" * 900_000}})
            assert answer.status == 201
        # The only place is taken until the slow one is gone.
        for _ in range(2000):
            if client.ask(f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=1000000").status == 200:
                break
        else:
            pytest.fail("the slow reader was never let go")
        assert not rest_of(tls).endswith(b"0\r\n\r\n")  # cut off, as a client must notice
    client.ask(MAPS, "DELETE")
    assert client.ask("/livez").status == 200


def test_watches_are_counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:  # B-A20
    monkeypatch.setattr("gitkruise.sandbox.handlers.resources.WATCHES_MAX", 0)
    answer = client.ask(f"{MAPS}?watch=1")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
