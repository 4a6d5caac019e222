"""Opening a small HTTP server of ours at an address a user named, and closing it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gitkruise.errors import Finding, UsageProblem
from gitkruise.kube.listening import Listen

_LIMITS: Final[Mapping[str, Any]] = {
    "max_line_size": 8_192,
    "max_field_size": 8_192,
    "access_log": None,
}
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTerms:
    """What is served, for messages: `does` ("serve metrics"), and the flag that names the address.

    `code` is that of an address that cannot be had, `limits` go to aiohttp's web.Server beside
    those of every server of ours, and requests under way get `leaving_s` to end.
    """

    does: str
    flag: str
    code: str
    log: str
    limits: Mapping[str, Any]
    leaving_s: float = 2.0


class _Server(web.Server):
    """Hangs up on who comes while it leaves, as those do whose TLS handshake ends only then."""

    leaving = False

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if self.leaving:
            transport.abort()


@asynccontextmanager
async def serving(
    handler: Handler, terms: ServerTerms, listen: Listen, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve while the body runs, over TLS with a context; gives the port. Raises UsageProblem."""
    quiet = logging.getLogger(terms.log)  # of broken requests
    quiet.setLevel(logging.CRITICAL)
    server = _Server(handler, logger=quiet, **{**_LIMITS, **terms.limits})
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=terms.leaving_s)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, listen.host, listen.port, ssl_context=context).start()
        except OSError as error:
            where = f"{listen.host}:{listen.port}"
            message = f"cannot {terms.does} at {where}: {error.strerror}"
            notes = (("next", f"choose another address with {terms.flag} HOST:PORT"),)
            raise UsageProblem(Finding(code=terms.code, message=message, notes=notes)) from error
        port: int = runner.addresses[0][1]
        yield port
    finally:
        server.leaving = True
        await runner.cleanup()
