"""A real HTTP server on loopback whose answers a test dictates, one after the other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.auth.credentials import Header
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock

Answer = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
FAST = SystemClock(speed=1000)  # pauses between tries cost nothing


@dataclass
class Asked:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Scripted:
    """Answers in order; bytes are written whole and the connection stays open."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(h.lower().split(": ", 1) for h in head[1:] if h)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(Asked(head[0], headers, body))
                answer = self.answers.pop(0)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(reader, writer)
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


def reply(status: int, body: bytes = b"{}", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def raw(data: bytes) -> Answer:
    """Write `data` and close the connection."""

    async def act(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return act


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Say nothing until the client hangs up."""
    await reader.read()


def connection_to(url: str, *, token: str = "", ca_pem: str = "") -> Connection:
    """A server spelled out."""
    credentials = Header(f"Bearer {token}" if token else "")
    return Connection(server=url, credentials=credentials, ca_pem=ca_pem)


@asynccontextmanager
async def serving(
    *answers: Answer, tls: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[tuple[HttpTransport, Scripted]]:
    """A transport to a server that gives `answers`; `connect` changes the Connection."""
    scripted = Scripted(list(answers))
    connect: Callable[[Connection], Connection] = options.pop("connect", lambda c: c)
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    transport = HttpTransport(connect(connection_to(address, token="t0ken")), FAST, **options)
    try:
        yield transport, scripted
    finally:
        await transport.close()
        server.close()


def run(main: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(main)
