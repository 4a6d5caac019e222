"""JSON over HTTPS to forges and chats: limits, refusals and how long to stay away after one."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any, Final, Protocol

import aiohttp
import msgspec
from multidict import CIMultiDictProxy
from yarl import URL

from gitkruise.errors import ApiError, TooManyRequests, Unavailable
from gitkruise.kube.client import responses
from gitkruise.kube.client.connection_errors import why_unreachable
from gitkruise.kube.client.http import CONNECT_S, USER_AGENT
from gitkruise.kube.system.clock import Clock
from gitkruise.printable import visible
from gitkruise.wire.primitives.json_text import decode_problem

WITHIN_S: Final = 30.0
ANSWER_MAX: Final = 16 * 2**20
STAY_AWAY_MAX_S: Final = 3600
_LIMITED_S: Final = 60  # GitHub's word for a secondary limit that names no time
_REMEMBERED: Final = 64  # answers that can be asked for by ETag
_REMEMBERED_BYTES: Final = 2**20  # of one; larger ones are sent again
_HEAD_MAX: Final = 4096  # of a page, which has its title early
_WORDS_MAX: Final = 300
_TITLE: Final = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_TEXTS: Final = ("message", "error_description", "error", "errors")  # of an answer, for people
_RESETS: Final = ("x-ratelimit-reset", "ratelimit-reset")
_REMAINING: Final = ("x-ratelimit-remaining", "ratelimit-remaining")


@dataclass(frozen=True, slots=True)
class JsonReply:
    """Status, headers and decoded body of a response."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class ForgeTransport(Protocol):
    """Carries one request. Raises Unavailable when there is no answer."""

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> JsonReply: ...


