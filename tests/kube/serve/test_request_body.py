"""Bodies that come slowly or are large hold up no one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from gitkruise.errors import ApiError
from gitkruise.kube.serve import request_body
from gitkruise.kube.serve.connection_limits import BoundedServer, bound
from gitkruise.kube.serve.request_body import SMALL, Bodies

LIMIT = 4 * SMALL


@asynccontextmanager
async def reading(limit: int = LIMIT) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that counts what it reads, and the sizes of the large bodies it held at a time."""
    bodies, held, most = Bodies(), [0], [0]

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with bodies.read(request, limit=limit) as data:
                held[0] += len(data) > SMALL
                most[0] = max(most[0], held[0])
                await asyncio.sleep(0)
                held[0] -= len(data) > SMALL
                return web.Response(text=str(len(data)))
        except ApiError as error:
            return web.Response(status=error.status)

    server, listeners = BoundedServer(answer, log_as="bodies"), bound("127.0.0.1", 0)
    async with server.accepting(listeners, None):
        yield listeners[0].getsockname()[1], most
    await server.shutdown(0.05)


async def send(port: int, size: int, *, now: int | None = None) -> asyncio.StreamReader:
    """Begin a request of `size` bytes, of which only `now` come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
    writer.write(b"x" * (size if now is None else now))
    OPEN.append(writer)
    return reader


OPEN: list[asyncio.StreamWriter] = []


async def status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> None:
    OPEN.clear()
    monkeypatch.setattr(request_body, "SMALL_WITHIN_S", 0.1)


def play(main: object) -> None:
    assert callable(main)

    async def whole() -> None:
        try:
            await main()
        finally:
            for writer in OPEN:
                writer.close()

    asyncio.run(whole())


def test_slow_bodies_do_not_hold_up_small_ones() -> None:
    async def main() -> None:
        async with reading() as (port, _):
            slow = [await send(port, 1000, now=10) for _ in range(100)]
            large = await send(port, LIMIT, now=SMALL + 1)
            assert await status(await send(port, 1000)) == 200
            assert [await status(one) for one in slow] == [504] * 100
            del large

    play(main)


def test_large_bodies_come_one_after_another() -> None:
    async def main() -> None:
        async with reading() as (port, most):
            large = [await send(port, LIMIT) for _ in range(4)]
            assert [await status(one) for one in large] == [200] * 4
            assert most == [1]

    play(main)


def test_a_slow_large_body_loses_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "LARGE_BYTES_PER_S", 1 << 40)
    monkeypatch.setattr(request_body, "GRACE_S", 0.1)

    async def main() -> None:
        async with reading() as (port, _):
            slow = await send(port, LIMIT, now=SMALL + 1)
            whole = await send(port, LIMIT)
            assert await status(slow) == 504
            assert await status(whole) == 200

    play(main)


def test_who_gets_no_turn_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "TURN_WITHIN_S", 0.05)

    async def main() -> None:
        async with reading() as (port, _):
            await send(port, LIMIT, now=SMALL + 1)
            assert await status(await send(port, LIMIT, now=SMALL + 1)) == 503

    play(main)


@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT])
def test_too_large_is_refused_before_it_is_read(size: int) -> None:
    async def main() -> None:
        async with reading() as (port, _):
            assert await status(await send(port, size, now=10)) == 413

    play(main)
