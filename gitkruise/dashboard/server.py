"""HTTP server of the dashboard: pages, assets, and data with a session."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import ClientConnectionResetError, web

from gitkruise.dashboard.access import HEADERS
from gitkruise.dashboard.board import Board
from gitkruise.dashboard.gate import MachineGate, RightsUnknown, Viewer, ViewerGate
from gitkruise.dashboard.pages import Pages, is_page, load_pages
from gitkruise.dashboard.source import Source
from gitkruise.dashboard.stream import Streams, topics_of
from gitkruise.dashboard.viewers import COOKIE
from gitkruise.errors import ApiError, DiagnosticError, GitkruiseError
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.http_server import ServerTerms, serving
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import format_time

log: Final = logging.getLogger(__name__)
TERMS: Final = ServerTerms(
    does="serve the dashboard",
    code="GK7027",
    log="gitkruise.dashboard.http",
    limits={"keepalive_timeout": 75.0, "lingering_time": 1.0, "max_field_size": 16_384},
    leaving_s=0.2,  # streams never end by themselves
)
BODY_MAX: Final = 64 * 1024
API: Final = "/api/v1"
JSON: Final = "application/json"
VIEWER: Final = web.RequestKey("viewer", Viewer)  # of a request that has one
STALL_S: Final = 60.0  # a browser that takes nothing for so long is disconnected
_KEPT: Final = "public, max-age=31536000, immutable"
_FRESH: Final = "no-store"
_READS: Final = frozenset({"GET", "HEAD"})
_OF_SESSION: Final = frozenset({"GET", "POST", "DELETE"})
_NO_PAGE: Final = b"no page of the dashboard has this address; its first page is /\n"
_NO_METHOD: Final = b"this address does not take that method; see the header Allow\n"
Answer = Callable[["Handler", web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Handler:
    """Answers the requests of browsers."""

    pages: Pages
    gate: ViewerGate
    source: Source
    streams: Streams

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Data needs a session; every answer carries the headers of pages."""
        status = self.gate.refusal(request.headers, _port(request))
        if status:
            return _reply(status)
        path = request.rel_url.raw_path
        allowed = _allowed(path)
        if allowed and request.method not in allowed:
            return _reply(405, _NO_METHOD, more={"Allow": ", ".join(sorted(allowed))})
        if not path.startswith("/api/"):
            return self._file(path)
        try:
            return await self._data(path, request)
        except (ApiError, RightsUnknown) as error:  # of a review
            log.warning(log_line("dashboard-access-unknown", error=error))
            return _json(503, {"message": "the cluster does not answer who may see what"})

    async def _data(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        if path == f"{API}/session" and request.method == "POST":
            return await _session(self.gate, request)
        viewer = await self.gate.viewer(request.headers, _port(request))
        if viewer is None:
            return _json(401, {"signIn": self.gate.sign_in})
        denied = await viewer.denied(request.rel_url.path.removeprefix(f"{API}/"))
        if denied:
            return _json(403, {"message": denied})
        request[VIEWER] = viewer
        for method, start, answer in _ROUTES:
            if request.method == method and path.startswith(f"{API}/{start}"):
                return await answer(self, request)
        return _unknown(path)

    def _file(self, path: str) -> web.Response:
        asset = self.pages.asset(path)
        if asset is not None:
            return _reply(200, asset.content, asset.type, cached=_KEPT)
        if is_page(path):
            return _reply(200, self.pages.page, "text/html; charset=utf-8")
        return _reply(404, _NO_PAGE)

    async def known(self, request: web.BaseRequest) -> web.Response:
        """Report to a page that its session is good, and whose it is."""
        viewer = request[VIEWER]
        return _json(200, {"viewer": viewer.name}) if viewer.name else _reply(204)

    async def leave(self, request: web.BaseRequest) -> web.Response:
        """End the session."""
        self.gate.leave(request.headers)
        return _reply(204, more={"Set-Cookie": f"{COOKIE}=; Path=/; Secure; Max-Age=0"})

    async def why(self, request: web.BaseRequest) -> web.Response:
        """Answer with the explanation of an object."""
        parts = request.rel_url.path.removeprefix(f"{API}/why/").split("/")
        if len(parts) not in {2, 3}:
            return _unknown(request.rel_url.path)
        noun, *space, name = parts
        return await _answered(self.source.why(noun, "".join(space), name), "/".join(parts))

    async def past(self, request: web.BaseRequest) -> web.Response:
        """Answer with the revisions of a workload's pods over time, or with its rows at a moment.

        The needs of such a topic are those of its pods, and all rows of one have the same.
        """
        topic = request.rel_url.path.removeprefix(f"{API}/past/")
        known = self.streams.board.memory.topics.get(f"pods/{topic}")
        now = format_time(self.streams.clock.now())
        if known is None:
            return _unknown(topic)
        asked = request.rel_url.query
        if "at" not in asked:
            return _json(200, {**known.lanes(asked.get("since", "")), "now": now})
        found = known.rows_at(asked["at"])
        if found is None:
            message = f"nothing is remembered from before {known.since.at}"
            return _json(404, {"message": message})
        at, rows = found
        shown = {key: msgspec.Raw(row) for key, row in rows.items()}
        return _json(200, {"at": at, "rows": shown, "now": now})

    async def find_out(self, request: web.BaseRequest) -> web.Response:
        """Answer a question that takes a computation."""
        about = request.rel_url.path.removeprefix(f"{API}/")
        if request.rel_url.query_string:
            about += f"?{request.rel_url.query_string}"
        return await _answered(self.source.find_out(about, request[VIEWER]), about)

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
        return _reply(204) if self.streams.choose(stream, topics) else _unknown(stream)

    async def stream(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send events until the browser leaves."""
        topics = topics_of(request.query.getall("topic", []))
        if topics is None:
            return _reply(400)
        if self.streams.full:
            return _reply(503)
        viewer = request[VIEWER]
        denied = [await viewer.denied(topic) for topic in sorted(topics)]
        if denied and all(denied):
            return _json(403, {"message": denied[0]})
        fields = {**HEADERS, "Content-Type": "text/event-stream", "Cache-Control": _FRESH}
        response = web.StreamResponse(headers=fields)
        await response.prepare(request)
        try:
            async with aclosing(self.streams.events(topics, viewer)) as events:
                async for event in events:
                    async with self.streams.clock.timeout(STALL_S):
                        await response.write(event)
        except (ClientConnectionResetError, ConnectionError):
            pass  # the browser left
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # what waits for a browser that reads nothing goes, too
        return response


_ROUTES: Final[tuple[tuple[str, str, Answer], ...]] = (
    ("GET", "session", Handler.known),
    ("DELETE", "session", Handler.leave),
    ("GET", "stream", Handler.stream),
    ("POST", "stream/", Handler.choose),
    ("GET", "why/", Handler.why),
    ("GET", "past/", Handler.past),
    ("GET", "commit/", Handler.find_out),
    ("GET", "plan/", Handler.find_out),
    ("GET", "diff/", Handler.find_out),
    ("GET", "drift", Handler.find_out),
    ("GET", "machines", Handler.find_out),
    ("GET", "forecast/", Handler.find_out),
)


def _allowed(path: str) -> frozenset[str]:
    """Return the methods of an address: an empty set for unknown data."""
    if not path.startswith("/api/"):
        return _READS
    if path == f"{API}/session":
        return _OF_SESSION
    return frozenset(method for method, start, _ in _ROUTES if path.startswith(f"{API}/{start}"))


def _unknown(what: str) -> web.Response:
    """A 404 about data. It has no message, for a page has its own words about what is missing."""
    return _json(404, {"missing": what})


async def _answered(asked: Awaitable[Any], about: str) -> web.Response:
    """The answer of a source, which may fail, or have nothing of that name."""
    try:
        found = await asked
    except GitkruiseError as error:
        status = _failed(error)
        level = logging.INFO if status < 500 else logging.WARNING  # a refusal is no fault of ours
        log.log(level, log_line("dashboard-answer-failed", object=about, error=error))
        return _json(status, {"message": str(error), "next": _next(error)})
    return _json(200, found) if found is not None else _unknown(about)


def _failed(error: GitkruiseError) -> int:
    """The status of a failed answer: the refusal's own, or 502 where something else failed.

    An API server's 401 or 404 is about what it was asked, not about the browser's question.
    """
    return error.status if isinstance(error, DiagnosticError) and error.status < 500 else 502


def _next(error: GitkruiseError) -> str:
    """The advice of the first finding; "" without one."""
    findings = error.findings if isinstance(error, DiagnosticError) else ()
    return next((dict(finding.notes).get("next", "") for finding in findings), "")


def _port(request: web.BaseRequest) -> int:
    """The port that the browser reached; 0 once it has left."""
    name = request.transport.get_extra_info("sockname") if request.transport else None
    return int(name[1]) if name else 0


async def _session(gate: ViewerGate, request: web.BaseRequest) -> web.Response:
    """Exchange the token for a session."""
    body = await _body(request)
    token = body.get("token") if isinstance(body, dict) else None
    cookie = await gate.enter(token, _port(request)) if isinstance(token, str) else ""
    if not cookie:
        return _json(401, {"signIn": gate.sign_in})
    return _reply(204, more={"Set-Cookie": cookie})


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
    source: Source, listen: Listen, gate: MachineGate, clock: Clock
) -> AsyncIterator[str]:
    """Serve while the body runs; gives the URL that opens a session. Raises UsageProblem GK7027.

    `listen` is an address of loopback: the port has no TLS, and its users share one token.
    """
    async with _serving(source, listen, gate, clock) as port:
        yield f"{listen.url('http', port)}/#token={gate.token}"


@asynccontextmanager
async def serve_viewers(
    source: Source, listen: Listen, gate: ViewerGate, context: ssl.SSLContext, clock: Clock
) -> AsyncIterator[str]:
    """Serve users of the cluster over TLS while the body runs; gives the URL. Raises UsageProblem
    GK7027."""
    async with _serving(source, listen, gate, clock, context) as port:
        yield f"{listen.url('https', port)}/"


@asynccontextmanager
async def _serving(
    source: Source,
    listen: Listen,
    gate: ViewerGate,
    clock: Clock,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    board = Board(source, clock)
    handler = Handler(load_pages(), gate, source, Streams(board, clock))
    async with (
        asyncio.TaskGroup() as tasks,
        serving(handler.handle, TERMS, listen, context) as port,
    ):
        running = tasks.create_task(board.run())
        try:
            yield port
        finally:
            running.cancel()
