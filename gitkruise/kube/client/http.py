"""HttpTransport: requests as values, carried to a kube-apiserver by aiohttp."""

from __future__ import annotations

import asyncio
import functools
import socket
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from gitkruise.errors import (
    ApiError,
    BadRequest,
    ClusterFailed,
    GatewayTimeout,
    InternalError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.client import responses
from gitkruise.kube.client.codec import encode
from gitkruise.kube.client.connection_errors import why_unreachable
from gitkruise.kube.client.limits import AdaptiveLimit, pause_s
from gitkruise.kube.client.transport import SEND_CHECK
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON,
    OPENED,
    ApiReply,
    ApiRequest,
    WatchEvent,
)

DEADLINE_S: Final = 30.0  # one send once it is its turn, all its tries and pauses included
CONNECT_S: Final = 10.0
TRIES: Final = 5
REPLY_BYTES_MAX: Final = 256 * 2**20
USER_AGENT: Final = "gitkruise"
_METHODS: Final[Mapping[str, str]] = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_LEASES_GROUP: Final = "coordination.k8s.io"
_READS: Final = frozenset({"get", "list", "watch"})


class _Lost(Exception):
    """The connection failed; `written` says whether the server may have read the request, and
    `distrusted` that no authority that is known signed its certificate."""

    def __init__(self, why: str, *, written: bool, distrusted: bool = False) -> None:
        super().__init__(why)
        self.why, self.written, self.distrusted = why, written, distrusted


