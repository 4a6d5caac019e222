"""The server over real connections: who gets data, what everyone gets, and streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from yarl import URL

from gitkruise.dashboard.access import HEADERS
from gitkruise.dashboard.gate import ONCE_S, MachineGate
from gitkruise.dashboard.pages import load_pages
from gitkruise.dashboard.server import serve_dashboard
from gitkruise.errors import (
    BranchNotReady,
    ClusterFailed,
    Finding,
    InvalidManifests,
    Unauthorized,
    UsageProblem,
)
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from tests.clock import ManualClock
from tests.dashboard.scenes import pods
from tests.dashboard.table import Table

TOKEN = "t" * 43
HANG_S = 30.0  # a guard, not a measurement


@dataclass
class Browser:
    """A client of a running dashboard."""

    base: str
    session: aiohttp.ClientSession
    table: Table

    async def ask(self, path: str, method: str = "GET", **more: Any) -> aiohttp.ClientResponse:
        async with self.session.request(method, self.base + path, **more) as reply:
            await reply.read()
            return reply

    async def enter(self, token: str = TOKEN) -> int:
        reply = await self.ask("/api/v1/session", "POST", json={"token": token})
        return reply.status

    @asynccontextmanager
    async def stream(self, query: str = "topic=fleet") -> AsyncIterator[Stream]:
        async with self.session.get(f"{self.base}/api/v1/stream?{query}") as reply:
            assert reply.status == 200
            yield Stream(reply)


@dataclass
class Stream:
    """Events of an open stream."""

    reply: aiohttp.ClientResponse

    async def next(self, *names: str) -> Any:
        """The data of the next event of one of these names."""
        async with asyncio.timeout(HANG_S):
            while True:
                block = await self.reply.content.readuntil(b"\n\n")
                kind, data = block.decode().removesuffix("\n\n").split("\n", 1)
                if kind.removeprefix("event: ") in names:
                    return json.loads(data.removeprefix("data: "))


def play(body: Callable[[Browser], Awaitable[None]]) -> None:
    async def run() -> None:
        table = Table()
        table.topics["fleet"] = {"": {"cluster": "x"}, "cloneset/shop/cart": {"state": "Done"}}
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address, as browsers keep them
        clock = SystemClock()
        async with (
            serve_dashboard(table, Listen(port=0), MachineGate(TOKEN, clock), clock) as url,
            aiohttp.ClientSession(cookie_jar=jar) as session,
        ):
            base, _, fragment = url.partition("/#")
            assert fragment == f"token={TOKEN}"
            await body(Browser(base, session, table))

    asyncio.run(run())


DATA = (
    "/api/v1/session", "/api/v1/stream?topic=fleet", "/api/v1/why/cloneset/shop/cart",
    "/api/v1/commit/4f2c9e1", "/api/v1/plan/4f2c9e1", "/api/v1/diff/4f2c9e1",
    "/api/v1/drift", "/api/v1/machines", "/api/x",
)  # fmt: skip
PAGES = (
    "/", "/commits", "/commit/4f2c9e1", "/drift", "/nodes", "/events", "/cloneset/shop/cart",
    "/sidecarset/mesh",
)  # fmt: skip


def test_data_needs_a_session_and_pages_do_not() -> None:
    async def body(browser: Browser) -> None:
        for path in DATA:
            assert (await browser.ask(path)).status == 401, path
        assert (await browser.ask("/api/v1/stream/x", "POST", json={"topics": []})).status == 401
        for path in PAGES:
            reply = await browser.ask(path)
            assert (reply.status, reply.content_type) == (200, "text/html"), path
        assert await browser.enter("wrong") == 401
        assert (await browser.ask(DATA[0])).status == 401
        assert await browser.enter() == 204
        assert (await browser.ask(DATA[0])).status == 204
        assert (await browser.ask("/api/x")).status == 404

    play(body)


def test_what_was_watched_is_remembered() -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        browser.table.topics["pods/cloneset/shop/cart"] = pods(3, 1)
        about = "/api/v1/past/cloneset/shop/cart"
        assert (await browser.ask(about)).status == 404
        async with browser.stream("topic=pods/cloneset/shop/cart") as stream:
            await stream.next("rows")
            found = await (await browser.ask(about)).json()
        assert [moment["pods"] for moment in found["moments"]] == [{"6b5d4f7c9": 3}]
        moment = await (await browser.ask(f"{about}?at={found['now']}")).json()
        assert moment["rows"] == pods(3, 1)
        assert moment["at"] == found["since"]
        reply = await browser.ask(f"{about}?at=2020-01-01T00:00:00Z")
        assert reply.status == 404
        assert found["since"] in (await reply.json())["message"]

    play(body)


def test_an_address_for_a_browser_opens_one_session_soon() -> None:
    """Every user of the machine can read the command line of that browser."""
    clock = ManualClock()

    async def opens(gate: MachineGate, url: str) -> bool:
        base, _, key = url.partition("#token=")
        assert base == "http://127.0.0.1:8800/"
        return bool(await gate.enter(key, 8800))

    async def body() -> None:
        gate = MachineGate(TOKEN, clock)
        url = f"http://127.0.0.1:8800/#token={TOKEN}"
        first, second, third = (gate.once(url) for _ in range(3))
        assert TOKEN not in first + repr(gate)
        assert [await opens(gate, first) for _ in range(2)] == [True, False]
        await clock.sleep(ONCE_S - 1)
        assert await opens(gate, second)
        await clock.sleep(1)
        assert not await opens(gate, third)
        assert await opens(gate, url)

    clock.run(body())


@pytest.mark.slow
def test_every_answer_carries_the_headers_of_pages() -> None:
    async def body(browser: Browser) -> None:
        paths = ("/", "/nothing/of/that/kind/here", *DATA)
        for path in paths:
            reply = await browser.ask(path)
            assert {k: reply.headers.get(k) for k in HEADERS} == HEADERS, path
        await browser.enter()
        async with browser.stream() as stream:
            assert stream.reply.headers["Cache-Control"] == "no-store"
            assert {k: stream.reply.headers.get(k) for k in HEADERS} == HEADERS

    play(body)


def test_requests_of_other_sites_get_nothing() -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        for headers, status in (
            ({"Host": "rebound.example.com"}, 421),
            ({"Origin": "https://evil.example.com"}, 403),
        ):
            for path in ("/", *DATA):
                assert (await browser.ask(path, headers=headers)).status == status

    play(body)


@pytest.mark.parametrize(
    ("path", "method", "allow"),
    [
        ("/", "POST", "GET, HEAD"),
        ("/shop", "DELETE", "GET, HEAD"),
        ("/api/v1/session", "PUT", "DELETE, GET, POST"),
        ("/api/v1/stream", "POST", "GET"),
        ("/api/v1/why/cloneset/shop/cart", "POST", "GET"),
        ("/api/v1/drift", "HEAD", "GET"),
    ],
)
def test_another_method_is_refused_with_those_that_are_allowed(
    path: str, method: str, allow: str
) -> None:
    """Also without a session: it is the address that does not take the method."""

    async def body(browser: Browser) -> None:
        for _ in range(2):
            reply = await browser.ask(path, method)
            assert (reply.status, reply.headers.get("Allow")) == (405, allow)
            await browser.enter()

    play(body)


def test_a_404_about_data_says_what_is_missing() -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        reply = await browser.ask("/api/v1/past/cloneset/shop/none")
        assert (reply.status, await reply.json()) == (404, {"missing": "cloneset/shop/none"})

    play(body)


def test_only_assets_are_files() -> None:
    async def body(browser: Browser) -> None:
        version = load_pages().version
        script = await browser.ask(f"/static/{version}/app.js")
        assert (script.status, script.content_type) == (200, "text/javascript")
        assert "immutable" in script.headers["Cache-Control"]
        names = ("../server.py", "%2e%2e/server.py", "..%2fserver.py", "", "app.js/", "none.js")
        for name in names:
            url = URL(f"{browser.base}/static/{version}/{name}", encoded=True)
            async with browser.session.get(url) as reply:
                assert reply.status == 404, name
                assert "its first page is /" in await reply.text(), name
        assert (await browser.ask("/static/old/app.js")).status == 404

    play(body)


@pytest.mark.slow
def test_a_stream_sends_what_changes_and_takes_new_topics() -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        table = browser.table
        async with browser.stream() as stream:
            opened = await stream.next("hello")
            first = await stream.next("rows")
            assert (first["topic"], first["reset"]) == ("fleet", True)
            assert first["set"]["cloneset/shop/cart"] == {"state": "Done"}
            table.topics["fleet"] = {"": {"cluster": "x"}, "cloneset/shop/cart": {"state": "Held"}}
            table.changed.set()
            rows = await stream.next("rows")
            assert rows["set"] == {"cloneset/shop/cart": {"state": "Held"}}
            assert (rows["reset"], rows["gone"]) == (False, [])
            table.topics["events"] = {"a": {"reason": "Killing"}}
            path = f"/api/v1/stream/{opened['stream']}"
            choice = {"topics": ["events"]}
            assert (await browser.ask(path, "POST", json=choice)).status == 204
            rows = await stream.next("rows")
            assert (rows["topic"], rows["set"]) == ("events", {"a": {"reason": "Killing"}})
        gone = await browser.ask("/api/v1/stream/none", "POST", json=choice)
        assert gone.status == 404

    play(body)


BODIES = {
    "no JSON": b"{",
    "no object": b"[]",
    "no list": b'{"topics": "fleet"}',
    "numbers": b'{"topics": [1]}',
    "too many": json.dumps({"topics": [str(n) for n in range(100)]}).encode(),
    "too long": json.dumps({"topics": ["x" * 10_000]}).encode(),
    "huge": b" " * 200_000,
}


@pytest.mark.parametrize("row", BODIES)
def test_what_is_no_choice_of_topics_is_refused(row: str) -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        reply = await browser.ask("/api/v1/stream/any", "POST", data=BODIES[row])
        assert reply.status == 400

    play(body)


def test_an_explanation_that_fails_says_why() -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        reply = await browser.ask("/api/v1/why/cloneset/shop/cart")
        assert (await reply.json())["reasons"] == ["cloneset shop cart"]
        assert (await browser.ask("/api/v1/why/cloneset")).status == 404
        browser.table.known = False
        assert (await browser.ask("/api/v1/why/cloneset/shop/cart")).status == 404
        browser.table.known = True
        browser.table.failure = ClusterFailed(Finding(code="GK4101", message="away"))
        reply = await browser.ask("/api/v1/why/cloneset/shop/cart")
        assert (reply.status, "away" in (await reply.json())["message"]) == (502, True)

    play(body)


AWAY = Finding(code="GK0", message="away", notes=(("why", "it left"), ("next", "wait")))
FAILURES = (
    (ClusterFailed(AWAY), 502),
    (Unauthorized("away"), 502),  # of the API server: the session of the browser goes on
    (UsageProblem(AWAY), 422),
    (InvalidManifests(AWAY), 422),
    (BranchNotReady(AWAY), 409),
)


@pytest.mark.parametrize("about", ["commit/4f2c9e1", "plan/4f2c9e1", "drift"])
def test_answers_that_take_a_computation(about: str) -> None:
    async def body(browser: Browser) -> None:
        await browser.enter()
        assert (await browser.ask(f"/api/v1/{about}")).status == 404
        browser.table.answers[about] = {"at": "now"}
        reply = await browser.ask(f"/api/v1/{about}")
        assert (reply.status, await reply.json()) == (200, {"at": "now"})
        for failure, status in FAILURES:
            browser.table.failure = failure
            reply = await browser.ask(f"/api/v1/{about}")
            answer = await reply.json()
            assert (reply.status, "away" in answer["message"]) == (status, True)
            assert answer["next"] == ("" if isinstance(failure, Unauthorized) else "wait")

    play(body)


@pytest.mark.slow
def test_a_browser_that_does_not_read_holds_up_nobody() -> None:
    """Its connection holds one frame; others get theirs."""

    async def body(browser: Browser) -> None:
        await browser.enter()
        cookie = "; ".join(f"{c.key}={c.value}" for c in browser.session.cookie_jar)
        host = browser.base.removeprefix("http://")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        request = f"GET /api/v1/stream?topic=fleet HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n"
        writer.write(f"{request}\r\n".encode())
        await reader.readuntil(b"hello")
        filler = "x" * 300_000
        async with browser.stream() as stream:
            for n in range(8):
                browser.table.topics["fleet"] = {"": {"n": n, "filler": filler}}
                browser.table.changed.set()
                rows = await stream.next("rows")
                while rows["set"][""].get("n") != n:
                    rows = await stream.next("rows")
        writer.close()

    play(body)
