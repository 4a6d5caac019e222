"""Endpoints for web hooks: authenticate deliveries of forges and hand them to sources."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gitkruise.errors import ApiError, Crashed, Finding, GatewayTimeout
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.forges.webhook_payloads import (
    FORM,
    Headers,
    authentic,
    delivery_of,
    is_pull,
    is_push,
    read_pull,
    read_push,
)
from gitkruise.gitops.receiver.dispatch import Followed, dispatch
from gitkruise.kube.serve.request_body import Bodies
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)

BODY_MAX: Final = 5 * 1024 * 1024
REMEMBERED_S: Final = 600.0
REMEMBERED_MAX: Final = 10_000
_BODY_STATUS: Final[dict[type[ApiError], int]] = {
    GatewayTimeout: 408
}  # the sender is late, not an upstream server
_TYPES: Final = frozenset({"application/json", FORM})


@dataclass(slots=True)
class WebhookEndpoint:
    """One Receiver in operation.

    `pulls` also want pull requests and every branch; `seen` are recent deliveries, oldest first,
    and when they arrived.
    """

    name: str
    kind: str
    keys: tuple[str, ...]
    followed: Sequence[Followed]
    clock: Clock
    named: bool  # `followed` by the Receiver's own word, whatever the repository
    pulls: Sequence[Followed] = ()
    refused: int = 0
    seen: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def accept(self, headers: Headers, content_type: str, body: bytes) -> int:
        """Return the HTTP status for a delivery.

        401 before anything of it is read, 400 when it is invalid, 200 when it is old or irrelevant,
        202 when the sources it concerns are polled.
        """
        if not authentic(self.kind, self.keys, headers, body, self.clock.now()):
            self._refuse()
            return 401
        pushed, pull = is_push(self.kind, headers), is_pull(self.kind, headers)
        delivery = delivery_of(self.kind, headers)
        if not (pushed or pull) or self._again(delivery):
            return 200
        try:
            push = (read_push if pushed else read_pull)(self.kind, content_type, body)
        except ValueError:
            log.warning(log_line("delivery-invalid", receiver=self.name, kind=self.kind))
            self.seen.pop(delivery, None)  # sent again it is as invalid
            return 400
        looking = dispatch(push, self.followed, named=self.named) if pushed else 0
        dispatch(push, self.pulls, named=self.named)
        log.info(log_line("push-received", receiver=self.name, sources=looking))
        return 202

    def _refuse(self) -> None:
        """Log refused deliveries ever less often: senders must not be able to fill the log."""
        self.refused += 1
        if self.refused & (self.refused - 1) == 0:
            log.warning(log_line("signature-invalid", receiver=self.name, count=self.refused))

    def _again(self, delivery: str) -> bool:
        now = self.clock.monotonic()
        while self.seen and now - next(iter(self.seen.values())) > REMEMBERED_S:
            self.seen.popitem(last=False)
        if not delivery:
            return False
        if delivery in self.seen:
            return True
        self.seen[delivery] = now
        if len(self.seen) > REMEMBERED_MAX:
            self.seen.popitem(last=False)
        return False


Edge = tuple[Containment, Callable[[str, Finding | None], None]]  # and the callback for a crash
NO_EDGE: Final[Edge] = (UNREPORTED, lambda *_: None)


@dataclass(frozen=True, slots=True)
class SharedEndpoint:
    """One Receiver in several programs of a process, each of which receives every delivery."""

    programs: Sequence[WebhookEndpoint]

    @property
    def name(self) -> str:
        return self.programs[0].name

    def accept(self, headers: Headers, content_type: str, body: bytes) -> int:
        """Return the HTTP status for a delivery: 202 if one of the programs polls a source."""
        return max(one.accept(headers, content_type, body) for one in self.programs)


class WebhookEndpoints:
    """The endpoints of a program, by path. Answers are a status and nothing more."""

    def __init__(
        self, endpoints: Mapping[str, WebhookEndpoint | SharedEndpoint], edge: Edge = NO_EDGE
    ) -> None:
        self.endpoints, self.edge = endpoints, edge
        self._containment, self._crashed = edge
        self._bodies = Bodies()

    @classmethod
    def shared(cls, programs: Sequence[WebhookEndpoints]) -> WebhookEndpoints:
        """Return the endpoints of all `programs` of a process as one."""
        if len(programs) == 1:
            return programs[0]
        found: dict[str, list[WebhookEndpoint]] = {}
        for one in programs:
            for path, endpoint in one.endpoints.items():
                if isinstance(endpoint, WebhookEndpoint):
                    found.setdefault(path, []).append(endpoint)
        endpoints = {path: SharedEndpoint(those) for path, those in found.items()}
        return cls(endpoints, programs[0].edge)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request to any path."""
        endpoint = self.endpoints.get(request.rel_url.raw_path)
        name = endpoint.name if endpoint is not None else "unknown"
        try:
            with self._containment.of(f"Receiver {name}", ConnectionError, web.HTTPException):
                status = await self._status(endpoint, request)
        except Crashed as error:
            status = 500
            self._crashed(name, error.findings[0])
        else:
            if status in {200, 202}:
                self._crashed(name, None)
        allow = {"Allow": "POST"} if status == 405 else None
        response = web.Response(status=status, headers=allow)
        if status not in {200, 202}:
            response.force_close()  # what was not read of the request is not waited for
        return response

    async def _status(
        self, endpoint: WebhookEndpoint | SharedEndpoint | None, request: web.BaseRequest
    ) -> int:
        status = 404 if endpoint is None else _unfit(request)
        if endpoint is None or status:
            return status
        try:
            async with self._bodies.read(request, limit=BODY_MAX) as body:
                return endpoint.accept(request.headers, request.content_type, body)
        except ApiError as error:
            return _BODY_STATUS.get(type(error), error.status)


def _unfit(request: web.BaseRequest) -> int:
    """Return the status for a request that no forge sends; 0 when it may be read."""
    if request.method != "POST":
        return 405
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if request.content_type not in _TYPES or encoding != "identity":
        return 415
    return 413 if (request.content_length or 0) > BODY_MAX else 0
