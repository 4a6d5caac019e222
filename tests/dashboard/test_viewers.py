"""The dashboard for users of a cluster, over TLS: sessions, streams, and many or slow browsers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from gitkruise.dashboard.access import HEADERS
from gitkruise.dashboard.board import Board
from gitkruise.dashboard.gate import MachineGate
from gitkruise.dashboard.server import serve_dashboard, serve_viewers
from gitkruise.dashboard.stream import STREAMS_MAX, Streams
from gitkruise.dashboard.viewers import ClusterGate
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.certificates import new_authority, new_server, server_context
from gitkruise.kube.system.clock import SystemClock
from tests.clock import ManualClock
from tests.dashboard.cluster import JANE, ROOT, RULES, STRANGER, Reviewing, guarded_shop
from tests.dashboard.table import Table
from tests.dashboard.test_server import HANG_S, Browser

FAST = 600.0  # a minute in a tenth of a second


@dataclass
class Guarded(Browser):
    """A client of a dashboard whose rows a cluster guards."""

    cluster: Reviewing


Body = Callable[[Guarded], Coroutine[Any, Any, None]]


def play(body: Body, speed: float = 1.0) -> None:
    async def run() -> None:
        table, cluster, clock = guarded_shop(), Reviewing(), SystemClock(speed=speed)
        now = clock.now()
        context = server_context(new_server(new_authority(now), now))
        gate = ClusterGate(cluster, RULES, clock)
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=False)
        async with (
            serve_viewers(table, Listen(port=0), gate, context, clock) as url,
            aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session,
        ):
            assert url.startswith("https://127.0.0.1:")
            assert "token" not in url
            await body(Guarded(url.rstrip("/"), session, table, cluster))

    asyncio.run(run())


def test_a_token_of_the_cluster_opens_a_session() -> None:
    async def body(browser: Guarded) -> None:
        reply = await browser.ask("/api/v1/session")
        assert (reply.status, await reply.json()) == (401, {"signIn": "token"})
        assert {k: reply.headers.get(k) for k in HEADERS} == HEADERS
        assert await browser.enter("wrong") == 401
        assert await browser.enter(JANE) == 204
        reply = await browser.ask("/api/v1/session")
        assert (reply.status, await reply.json()) == (200, {"viewer": "jane"})
        assert (await browser.ask("/api/v1/session", "DELETE")).status == 204
        assert (await browser.ask("/api/v1/session")).status == 401

    play(body)


def test_a_viewer_gets_rows_of_their_own_namespace_only() -> None:
    async def body(browser: Guarded) -> None:
        await browser.enter(JANE)
        query = "topic=fleet&topic=events&topic=later&topic=pods/cloneset/bank/ledger"
        async with browser.stream(query) as stream:
            denied = [await stream.next("denied")]
            denied.append(await stream.next("denied"))
        assert {message["topic"] for message in denied} == {"later", "pods/cloneset/bank/ledger"}
        async with browser.stream("topic=fleet&topic=events") as stream:
            events, fleet = await stream.next("rows"), await stream.next("rows")
        assert set(events["set"]) == {"shop/a"}
        assert set(fleet["set"]) == {"", "cloneset/shop/cart"}
        assert "bank" not in json.dumps([events, fleet])
        for path, status in (
            ("/api/v1/why/cloneset/shop/cart", 200),
            ("/api/v1/why/cloneset/bank/ledger", 403),
            ("/api/v1/why/sidecarset/mesh", 403),
            ("/api/v1/past/cloneset/shop/cart", 404),
            ("/api/v1/past/cloneset/bank/ledger", 403),
            ("/api/v1/past/cloneset/bank/ledger?at=2026-11-26T10:00:00Z", 403),
            ("/api/v1/why/cloneset/bank%2Fledger", 403),
            ("/api/v1/stream?topic=pods/cloneset/bank/ledger", 403),
            ("/api/v1/later", 403),
        ):
            reply = await browser.ask(path)
            assert reply.status == status, path
            if status == 403:
                assert "jane may not list" in (await reply.json())["message"]

    play(body)


def test_a_request_may_carry_the_token_itself() -> None:
    async def body(browser: Guarded) -> None:
        for token, status in ((ROOT, 200), (STRANGER, 403), ("wrong", 401)):
            headers = {"Authorization": f"Bearer {token}"}
            reply = await browser.ask("/api/v1/why/cloneset/shop/cart", headers=headers)
            assert reply.status == status

    play(body)


def test_requests_of_other_sites_get_nothing_whatever_they_carry() -> None:
    async def body(browser: Guarded) -> None:
        await browser.enter(ROOT)
        for path in ("/", "/api/v1/session", "/api/v1/stream?topic=fleet"):
            foreign = {"Origin": "https://evil.example.com"}
            assert (await browser.ask(path, headers=foreign)).status == 403

    play(body)


def test_a_stream_ends_with_the_token_of_its_viewer() -> None:
    async def body(browser: Guarded) -> None:
        await browser.enter(JANE)
        async with browser.stream() as stream:
            await stream.next("rows")
            browser.cluster.users.clear()
            await stream.next("bye")
            assert await stream.reply.content.read() == b""
        assert (await browser.ask("/api/v1/session")).status == 401

    play(body, FAST)


def test_a_right_that_is_taken_away_takes_its_rows() -> None:
    async def body(browser: Guarded) -> None:
        await browser.enter(JANE)
        async with browser.stream("topic=fleet&topic=pods/cloneset/shop/cart") as stream:
            first = await stream.next("rows")
            assert "cloneset/shop/cart" in first["set"]
            browser.cluster.rights.clear()
            found: set[tuple[str, ...]] = set()
            while len(found) < 2:  # in either order
                message = await stream.next("rows", "denied")
                if "message" in message or message["gone"]:
                    found.add((message["topic"], *message.get("gone", ())))
            assert found == {("fleet", "cloneset/shop/cart"), ("pods/cloneset/shop/cart",)}

    play(body, FAST)


def test_without_an_answer_of_the_cluster_nothing_is_shown() -> None:
    async def body(browser: Guarded) -> None:
        await browser.enter(JANE)
        async with browser.stream() as stream:
            await stream.next("rows")
            browser.cluster.away = True
            await stream.next("bye")
        for method, path in (("GET", "/api/v1/session"), ("POST", "/api/v1/session")):
            reply = await browser.ask(path, method, json={"token": "another"})
            assert reply.status == 503
            assert "refused" not in await reply.text()
        assert (await browser.ask("/")).status == 200

    play(body, FAST)


@pytest.mark.slow
def test_a_thousand_viewers_cost_one_read_and_one_frame() -> None:
    clock, cluster, table = ManualClock(), Reviewing(), guarded_shop()
    gate = ClusterGate(cluster, RULES, clock)
    streams = Streams(Board(table, clock), clock)

    async def body() -> None:
        got = 0

        async def watch(token: str, stop: asyncio.Event) -> None:
            nonlocal got
            viewer = await gate.viewer({"Authorization": f"Bearer {token}"}, 0)
            assert viewer is not None
            events = streams.events(frozenset({"fleet"}), viewer)
            async for event in events:
                got += event.startswith(b"event: rows")
                if stop.is_set():
                    break
            await events.aclose()

        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(streams.board.run())
            watching = [
                tasks.create_task(watch((JANE, ROOT)[number % 2], stop)) for number in range(1_000)
            ]
            await clock.sleep(1)
            assert (got, table.reads, streams.frames.encoded) == (1_000, 1, 2)
            for number in range(10):
                cart = {**table.topics["fleet"]["cloneset/shop/cart"], "message": str(number)}
                table.topics["fleet"] = {**table.topics["fleet"], "cloneset/shop/cart": cart}
                table.changed.set()
                await clock.sleep(1)
            assert (got, table.reads, streams.frames.encoded) == (11_000, 11, 22)
            assert cluster.asked.total() < 30
            stop.set()
            for task in watching:
                task.cancel()
            running.cancel()

    clock.run(body())
    assert not streams._open
    assert STREAMS_MAX > 1_000


def test_there_is_room_for_so_many_viewers() -> None:
    clock = ManualClock()
    streams = Streams(Board(guarded_shop(), clock), clock, most=1)

    async def body() -> None:
        assert not streams.full
        events = streams.events(frozenset({"fleet"}))
        assert (await anext(events)).startswith(b"event: hello")
        assert streams.full
        await events.aclose()
        assert not streams.full

    clock.run(body())


@pytest.mark.slow
def test_a_browser_that_reads_nothing_is_disconnected() -> None:
    """What waits for it is one frame, whatever changes meanwhile, and for a minute only."""

    async def run() -> None:
        table, token = Table(), "t" * 43
        table.topics["fleet"] = {"": {"filler": "x" * 8_000_000}}
        clock = SystemClock(speed=FAST)
        async with serve_dashboard(table, Listen(port=0), MachineGate(token, clock), clock) as url:
            base = url.partition("/#")[0]
            async with aiohttp.ClientSession() as session:
                opened = await session.post(f"{base}/api/v1/session", json={"token": token})
                cookie = opened.headers["Set-Cookie"].partition(";")[0]
            host = base.removeprefix("http://")
            reader, writer = await asyncio.open_connection(*host.split(":"), limit=1024)
            request = (
                f"GET /api/v1/stream?topic=fleet HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n"
            )
            writer.write(f"{request}\r\n".encode())
            await reader.readuntil(b"hello")
            for number in range(40):
                table.topics["fleet"] = {"": {"filler": f"{number}" * 8_000_000}}
                table.changed.set()
                await clock.sleep(6)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                async with asyncio.timeout(HANG_S):
                    await reader.readexactly(30_000_000)
            writer.close()

    asyncio.run(run())
