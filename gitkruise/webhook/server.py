"""The webhook server: HTTPS requests of an API server in, reviews out, within limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gitkruise.errors import ApiError, leaves
from gitkruise.kube.bodies import read_body
from gitkruise.kube.clock import Clock
from gitkruise.kube.serving import ServerTerms
from gitkruise.webhook.around import Surroundings
from gitkruise.webhook.judge import Judge, conversion
from gitkruise.webhook.registration import CONVERT, MUTATE, TIMEOUT_S, VALIDATE
from gitkruise.webhook.review import Review, deny, read_conversion, read_review

log: Final = logging.getLogger(__name__)

REVIEW_MAX: Final = 7 * 1024 * 1024  # an object and its predecessor, as large as etcd takes them
CONVERSION_MAX: Final = 64 * 1024 * 1024  # lists are converted whole
LARGE: Final = 256 * 1024  # longer work is done beside the event loop
AT_ONCE_MAX: Final = 64
ANSWER_WITHIN_S: Final = TIMEOUT_S - 1.0  # the API server gives up at TIMEOUT_S
SYNC_WITHIN_S: Final = 2.0
JSON: Final = "application/json"
TERMS: Final = ServerTerms(
    does="serve webhooks",
    flag="--listen",
    code="GK5110",
    log="gitkruise.webhook.http",
    limits={
        "keepalive_timeout": 90.0,  # API servers keep their connections
        "lingering_time": 1.0,
        "auto_decompress": False,
    },
    leaving_s=TIMEOUT_S,
)


@dataclass(slots=True)
class Counts:
    """What was answered since the start, by path; `busy` were turned away."""

    answered: dict[str, int] = field(default_factory=dict)
    denied: int = 0
    busy: int = 0


@dataclass(slots=True)
class Desk:
    """Takes requests. Any bytes give 200 with a verdict, or a 4xx; never a 5xx but 503 when
    too much is going on or nothing has been observed yet."""

    judge: Judge
    around: Surroundings
    clock: Clock
    counts: Counts = field(default_factory=Counts)
    inside: int = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if request.method == "GET" and path in _HEALTH:
            well = _HEALTH[path](self)
            return web.Response(status=200 if well else 503, text="ok" if well else "not ready")
        status = _unfit(request)
        if status:
            return _refuse(status)
        if self.inside >= AT_ONCE_MAX:
            self.counts.busy += 1
            return _refuse(503)
        self.inside += 1
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                body = await self._answer(path, request)
        except ApiError as error:
            log.info("%s: %s", path, error)
            return _refuse(error.status if error.status < 500 else 408)
        except TimeoutError:
            log.warning("%s: no answer within %.0f s", path, ANSWER_WITHIN_S)
            return _refuse(503)
        finally:
            self.inside -= 1
        self.counts.answered[path] = self.counts.answered.get(path, 0) + 1
        return web.Response(body=body, content_type=JSON)

    async def _answer(self, path: str, request: web.BaseRequest) -> bytes:
        limit = CONVERSION_MAX if path == CONVERT else REVIEW_MAX
        data = await read_body(request, limit=limit, within_s=None)
        if path == CONVERT:
            if len(data) > LARGE:
                return await asyncio.to_thread(lambda: conversion(read_conversion(data)))
            return conversion(read_conversion(data))
        review = read_review(data)
        if not self.around.ready:
            async with asyncio.timeout(SYNC_WITHIN_S):
                await self.around.observed()
        decide = self.judge.mutation if path == MUTATE else self.judge.validation
        try:
            view = await self.around.view_for(review)
        except ExceptionGroup as group:
            return self._unknown(review, group)
        return decide(review, view, self.clock.now())

    def _unknown(self, review: Review, group: ExceptionGroup[Exception]) -> bytes:
        """Refused, because what the decision rests on cannot be read."""
        error = next((e for e in leaves(group) if isinstance(e, ApiError)), None)
        if error is None:
            raise group
        return deny(review.uid, error)


_HEALTH: Final[dict[str, Callable[[Desk], bool]]] = {
    "/healthz": lambda _: True,
    "/readyz": lambda desk: desk.around.ready,
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


def _refuse(status: int) -> web.Response:
    response = web.Response(status=status, headers={"Allow": "POST"} if status == 405 else None)
    response.force_close()  # what was not read of the request is not waited for
    return response
