"""Web hooks of forges: who may knock, what is read of it, and who is told to look."""

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

from gitkruise.errors import ApiError, Finding, GatewayTimeout, UsageProblem
from gitkruise.gitops.forges import (
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
from gitkruise.gitops.hinting import Bell, Followed, tell
from gitkruise.gitops.polling import Polling
from gitkruise.gitops.sources import read_secret
from gitkruise.kube.bodies import read_body
from gitkruise.kube.clock import Clock
from gitkruise.kube.listening import Listen
from gitkruise.kube.serving import ServerTerms, serving
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Config, Receiver, resolve_reference

log: Final = logging.getLogger(__name__)

BODY_MAX: Final = 5 * 1024 * 1024
BODY_WITHIN_S: Final = 30.0
AT_ONCE_MAX: Final = 8
REMEMBERED_S: Final = 600.0
REMEMBERED_MAX: Final = 10_000
KEYS: Final = ("token", "previousToken")  # of the Secret; the second while keys are changed
_BODY_STATUS: Final[dict[type[ApiError], int]] = {
    GatewayTimeout: 408
}  # the sender is late, not somebody behind us
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
    """A Receiver's path: the same at every start, and told by nobody who lacks the key."""
    return "/hook/" + hmac.new(key.encode(), receiver.encode(), hashlib.sha256).hexdigest()[:32]


@dataclass(slots=True)
class Door:
    """One Receiver at work. `pulls` want to know of pull requests and of every branch; `seen` are
    deliveries of late, oldest first, and when they came."""

    name: str
    kind: str
    keys: tuple[str, ...]
    followed: Sequence[Followed]
    clock: Clock
    named: bool  # `followed` by the Receiver's own word, whatever the repository
    pulls: Sequence[Followed] = ()
    refused: int = 0
    seen: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def knock(self, headers: Headers, content_type: str, body: bytes) -> int:
        """The HTTP status for a delivery: 401 before anything of it is read, 400 when it cannot
        be read, 200 when it is old or no news, 202 when whom it concerns will look."""
        if not authentic(self.kind, self.keys, headers, body, self.clock.now()):
            self._refuse()
            return 401
        pushed, pull = is_push(self.kind, headers), is_pull(self.kind, headers)
        if not (pushed or pull) or self._again(delivery_of(self.kind, headers)):
            return 200
        try:
            push = (read_push if pushed else read_pull)(self.kind, content_type, body)
        except ValueError:
            log.warning("%s: a signed delivery is no %s push", self.name, self.kind)
            return 400
        looking = tell(push, self.followed, named=self.named) if pushed else 0
        tell(push, self.pulls, named=self.named)
        log.info("%s: a push that concerns %d of our sources", self.name, looking)
        return 202

    def _refuse(self) -> None:
        """Told with growing pauses: whoever knocks must not be able to fill the log."""
        self.refused += 1
        if self.refused & (self.refused - 1) == 0:
            log.warning("%s: %d deliveries without a good signature", self.name, self.refused)

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


class Doorman:
    """Every door of a process, by its path. Answers are a status and nothing else."""

    def __init__(self, doors: Mapping[str, Door]) -> None:
        self._doors = doors
        self._inside = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request to any path."""
        try:
            status = await self._status(request)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception:
            log.exception("a web hook failed")
            status = 500
        allow = {"Allow": "POST"} if status == 405 else None
        response = web.Response(status=status, headers=allow)
        if status not in {200, 202}:
            response.force_close()  # what was not read of the request is not waited for
        return response

    async def _status(self, request: web.BaseRequest) -> int:
        door = self._doors.get(request.rel_url.raw_path)
        status = 404 if door is None else _unfit(request)
        if door is None or status:
            return status
        if self._inside >= AT_ONCE_MAX:
            return 429
        self._inside += 1
        try:
            body = await read_body(request, limit=BODY_MAX, within_s=BODY_WITHIN_S)
        except ApiError as error:
            return _BODY_STATUS.get(type(error), error.status)
        finally:
            self._inside -= 1
        return door.knock(request.headers, request.content_type, body)


def _unfit(request: web.BaseRequest) -> int:
    """The status for what no forge sends; 0 when it may be read."""
    if request.method != "POST":
        return 405
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if request.content_type not in _TYPES or encoding != "identity":
        return 415
    return 413 if (request.content_length or 0) > BODY_MAX else 0


@dataclass(frozen=True, slots=True)
class Hearing:
    """Web hooks that are heard: the address of each Receiver, and bells that want to be run."""

    urls: Mapping[str, str] = field(default_factory=dict)
    bells: Sequence[Bell] = ()


async def open_receivers(
    config: Config,
    pollings: Mapping[str, Polling],
    listen: Listen,
    around: tuple[Transport, Clock],
    stack: AsyncExitStack,
    pulls: Mapping[str, Sequence[Callable[[], None]]] = MappingProxyType({}),
) -> Hearing:
    """Listen for all Receivers of `config`, until `stack` closes; without any nothing listens.

    `pulls` are to be called, by source, when a pull request or any branch there has moved.

    Raises UsageProblem GK7026 for a Secret without a key, GK7027 where it cannot listen, and
    ApiError for a missing Secret.
    """
    if not config.receivers:
        return Hearing()
    transport, clock = around
    bells = {polling: Bell(polling.look_now, clock) for polling in set(pollings.values())}
    calls = {call: Bell(call, clock) for one in pulls.values() for call in one}
    doors: dict[str, Door] = {}
    first: dict[str, str] = {}
    for name, receiver in config.receivers.items():
        refs = receiver.spec.sources
        wanted = [resolve_reference(r, receiver.namespace) for r in refs] or list(config.sources)
        followed = [
            await asyncio.to_thread(Followed, config.sources[one], bells[pollings[one]])
            for one in wanted
        ]
        asking = [
            await asyncio.to_thread(Followed, config.sources[one], calls[call], any_ref=True)
            for one in wanted
            for call in pulls.get(one, ())
        ]
        keys = await receiver_keys(receiver, transport)
        kind = receiver.spec.type
        door = Door(name, kind, keys, followed, clock, named=bool(refs), pulls=asking)
        doors |= {path_of(name, key): door for key in keys}
        first[name] = path_of(name, keys[0])
    base = await _serve(Doorman(doors), listen, stack)
    return Hearing(
        {name: base + path for name, path in first.items()}, (*bells.values(), *calls.values())
    )


async def receiver_keys(receiver: Receiver, transport: Transport) -> tuple[str, ...]:
    """The keys that count now. A newline at the end is the editor's, not the key's.

    Raises UsageProblem GK7026 for a Secret without one, and ApiError for a missing Secret.
    """
    data, where = await read_secret(receiver.spec.secret_ref, receiver.namespace, transport)
    keys = [data[name].rstrip("\r\n") for name in KEYS if name in data]
    if "token" not in data or not all(_usable(receiver.spec.type, key) for key in keys):
        message = f"the Secret {where} has no key that Receiver {receiver.name} can use"
        found = ", ".join(sorted(data)) or "no keys"
        notes = (
            ("why", "without a shared key anybody could send web hooks"),
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


async def _serve(doorman: Doorman, listen: Listen, stack: AsyncExitStack) -> str:
    """The URL of the server, which `stack` stops."""
    port = await stack.enter_async_context(serving(doorman.handle, _TERMS, listen))
    return listen.url("http", port)
