"""Webhook server: authenticates deliveries of forges and dispatches them to sources."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aiohttp import web

from gitkruise.errors import ApiError, Crashed, Finding, GatewayTimeout, UsageProblem
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.forges.webhook_payloads import (
    FORM,
    KEY_MIN,
    WHSEC,
    Headers,
    authentic,
    delivery_of,
    is_pull,
    is_push,
    read_pull,
    read_push,
    signing_key,
)
from gitkruise.gitops.receiver.dispatch import Debounce, Followed, tell
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.source.repositories import read_secret
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.http_server import ServerTerms, serving
from gitkruise.kube.serve.request_body import Bodies
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config, Receiver, resolve_reference
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)

BODY_MAX: Final = 5 * 1024 * 1024
REMEMBERED_S: Final = 600.0
REMEMBERED_MAX: Final = 10_000
KEYS: Final = ("token", "previousToken")  # of the Secret; the second while keys are changed
_BODY_STATUS: Final[dict[type[ApiError], int]] = {
    GatewayTimeout: 408
}  # the sender is late, not an upstream server
_TYPES: Final = frozenset({"application/json", FORM})
_TERMS: Final = ServerTerms(
    does="listen for web hooks",
    flag="--hooks",
    code="GK7027",
    log="gitkruise.hooks.http",
    limits={
        "keepalive_timeout": 15.0,
        "lingering_time": 2.0,
        "auto_decompress": False,
    },
)


def path_of(receiver: str, key: str) -> str:
    """Return a Receiver's path: constant, and unguessable without the key."""
    return "/hook/" + hmac.new(key.encode(), receiver.encode(), hashlib.sha256).hexdigest()[:32]


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
        if not (pushed or pull) or self._again(delivery_of(self.kind, headers)):
            return 200
        try:
            push = (read_push if pushed else read_pull)(self.kind, content_type, body)
        except ValueError:
            log.warning(log_line("delivery-invalid", receiver=self.name, kind=self.kind))
            return 400
        looking = tell(push, self.followed, named=self.named) if pushed else 0
        tell(push, self.pulls, named=self.named)
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
_NO_EDGE: Final[Edge] = (UNREPORTED, lambda *_: None)


class WebhookEndpoints:
    """The endpoints of a process, by path. Answers are a status and nothing more."""

    def __init__(self, doors: Mapping[str, WebhookEndpoint], edge: Edge = _NO_EDGE) -> None:
        self._doors = doors
        self._containment, self._crashed = edge
        self._bodies = Bodies()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request to any path."""
        endpoint = self._doors.get(request.rel_url.raw_path)
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

    async def _status(self, endpoint: WebhookEndpoint | None, request: web.BaseRequest) -> int:
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


@dataclass(frozen=True, slots=True)
class ReceiverServer:
    """The running server: the address of each Receiver, and debouncers to run."""

    urls: Mapping[str, str] = field(default_factory=dict)
    debounces: Sequence[Debounce] = ()


async def open_receivers(
    config: Config,
    pollings: Mapping[str, Polling],
    listen: Listen,
    transport: Transport,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    pulls: Mapping[str, Sequence[Callable[[], None]]] = MappingProxyType({}),
    edge: Edge = _NO_EDGE,
) -> ReceiverServer:
    """Listen for all Receivers of `config` until `stack` closes; without any, do not listen.

    `pulls` are called, by source, when a pull request or any branch there has moved. Raises
    UsageProblem GK7026 for a Secret without a key, GK7027 where it cannot listen, and ApiError for
    a missing Secret.
    """
    if not config.receivers:
        return ReceiverServer()
    debounces = {polling: Debounce(polling.look_now, clock) for polling in set(pollings.values())}
    calls = {call: Debounce(call, clock) for one in pulls.values() for call in one}
    doors: dict[str, WebhookEndpoint] = {}
    first: dict[str, str] = {}
    for name, receiver in config.receivers.items():
        refs = receiver.spec.sources
        wanted = [resolve_reference(r, receiver.namespace) for r in refs] or list(config.sources)
        followed = [
            await asyncio.to_thread(Followed, config.sources[one], debounces[pollings[one]])
            for one in wanted
        ]
        asking = [
            await asyncio.to_thread(Followed, config.sources[one], calls[call], any_ref=True)
            for one in wanted
            for call in pulls.get(one, ())
        ]
        keys = await receiver_keys(receiver, transport)
        kind = receiver.spec.type
        endpoint = WebhookEndpoint(
            name, kind, keys, followed, clock, named=bool(refs), pulls=asking
        )
        doors |= {path_of(name, key): endpoint for key in keys}
        first[name] = path_of(name, keys[0])
    base = await _serve(WebhookEndpoints(doors, edge), listen, stack)
    return ReceiverServer(
        {name: base + path for name, path in first.items()}, (*debounces.values(), *calls.values())
    )


async def receiver_keys(receiver: Receiver, transport: Transport) -> tuple[str, ...]:
    """Return the current keys. A newline at the end is the editor's, not the key's.

    Raises UsageProblem GK7026 for a Secret without one, and ApiError for a missing Secret.
    """
    data, where = await read_secret(receiver.spec.secret_ref, receiver.namespace, transport)
    keys = [data[name].rstrip("\r\n") for name in KEYS if name in data]
    if "token" not in data or not all(_usable(receiver.spec.type, key) for key in keys):
        message = f"the Secret {where} has no key that Receiver {receiver.name} can use"
        found = ", ".join(sorted(data)) or "no keys"
        notes = (
            ("why", "without a shared key anyone could send webhooks"),
            ("found", found),
            ("next", f"give it token: {KEY_MIN} characters or more, the same as at the forge"),
        )
        raise UsageProblem(Finding(code="GK7026", message=message, notes=notes))
    return tuple(keys)


def _usable(kind: str, key: str) -> bool:
    try:
        return len(signing_key(key) if kind == "gitlab" and key.startswith(WHSEC) else key) >= (
            KEY_MIN
        )
    except ValueError:
        return False


async def _serve(doorman: WebhookEndpoints, listen: Listen, stack: AsyncExitStack) -> str:
    """Start the server, which `stack` stops; return its URL."""
    port = await stack.enter_async_context(serving(doorman.handle, _TERMS, listen))
    return listen.url("http", port)
