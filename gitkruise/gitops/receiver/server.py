"""Receivers of a configuration: their keys, their paths, and the address where they listen."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from aiohttp import web

from gitkruise.errors import Finding, UsageProblem
from gitkruise.gitops.forges.webhook_payloads import KEY_MIN, WHSEC, signing_key
from gitkruise.gitops.receiver.dispatch import Debounce, Followed
from gitkruise.gitops.receiver.endpoints import NO_EDGE, Edge, WebhookEndpoint, WebhookEndpoints
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.source.repositories import read_secret
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.http_server import ServerTerms, serving
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config, Receiver, resolve_reference

KEYS: Final = ("token", "previousToken")  # of the Secret; the second while keys are changed
_TERMS: Final = ServerTerms(
    does="listen for web hooks",
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


class HookAddress:
    """The address of a process for web hooks, shared by the programs that run in it.

    Each shard that a replica holds follows all sources and must learn of a push: a delivery goes to
    the Receivers of all of them. Other replicas find the commit by polling.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen, self._port = listen, 0
        self._programs: list[WebhookEndpoints] = []
        self._all = WebhookEndpoints({})
        self._stack, self._turn = AsyncExitStack(), asyncio.Lock()

    @asynccontextmanager
    async def serving(self, endpoints: WebhookEndpoints) -> AsyncIterator[str]:
        """Serve `endpoints` while the body runs; gives the URL. Raises UsageProblem GK7027."""
        async with self._turn:
            if not self._programs:
                server = serving(self._handle, _TERMS, self._listen)
                self._port = await self._stack.enter_async_context(server)
            self._changed([*self._programs, endpoints])
        try:
            yield self._listen.url("http", self._port)
        finally:
            async with self._turn:
                self._changed([one for one in self._programs if one is not endpoints])
                if not self._programs:
                    await self._stack.aclose()

    def _changed(self, programs: list[WebhookEndpoints]) -> None:
        self._programs = programs
        if programs:
            self._all = WebhookEndpoints.shared(programs)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._all.handle(request)


@dataclass(frozen=True, slots=True)
class ReceiverServer:
    """The running server: the address of each Receiver, and debouncers to run."""

    urls: Mapping[str, str] = field(default_factory=dict)
    debounces: Sequence[Debounce] = ()


async def open_receivers(
    config: Config,
    pollings: Mapping[str, Polling],
    address: HookAddress,
    transport: Transport,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    pulls: Mapping[str, Sequence[Callable[[], None]]] = MappingProxyType({}),
    edge: Edge = NO_EDGE,
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
    endpoints: dict[str, WebhookEndpoint] = {}
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
        endpoints |= {path_of(name, key): endpoint for key in keys}
        first[name] = path_of(name, keys[0])
    base = await stack.enter_async_context(address.serving(WebhookEndpoints(endpoints, edge)))
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
