"""Bounds on the connections of an HTTP server of ours, counted from accept on.

At the bound the connection that has been idle longest makes room, so that a client that holds
many open shuts out no other. TLS begins with the client's first byte: before that a connection
costs a socket and nothing more. All clients of a loopback server have the same address, so
clients cannot be distinguished by it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gitkruise.wire.primitives.log_line import log_line

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
log: Final = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 2_048
FILES_SPARED: Final = 128  # of the process's limit, for everything that is no connection
FIRST_BYTE_S: Final = 10.0
HANDSHAKE_S: Final = 10.0
# Writers wait from the first byte on that the socket's own buffer (64 KiB) does not take: asyncio
# would let TLS hold another 512 KiB for each client that does not read.
UNSENT_HIGH: Final = 1
PAUSE_S: Final = 0.1  # after the system ran out of something
LOG_EVERY_S: Final = 60.0
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# asyncio gives every TLS connection a buffer of this size when it begins: 256 KiB, for nothing.
SSLProtocol.max_size = 64 * 1024


def unsent(transport: asyncio.Transport) -> int:
    """Bytes that the client's socket has not taken, those that wait beneath TLS among them."""
    tls = getattr(transport, "_ssl_protocol", None)  # asyncio shows no way to what TLS writes to
    beneath = getattr(tls, "_transport", None)
    own: int = transport.get_write_buffer_size()
    return own + (beneath.get_write_buffer_size() if beneath is not None else 0)


class BoundedServer(web.Server):
    """aiohttp's server, and who is connected to it: since when idle, or busy with a request."""

    def __init__(
        self, handler: Handler, *, most: int | None = None, log_as: str, **settings: Any
    ) -> None:
        """No more than `most` connections, and no more than the process may open.

        `log_as` names the logger of broken requests, which is kept quiet.
        """
        quiet = logging.getLogger(log_as)
        quiet.setLevel(logging.CRITICAL)
        super().__init__(self._answer, logger=quiet, **settings)
        self._handler = handler
        self._leaving = False
        most = CONNECTIONS_MAX if most is None else most
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = most if files == resource.RLIM_INFINITY else files - FILES_SPARED
        self.most = max(min(most, room), 1)
        self._idle: dict[RequestHandler, float] = {}  # since when, the longest first
        self._busy: dict[RequestHandler, web.BaseRequest] = {}
        self._open: dict[RequestHandler, asyncio.Transport] = {}
        self._empty = asyncio.Event()
        self._greeted: dict[asyncio.Task[None], float] = {}
        self._next_log = 0.0

    @property
    def held(self) -> int:
        """Connections now, those before TLS among them."""
        return len(self._idle) + len(self._busy) + len(self._greeted)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        transport.set_write_buffer_limits(high=UNSENT_HIGH)
        self._idle[handler] = asyncio.get_running_loop().time()
        self._open[handler] = transport
        self._empty.clear()
        if self._leaving:
            _hang_up(transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
        if not self._open:
            self._empty.set()
        self._idle.pop(handler, None)
        self._busy.pop(handler, None)

    async def hang_up(self) -> None:
        """Abort what is still open at the end: clients may never answer the closing of TLS."""
        for transport in tuple(self._open.values()):
            transport.abort()
        if self._open:
            await self._empty.wait()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; its connection is not idle meanwhile."""
        handler = request.protocol
        if self._idle.pop(handler, None) is not None:
            self._busy[handler] = request
        try:
            return await self._handler(request)
        finally:
            if handler in self._busy:
                self._busy.pop(handler, None)
                self._idle[handler] = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def accepting(
        self, listeners: Sequence[socket.socket], context: ssl.SSLContext | None
    ) -> AsyncIterator[None]:
        """Let clients in while the body runs."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._accept(one, context, group)) for one in listeners]
                try:
                    yield
                finally:
                    self._leaving = True
                    for task in (*tasks, *self._greeted):
                        task.cancel()
        finally:
            for one in listeners:
                one.close()

    async def _accept(
        self,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        group: asyncio.TaskGroup,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _SCARCE:
                    self._report(error)
                    self._make_room()
                    await asyncio.sleep(PAUSE_S)
                continue  # or the client hung up before it was accepted
            if self.held >= self.most and not self._make_room():
                client.close()
                continue
            task = group.create_task(self._greet(client, context))
            self._greeted[task] = loop.time()
            task.add_done_callback(lambda done: self._greeted.pop(done, None))

    async def _greet(self, client: socket.socket, context: ssl.SSLContext | None) -> None:
        """Hand a connection over once it has said something."""
        loop = asyncio.get_running_loop()
        handed = False
        try:
            client.settimeout(0)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(FIRST_BYTE_S):
                await _readable(client)
            handed = True
            await loop.connect_accepted_socket(
                self, client, ssl=context, ssl_handshake_timeout=HANDSHAKE_S if context else None
            )
        except (OSError, TimeoutError):
            return  # it hung up, said nothing, or speaks something else
        finally:
            if not handed:
                client.close()

    def _make_room(self) -> bool:
        """Hang up the connection that has been idle longest; return whether there was one.

        Without an idle one, hang up the one that has been sending a body longest.
        """
        idle = next(iter(self._idle.items()), None)
        greeted = next(iter(self._greeted.items()), None)
        if greeted is not None and (idle is None or greeted[1] <= idle[1]):
            self._greeted.pop(greeted[0])
            greeted[0].cancel()
            return True
        sending = (one for one, asked in self._busy.items() if not asked.content.is_eof())
        handler = idle[0] if idle is not None else next(sending, None)
        if handler is None:
            return False
        self._idle.pop(handler, None)
        self._busy.pop(handler, None)
        if handler.transport is not None:
            _hang_up(handler.transport)
        return True

    def _report(self, error: OSError) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_log:
            self._next_log = now + LOG_EVERY_S
            log.warning(log_line("accept-paused", connections=self.held, error=error.strerror))


def _hang_up(transport: asyncio.Transport) -> None:
    """Abort, once aiohttp's task of a connection that has only now been opened runs."""
    asyncio.get_running_loop().call_soon(transport.abort)


async def _readable(client: socket.socket) -> None:
    """Wait for the first byte, or the end."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(client, wake)
    try:
        await ready
    finally:
        loop.remove_reader(client)


def bound(host: str, port: int) -> list[socket.socket]:
    """Listening sockets at every address of `host`. Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            listeners.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.settimeout(0)
            one.bind(address)
            one.listen()
    except OSError:
        for one in listeners:
            one.close()
        raise
    return listeners
