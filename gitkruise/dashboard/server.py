"""HTTP server of the dashboard: pages, assets, and data with a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import ClientConnectionResetError, web

from gitkruise.dashboard.access import HEADERS, BrowserAccess
from gitkruise.dashboard.board import Board
from gitkruise.dashboard.pages import Pages, is_page, load_pages
from gitkruise.dashboard.source import Source
from gitkruise.dashboard.stream import Streams, topics_of
from gitkruise.errors import GitkruiseError
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.http_server import ServerTerms, serving
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)
TERMS: Final = ServerTerms(
    does="serve the dashboard",
    flag="--listen",
    code="GK7027",
    log="gitkruise.dashboard.http",
    limits={"keepalive_timeout": 75.0, "lingering_time": 1.0},
    leaving_s=0.2,  # streams never end by themselves
)
BODY_MAX: Final = 64 * 1024
API: Final = "/api/v1"
JSON: Final = "application/json"
_KEPT: Final = "public, max-age=31536000, immutable"
_FRESH: Final = "no-store"
Answer = Callable[["Handler", web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Handler:
    """Answers the requests of browsers."""

    pages: Pages
    token: str
    source: Source
    streams: Streams

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Data needs a session; every answer carries the headers of pages."""
        access = BrowserAccess(self.token, _port(request))
        status = access.refusal(request.headers)
        if status:
            return _reply(status)
        path = request.rel_url.raw_path
        if request.method in {"GET", "HEAD"} and not path.startswith("/api/"):
            return self._file(path)
        if path == f"{API}/session" and request.method == "POST":
            return await _session(access, request)
        if not access.known(request.headers):
            return _reply(401)
        for method, start, answer in _ROUTES:
            if request.method == method and path.startswith(f"{API}/{start}"):
                return await answer(self, request)
        return _reply(404)

    def _file(self, path: str) -> web.Response:
        asset = self.pages.asset(path)
        if asset is not None:
            return _reply(200, asset.content, asset.type, cached=_KEPT)
        if is_page(path):
            return _reply(200, self.pages.page, "text/html; charset=utf-8")
        return _reply(404)

    async def known(self, _: web.BaseRequest) -> web.Response:
        """Tell a page that its session is good."""
        return _reply(204)

    async def why(self, request: web.BaseRequest) -> web.Response:
        """Answer with the explanation of an object."""
        parts = request.rel_url.path.removeprefix(f"{API}/why/").split("/")
        if len(parts) not in {2, 3}:
            return _reply(404)
        noun, *space, name = parts
        return await _answered(self.source.why(noun, "".join(space), name), "/".join(parts))

    async def find_out(self, request: web.BaseRequest) -> web.Response:
        """Answer a question that takes a computation."""
        about = request.rel_url.path.removeprefix(f"{API}/")
        return await _answered(self.source.find_out(about), about)

    async def choose(self, request: web.BaseRequest) -> web.Response:
        """Change the topics of an open stream."""
        body = await _body(request)
        words = body.get("topics") if isinstance(body, dict) else None
        topics = None
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            topics = topics_of(words)
        if topics is None:
            return _reply(400)
        stream = request.rel_url.raw_path.removeprefix(f"{API}/stream/")
        return _reply(204 if self.streams.choose(stream, topics) else 404)

    async def stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send events until the browser leaves."""
        topics = topics_of(request.query.getall("topic", []))
        if topics is None:
            return _reply(400)
        if self.streams.full:
            return _reply(503)
        fields = {**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": _FRESH}
        response = web.StreamResponse(headers=fields)
        await response.prepare(request)
        try:
            async with aclosing(self.streams.events(topics)) as events:
                async for event in events:
                    await response.write(event)
        except (ClientConnectionResetError, ConnectionError):
            pass  # the browser left
        return response


_ROUTES: Final[tuple[tuple[str, str, Answer], ...]] = (
    ("GET", "session", Handler.known),
    ("GET", "stream", Handler.stream),
    ("POST", "stream/", Handler.choose),
    ("GET", "why/", Handler.why),
    ("GET", "commit/", Handler.find_out),
    ("GET", "plan/", Handler.find_out),
    ("GET", "drift", Handler.find_out),
)


async def _answered(asked: Awaitable[Any], about: str) -> web.Response:
    """The answer of a source, which may fail, or have nothing of that name."""
    try:
        found = await asked
    except GitkruiseError as error:
        log.warning(log_line("dashboard-answer-failed", object=about, error=error))
        return _json(502, {"message": str(error)})
    return _json(200, found) if found is not None else _reply(404)


def _port(request: web.BaseRequest) -> int:
    """The port that the browser reached; 0 once it has left."""
    name = request.transport.get_extra_info("sockname") if request.transport else None
    return int(name[1]) if name else 0


async def _session(access: BrowserAccess, request: web.BaseRequest) -> web.Response:
    """Exchange the token for a session."""
    body = await _body(request)
    token = body.get("token") if isinstance(body, dict) else None
    if not isinstance(token, str) or not access.opens(token):
        return _reply(401)
    return _reply(204, more={"Set-Cookie": access.set_cookie()})


async def _body(request: web.BaseRequest) -> Any:
    """The JSON of a small body; None for anything else."""
    if (request.content_length or 0) > BODY_MAX:
        return None
    data = bytearray()
    async for part in request.content.iter_chunked(BODY_MAX):
        data += part
        if len(data) > BODY_MAX:
            return None
    try:
        return msgspec.json.decode(bytes(data))
    except msgspec.DecodeError:
        return None


def _json(status: int, value: object) -> web.Response:
    return _reply(status, msgspec.json.encode(value), JSON)


def _reply(
    status: int,
    body: bytes = b"",
    type_: str = "text/plain",
    *,
    cached: str = _FRESH,
    more: Mapping[str, str] | None = None,
) -> web.Response:
    fields = {**HEADERS, "Cache-Control": cached, **(more or {})}
    return web.Response(status=status, body=body, headers={**fields, "Content-Type": type_})


@asynccontextmanager
async def serve_dashboard(
    source: Source, listen: Listen, token: str, clock: Clock
) -> AsyncIterator[str]:
    """Serve while the body runs; gives the URL that opens a session. Raises UsageProblem GK7027.

    `listen` is an address of loopback: the port has no TLS, and its users share one token.
    """
    board = Board(source, clock)
    handler = Handler(load_pages(), token, source, Streams(board, clock))
    async with asyncio.TaskGroup() as tasks, serving(handler.handle, TERMS, listen) as port:
        running = tasks.create_task(board.run())
        try:
            yield f"{listen.url('http', port)}/#token={token}"
        finally:
            running.cancel()