class HttpTransport:
    """Implements kube.transport.Transport.

    Tried again within the deadline: reads and server-side applies after any failure that may
    pass; other writes only when they were not yet written or the server answered 429. A write
    whose answer is lost raises GatewayTimeout. There is no client-side rate; requests in flight
    adapt to 429. Redirects are not followed (a token never leaves its host). After `unsent_s`
    without an acknowledgement the kernel drops a connection with its bytes; None: in its own time.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        deadline_s: float = DEADLINE_S,
        limit: AdaptiveLimit | None = None,
        reply_bytes_max: int = REPLY_BYTES_MAX,
        unsent_s: float | None = None,
    ) -> None:
        self.connection = connection
        self.limit = limit or AdaptiveLimit()
        self._clock, self._deadline_s, self._cap = clock, deadline_s, reply_bytes_max
        self._unsent_s = unsent_s
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: ApiRequest) -> ApiReply:
        progress = SimpleNamespace(written=False, renewed=False, failure=None)
        urgent = request.resource.group == _LEASES_GROUP  # a holder has seconds to renew one
        try:
            turn = self.limit.slot(urgent=urgent)
            async with turn as generation, asyncio.timeout(self._deadline_s):
                return await self._tries(request, generation, progress)
        except TimeoutError as error:
            lost = _Lost(f"no answer within {self._deadline_s:g} s", written=progress.written)
            raise self._failure(request, progress.failure or lost) from error

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        if request.verb != "watch":
            raise ValueError(f"{request.verb} is not a watch")
        url = self._url(request, {"watch": "true"})
        progress = SimpleNamespace(written=False, renewed=False)
        headers = await self._headers(request)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._deadline_s):
                    opened = self._opened("GET", url, headers, None, progress)
                    response = await stack.enter_async_context(opened)
            except TimeoutError as error:
                lost = _Lost(f"no answer within {self._deadline_s:g} s", written=False)
                raise self._failure(request, lost) from error
            except _Lost as lost:
                if lost.distrusted:  # the next watch profits from what is read now
                    await self._renew_authorities()
                raise self._failure(request, lost) from lost
            if response.status != 200:
                raise await self._refused_watch(response)
            stack.callback(_cut, response)
            yield WatchEvent(type=OPENED, object={})
            try:
                async for line in responses.lines(response.content):
                    yield responses.event(line, request)
            except (aiohttp.ClientError, OSError) as error:
                raise Unavailable(f"the watch broke off: {error}") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # sockets cut just now close in the loop's next round

    # One request ----------------------------------------------------------------------------

    async def _tries(
        self, request: ApiRequest, generation: int, progress: SimpleNamespace
    ) -> ApiReply:
        for attempt in range(1, TRIES + 1):
            progress.written, progress.failure = False, None
            try:
                reply = await self._once(request, progress)
            except TooManyRequests as error:
                self.limit.refused(generation)
                if attempt == TRIES:
                    raise
                progress.failure = error  # which the deadline may make the last
                await self._clock.sleep(self._pause(request, attempt, error))
            except (ApiError, _Lost) as error:
                if attempt == TRIES or not await self._mend(request, error, progress):
                    raise self._failure(request, error) from error
                progress.failure = error
                await self._clock.sleep(self._pause(request, attempt, error))
            else:
                self.limit.succeeded()
                return reply
        raise AssertionError("the last try returns or raises")

    async def _mend(
        self, request: ApiRequest, error: ApiError | _Lost, progress: SimpleNamespace
    ) -> bool:
        """Return whether the same request may be sent again; renews refused credentials."""
        match error:
            case Unauthorized() if self._renewable and not progress.renewed:
                progress.renewed = True
                await self._renew()
                return True
            case _Lost(written=False):
                if error.distrusted:
                    await self._renew_authorities()
                return True
            case _Lost() | InternalError() | Unavailable() | GatewayTimeout():
                return _repeatable(request)
            case _:
                return False

    @property
    def _renewable(self) -> bool:
        connection = self.connection
        return connection.credentials.renewable or connection.client_pair is not None

    async def _renew(self) -> None:
        """Read credentials and the client's certificate again."""
        with _credentials():
            await self.connection.credentials.renew()
            if self.connection.client_pair is None:
                return
            cert, key = await asyncio.to_thread(self.connection.client_pair)
            await self._use(replace(self.connection, client_cert_pem=cert, client_key_pem=key))

    async def _renew_authorities(self) -> None:
        """Read again what is trusted."""
        if self.connection.authorities is None:
            return
        with _credentials():
            ca_pem = await asyncio.to_thread(self.connection.authorities)
            await self._use(replace(self.connection, ca_pem=ca_pem))

    async def _use(self, renewed: Connection) -> None:
        """Use other certificates. They need new connections: the present ones were opened with
        those before."""
        if renewed != self.connection:
            renewed.ssl_context()  # an unusable certificate leaves the present one
            self.connection = renewed
            await self.close()

    async def _refused_watch(self, response: aiohttp.ClientResponse) -> ApiError:
        """Return the error of a watch that was refused; the next one has renewed credentials."""
        error = await self._refusal(response)
        if isinstance(error, Unauthorized) and self._renewable:
            await self._renew()
        return error

    def _pause(self, request: ApiRequest, attempt: int, error: ApiError | _Lost) -> float:
        retry_after_s = error.details.retry_after_s if isinstance(error, ApiError) else 0
        return max(retry_after_s, pause_s(attempt, first_s=0.05, cap_s=5.0, seed=request.path))

    def _failure(self, request: ApiRequest, error: ApiError | _Lost) -> ApiError:
        """Return the error for the caller when no more tries follow."""
        if isinstance(error, ApiError):
            return error
        if error.written and request.verb not in _READS:
            where, open_ = self.connection.host, f"whether the {request.verb} took place is unknown"
            return GatewayTimeout(f"API server at {where}: {error.why}; {open_}")
        return Unavailable(f"cannot reach the API server at {self.connection.host}: {error.why}")

    async def _once(self, request: ApiRequest, progress: SimpleNamespace) -> ApiReply:
        body = None if request.body is None else encode(request.body)
        headers = await self._headers(request)
        if body is not None:
            headers["Content-Type"] = request.content_type
        url = self._url(request, {})
        async with self._opened(_METHODS[request.verb], url, headers, body, progress) as response:
            if response.status >= 300:
                raise await self._refusal(response)
            try:
                data = await responses.whole(response.content, self._cap)
            except (aiohttp.ClientError, OSError) as error:
                raise _Lost(f"the answer broke off: {error}", written=True) from error
        try:
            obj = responses.body(data, request)
        except ValueError as error:
            raise _Lost(f"the answer is no JSON: {error}", written=True) from error
        return ApiReply(
            status=response.status, body=obj, warnings=responses.warnings(response.headers)
        )

    def _opened(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        progress: SimpleNamespace,
    ) -> _Opened:
        return _Opened(self, method, url, headers, body, progress)

    async def _refusal(self, response: aiohttp.ClientResponse) -> ApiError:
        """Return the error of a refusal; Retry-After counts where the body does not have it."""
        try:
            data = await responses.whole(response.content, 2**20)
        except (aiohttp.ClientError, OSError, ApiError):
            data = b""
        return responses.refusal(response.status, response.headers, data)

    async def _headers(self, request: ApiRequest) -> dict[str, str]:
        if request.groups:
            raise ValueError("a user's groups are the server's to know")
        acting = {"Impersonate-User": request.user} if request.user else {}
        with _credentials():
            return {**_BASE_HEADERS, **await self.connection.credentials.headers(), **acting}

    def _url(self, request: ApiRequest, extra: Mapping[str, str]) -> URL:
        if {request.name, request.namespace} & {".", ".."} or "/" in request.name:
            raise BadRequest(f"{request.name or request.namespace!r} is not a name")
        query = _query(tuple({**request.params, **extra}.items()))
        path = quote(request.path, safe="/:@")
        return URL(f"{self.connection.server}{path}{'?' if query else ''}{query}", encoded=True)

    def session(self) -> aiohttp.ClientSession:
        """The pool of keep-alive connections, made on first use inside the running loop."""
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_note_written)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    ssl=self.connection.ssl_context() or True,
                    keepalive_timeout=30.0,
                    socket_factory=self._socket if self._unsent_s is not None else None,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace],
                trust_env=False,
            )
        return self._session

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        # Only Linux has the option; a controller elsewhere is one for a developer.
        if sys.platform == "linux" and self._unsent_s is not None:
            limit_ms = int(self._unsent_s * 1000)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)
        return made