class HttpForgeTransport:
    """By aiohttp. Redirects are not followed: a token never leaves its host."""

    def __init__(self, trusted: ssl.SSLContext | None = None) -> None:
        self._trusted = trusted
        self._session: aiohttp.ClientSession | None = None

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> JsonReply:
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                self._pool().request(
                    method, URL(url, encoded=True), headers=headers, data=body,
                    allow_redirects=False,
                ) as response,
            ):  # fmt: skip
                data = await responses.whole(response.content, ANSWER_MAX)
                return JsonReply(response.status, response.headers, data)
        except TimeoutError as error:
            raise Unavailable(f"no answer within {WITHIN_S:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(why_unreachable(error)) from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # sockets cut just now close in the loop's next round

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=4, ssl=self._trusted or True, keepalive_timeout=30.0
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


Authorize = Callable[[], Awaitable[Mapping[str, str]]]


class JsonClient:
    """Calls of one JSON API. Lists are asked for by ETag, where the server gives any.

    A server that limits the rate of our credentials is not asked again before the time it names.
    """

    def __init__(
        self, transport: ForgeTransport, root: str, authorize: Authorize, clock: Clock
    ) -> None:
        self._transport, self._root = transport, root.rstrip("/")
        self._authorize, self._clock = authorize, clock
        self._limit: _RateLimit | None = None
        self._known: OrderedDict[str, tuple[str, Any, CIMultiDictProxy[str]]] = OrderedDict()

    async def authorization(self) -> Mapping[str, str]:
        """The headers that name the account of the next request. Raises ApiError."""
        return await self._authorize()

    async def get(self, path: str) -> Any:
        """The decoded answer. Raises ApiError."""
        return (await self.page(path))[0]

    async def page(self, path: str) -> tuple[Any, CIMultiDictProxy[str]]:
        """The decoded answer and its headers. Raises ApiError."""
        known = self._known.get(path)
        headers = {"If-None-Match": known[0]} if known else {}
        answer = await self._exchange("GET", path, headers, None)
        if answer.status == 304 and known is not None:
            self._known.move_to_end(path)
            return known[1], known[2]
        value = _decoded(answer)
        tag = answer.headers.get("ETag", "")
        if tag and len(answer.body) <= _REMEMBERED_BYTES:
            self._known[path] = (tag, value, answer.headers)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return value, answer.headers

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A call that changes something. Raises ApiError."""
        headers = {"Content-Type": "application/json"}
        return _decoded(await self._exchange(method, path, headers, msgspec.json.encode(body)))

    async def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> JsonReply:
        headers_sent = {"Accept": "application/json", "User-Agent": USER_AGENT, **headers}
        of = dict(await self._authorize())
        if self._limit is not None:
            self._limit.check(of, self._clock.monotonic())
        answer = await self._transport.exchange(method, self._root + path, headers_sent | of, body)
        if answer.status >= 300 and answer.status != 304:
            error = refused(answer, self._clock.now())
            if isinstance(error, TooManyRequests):
                until = self._clock.monotonic() + error.details.retry_after_s
                self._limit = _RateLimit(of, until, error)
            raise error
        return answer


@dataclass(frozen=True, slots=True)
class _RateLimit:
    """The refusal of credentials that asked too often; `until` is of the monotonic clock."""

    of: Mapping[str, str] = field(repr=False)
    until: float
    error: TooManyRequests

    def check(self, of: Mapping[str, str], now: float) -> None:
        """Raises TooManyRequests while it lasts."""
        left = ceil(self.until - now)
        if left > 0 and of == self.of:
            details = replace(self.error.details, retry_after_s=left)
            raise TooManyRequests(self.error.message, details)


class Login:
    """Login of the account that requests are made for; other credentials may be of another one."""

    def __init__(self, client: JsonClient, ask: Callable[[], Awaitable[str]]) -> None:
        self._client, self._ask = client, ask
        self._name, self._of = "", dict[str, str]()

    async def now(self) -> str:
        """Return it; the forge is asked once for the same credentials. Raises ApiError."""
        of = dict(await self._client.authorization())
        if of != self._of:
            self._name, self._of = await self._ask(), of
        return self._name


def _decoded(answer: JsonReply) -> Any:
    try:
        return msgspec.json.decode(answer.body) if answer.body else None
    except (msgspec.DecodeError, RecursionError) as error:
        why = _page(answer.body) or decode_problem(error)
        raise Unavailable(f"the answer is no JSON: {why}") from error


def _page(body: bytes) -> str:
    """Name a page for users by its title; "" for anything else."""
    text = body[:_HEAD_MAX].decode("utf-8", "replace").strip()
    title = _TITLE.search(text)
    return f"a page{f' ({title[1].strip()})' if title else ''}" if text.startswith("<") else ""


def _words(body: bytes) -> str:
    """Return what an answer says in words, whether as JSON, a page or text."""
    try:
        return ", ".join(_texts(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError):
        return _page(body) or body[:_WORDS_MAX].decode("utf-8", "replace")


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON answer that are for people, however deep."""
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            named = [value[name] for name in _TEXTS if value.get(name)]
            for one in named or value.values():
                yield from _texts(one)
        case _:
            return


def refused(answer: JsonReply, now: datetime) -> ApiError:
    """The error of an answer that is no success; what limits our rate is TooManyRequests."""
    words = visible(" ".join(_words(answer.body).split()))[:_WORDS_MAX]
    error = responses.refusal(answer.status, answer.headers, words.encode())
    wait = _stay_away(answer, now)
    if wait is None:
        return error
    details = replace(error.details, retry_after_s=min(wait, STAY_AWAY_MAX_S))
    return TooManyRequests(error.message, details)


def _stay_away(answer: JsonReply, now: datetime) -> int | None:
    """For how many seconds not to ask again; None when the answer is not about our rate."""
    headers = answer.headers
    if answer.status not in {403, 429, 503}:
        return None
    after = _after(headers.get("Retry-After", ""), now)
    if after is None and any(headers.get(name) == "0" for name in _REMAINING):
        resets = (headers.get(name, "") for name in _RESETS)
        reset = next((int(r) for r in resets if r.isdecimal() and len(r) < 16), None)
        after = max(int(reset - now.timestamp()) + 1, 1) if reset is not None else None
    if after is None and answer.status == 403 and b"rate limit" in answer.body.lower():
        after = _LIMITED_S
    return after if after is not None or answer.status != 429 else 0


def _after(text: str, now: datetime) -> int | None:
    """A Retry-After: seconds, or a date."""
    if text.isdecimal() and len(text) < 10:
        return int(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(int((date - now).total_seconds()) + 1, 0)
