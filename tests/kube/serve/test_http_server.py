"""Our small servers: who comes while one of them leaves is not served any more."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from gitkruise.errors import UsageProblem
from gitkruise.kube.serve.addresses import Listen, parse_listen
from gitkruise.kube.serve.http_server import ServerTerms, serving
from tests.kube.certificates import self_signed

TERMS: Final = ServerTerms(does="answer", code="GK0001", log="answers", limits={})
REQUEST: Final = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Shaking:
    """A TLS handshake in steps: what a client has to send next."""

    def __init__(self, trusted: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=trusted)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def next(self, data: bytes = b"") -> tuple[bytes, bool]:
        """Return the bytes to send after `data`, and whether they end the handshake."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read(), False
        return self._outgoing.read(), True

    def sealed(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()


def test_a_handshake_that_ends_after_the_server_left_is_nobodys(tmp_path: Path) -> None:
    pair, answered = self_signed(), []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        answered.append(request.path)
        return web.Response()

    async def main() -> None:
        shaking = Shaking(pair.cert_pem)
        context = pair.server_context(tmp_path)
        async with serving(answer, TERMS, Listen("127.0.0.1", 0), context) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            data, done = shaking.next()
            while not done:
                writer.write(data)
                data, done = shaking.next(await reader.read(65536))
        with suppress(ConnectionError):
            writer.write(data + shaking.sealed(REQUEST))
            while await reader.read(65536):
                pass
        writer.close()

    asyncio.run(main())
    assert answered == []


def test_a_taken_port_is_reported_with_the_flag_that_chose_it() -> None:
    """The dashboard of `run` is at another flag than that of `dashboard`."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.path)

    async def body(listen: Listen) -> None:
        async with serving(answer, TERMS, listen):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageProblem) as caught:
            asyncio.run(body(parse_listen(address, flag="--dashboard")))
    notes = dict(caught.value.findings[0].notes)
    assert notes["next"] == "choose another address with --dashboard HOST:PORT"
