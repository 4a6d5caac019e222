"""Connections are counted from accept on: who holds many open shuts out no one."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from aiohttp import web

from gitkruise.kube.serve import connection_limits
from gitkruise.kube.serve.connection_limits import BoundedServer, bound
from tests.kube.certificates import self_signed

MOST: Final = 8
REQUEST: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def door(most: int = MOST) -> AsyncIterator[tuple[BoundedServer, int]]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return web.Response(text="here")

    server, listeners = BoundedServer(answer, most=most, log_as="door"), bound("127.0.0.1", 0)
    async with server.accepting(listeners, None):
        yield server, listeners[0].getsockname()[1]
    await server.shutdown(0.05)


async def fresh(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    try:
        return await reader.readline()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\nHo",
        REQUEST,
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half a header", "a request, then nothing", "half a body"],
)
def test_whoever_holds_all_connections_makes_room(data: bytes) -> None:
    async def main() -> None:
        async with door() as (server, port):
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST * 4)]
            for _, writer in held:
                writer.write(data)
            for _ in range(3):
                assert await fresh(port) == b"HTTP/1.1 200 OK\r\n"
                assert server.held <= MOST
            for _, writer in held:
                writer.close()

    asyncio.run(main())


def test_a_connection_that_answers_is_not_hung_up() -> None:
    async def main() -> None:
        async with door() as (_, port), AsyncExitStack() as stack:
            writers = []
            for _ in range(MOST * 4):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
            session = await stack.enter_async_context(aiohttp.ClientSession())
            for _ in range(10):  # it has been idle for the shortest time
                async with session.get(f"http://127.0.0.1:{port}/") as answer:
                    assert await answer.text() == "here"
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writers.append(writer)
            for writer in writers:
                writer.close()

    asyncio.run(main())


def test_running_out_of_files_is_logged_once_and_makes_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with door(most=1000) as (server, port):
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            while server.held < len(held):  # noqa: ASYNC110  the server offers no event
                await asyncio.sleep(0)
            with _one_more_file():
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(REQUEST)
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            writer.close()
            for _, one in held:
                one.close()
            assert server.held <= len(held)

    gc.collect()  # sockets of other tests, which would be closed meanwhile and make room
    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    logged = [one for one in caplog.records if one.name == connection_limits.log.name]
    assert [one.getMessage().split()[0] for one in logged] == ["event=accept-paused"]


@pytest.mark.slow
def test_connections_before_tls_cost_little(tmp_path: Path) -> None:
    context = self_signed().server_context(tmp_path)

    async def main() -> None:
        async def answer(_: web.BaseRequest) -> web.StreamResponse:
            return web.Response()

        server, listeners = BoundedServer(answer, most=300, log_as="door"), bound("127.0.0.1", 0)
        async with server.accepting(listeners, context):
            port = listeners[0].getsockname()[1]
            before = _resident()
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(400)]
            assert server.held <= 300
            assert _resident() - before < 100 << 20
            for _, writer in held:
                writer.close()
        await server.shutdown(0.05)

    asyncio.run(main())


@contextmanager
def _one_more_file() -> Iterator[None]:
    """Let the process open one more file and no second one.

    The limit is on the number of a descriptor, and earlier tests leave gaps: all are filled.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    fillers: list[int] = []
    try:
        with suppress(OSError):
            while True:
                fillers.append(os.dup(0))
        os.close(fillers.pop())
        yield
    finally:
        for one in fillers:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
