"""The webhook server: HTTPS requests of an API server in, reviews out, within limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gitkruise.errors import ApiError, Unavailable, leaves
from gitkruise.kube.serve.http_server import ServerTerms
from gitkruise.kube.serve.request_body import SMALL, Bodies
from gitkruise.kube.system.clock import Clock
from gitkruise.webhook.budget_guard import BudgetGuard
from gitkruise.webhook.cluster_context import ClusterContext
from gitkruise.webhook.handler import AdmissionHandler, conversion
from gitkruise.webhook.registration import CONVERT, MUTATE, TIMEOUT_S, VALIDATE
from gitkruise.webhook.review import Review, deny, read_conversion, read_review
from gitkruise.webhook.spread_records import SpreadRecords
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)

REVIEW_MAX: Final = 7 * 1024 * 1024  # an object and its predecessor, as large as etcd takes them
CONVERSION_MAX: Final = 64 * 1024 * 1024  # lists are converted whole
LARGE: Final = SMALL  # longer work is done in a thread
CONNECTIONS_MAX: Final = 256  # each may hold as much of a small body
SEND_WITHIN_S: Final = 10.0
AT_ONCE_MAX: Final = 64
ANSWER_WITHIN_S: Final = TIMEOUT_S - 1.0  # the API server gives up at TIMEOUT_S
SYNC_WITHIN_S: Final = 2.0
JSON: Final = "application/json"
TERMS: Final = ServerTerms(
    does="serve webhooks",
    code="GK5110",
    log="gitkruise.webhook.http",
    limits={
        "keepalive_timeout": 90.0,  # API servers keep their connections
        "lingering_time": 1.0,
        "auto_decompress": False,
    },
    leaving_s=TIMEOUT_S,
    connections_max=CONNECTIONS_MAX,
)


@dataclass(slots=True)
class RequestCounts:
    """Number of requests since the start, by path; `busy` were rejected."""

    answered: dict[str, int] = field(default_factory=dict)
    busy: int = 0


@dataclass(slots=True)
class ReviewHandler:
    """Takes requests. Any bytes give 200 with a verdict, or a 4xx; never a 5xx but 503 when
    too much is going on or nothing has been observed yet."""

    judge: AdmissionHandler
    around: ClusterContext
    guard: BudgetGuard
    spreads: SpreadRecords
    clock: Clock
    counts: RequestCounts = field(default_factory=RequestCounts)
    bodies: Bodies = field(default_factory=Bodies)
    inside: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if request.method == "GET" and path in _HEALTH:
            well = _HEALTH[path](self)
            return web.Response(status=200 if well else 503, text="ok" if well else "not ready")
        status = _unfit(request)
        if status:
            return _refuse(status)
        limit = CONVERSION_MAX if path == CONVERT else REVIEW_MAX
        try:
            async with self.bodies.read(request, limit=limit) as data:
                return await self._within(path, request, data)
        except Unavailable as error:
            self.counts.busy += 1
            log.info(log_line("review-refused", path=path, error=error))
            return _refuse(503)
        except ApiError as error:
            log.info(log_line("review-refused", path=path, error=error))
            return _refuse(error.status if error.status < 500 else 408)

    async def _within(self, path: str, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        """Answer a request that is here as a whole: only now does it take a place."""
        if self.inside >= AT_ONCE_MAX:
            raise Unavailable("too many reviews are under way")
        self.inside += 1
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                if path == CONVERT:
                    pieces = await self._converted(data)
                else:
                    pieces = [await self._reviewed(path, data)]
        except TimeoutError:
            log.warning(log_line("review-timed-out", path=path, limit_s=ANSWER_WITHIN_S))
            return _refuse(503)
        finally:
            self.inside -= 1
        self.counts.answered[path] = self.counts.answered.get(path, 0) + 1
        return await _send(request, pieces)

    async def _converted(self, data: bytes) -> list[bytes]:
        catalog = self.judge.catalog
        if len(data) > LARGE:
            return await asyncio.to_thread(lambda: conversion(read_conversion(data), catalog))
        return conversion(read_conversion(data), catalog)

    async def _reviewed(self, path: str, data: bytes) -> bytes:
        review = read_review(data)
        if not self.around.ready:
            async with asyncio.timeout(SYNC_WITHIN_S):
                await self.around.observed()
        decide = self.judge.mutation if path == MUTATE else self.judge.validation
        try:
            view = await self.around.view_for(review)
        except ExceptionGroup as group:
            return self._unknown(review, group)
        try:
            if path == MUTATE:
                view = await self.spreads.view_for(review, view)
            elif (refused := await self.guard.refusal(review)) is not None:
                return deny(review.uid, refused)
            else:
                await self.spreads.leaving(review, view)
        except ApiError as error:
            return deny(review.uid, error)
        return decide(review, view, self.clock.now())

    def _unknown(self, review: Review, group: ExceptionGroup[Exception]) -> bytes:
        """Refused, because what the decision rests on cannot be read."""
        error = next((e for e in leaves(group) if isinstance(e, ApiError)), None)
        if error is None:
            raise group
        return deny(review.uid, error)


_HEALTH: Final[dict[str, Callable[[ReviewHandler], bool]]] = {
    "/healthz": lambda _: True,
    "/readyz": lambda handler: handler.around.ready,
}
_PATHS: Final = frozenset({MUTATE, VALIDATE, CONVERT})


def _unfit(request: web.BaseRequest) -> int:
    """The status for what no API server sends; 0 when it may be read."""
    if request.rel_url.raw_path not in _PATHS:
        return 404
    if request.method != "POST":
        return 405
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    return 415 if request.content_type != JSON or encoding != "identity" else 0


async def _send(request: web.BaseRequest, pieces: list[bytes]) -> web.StreamResponse:
    """A verdict; a large one piece by piece, so that it is not in memory twice."""
    size = sum(map(len, pieces))
    if size <= LARGE:
        return web.Response(body=b"".join(pieces), content_type=JSON)
    response = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(size)})
    try:
        async with asyncio.timeout(SEND_WITHIN_S):
            await response.prepare(request)
            for chunk in _chunks(pieces):
                await response.write(chunk)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("an answer was not read in time") from None
    return response


def _chunks(pieces: list[bytes]) -> Iterator[bytes]:
    """Pieces joined up to about LARGE."""
    joined: list[bytes] = []
    size = 0
    for piece in pieces:
        joined.append(piece)
        size += len(piece)
        if size >= LARGE:
            yield b"".join(joined)
            joined, size = [], 0
    yield b"".join(joined)


_ALWAYS: Final = {405: {"Allow": "POST"}, 503: {"Retry-After": "1"}}


def _refuse(status: int) -> web.Response:
    response = web.Response(status=status, headers=_ALWAYS.get(status))
    response.force_close()  # what was not read of the request is not waited for
    return response