@functools.lru_cache(256)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Most requests ask in one of a few ways."""
    return urlencode(params)


_BASE_HEADERS: Final = {
    "Accept": JSON,
    "Accept-Encoding": "identity",
    "User-Agent": USER_AGENT,
}


class _Opened:
    """Context of one exchange, entered at the response headers; carrier failures become _Lost."""

    def __init__(
        self,
        transport: HttpTransport,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        progress: SimpleNamespace,
    ) -> None:
        connection = transport.connection
        self._progress = progress
        self._context = transport.session().request(
            method,
            url,
            headers=headers,
            data=None if body is None else _CheckedBody(body),
            allow_redirects=False,
            proxy=connection.proxy or None,
            server_hostname=connection.tls_server_name or None,
            trace_request_ctx=progress,
        )

    async def __aenter__(self) -> aiohttp.ClientResponse:
        try:
            return await self._context.__aenter__()
        except (aiohttp.ClientError, OSError) as error:
            raise _Lost(
                why_unreachable(error),
                written=self._progress.written,
                distrusted=isinstance(error, aiohttp.ClientConnectorCertificateError),
            ) from error

    async def __aexit__(self, *exc: Any) -> None:
        await self._context.__aexit__(*exc)


@contextmanager
def _credentials() -> Iterator[None]:
    """Turn the failure to read or renew credentials into the answer that a request without them
    gets: callers of a running controller wait for their end."""
    try:
        yield
    except ClusterFailed as error:
        finding = error.findings[0]
        why = dict(finding.notes).get("")
        raise Unauthorized(f"{finding.message}: {why}" if why else finding.message) from error


def _cut(response: aiohttp.ClientResponse) -> None:
    """Abort a watch's socket: a polite TLS end would outlive the transport's close."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


class _CheckedBody(aiohttp.BytesPayload):
    """A body that is checked when it goes out: its headers are kept back until then."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._check = SEND_CHECK.get()

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


async def _note_written(_session: Any, context: Any, _params: Any) -> None:
    SEND_CHECK.get()()
    context.trace_request_ctx.written = True


def _repeatable(request: ApiRequest) -> bool:
    """Doing it twice is doing it once: reads, and server-side apply."""
    return request.verb in _READS or request.content_type == APPLY_PATCH
