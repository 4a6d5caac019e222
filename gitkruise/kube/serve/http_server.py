"""Opening a small HTTP server of ours at an address a user named, and closing it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from gitkruise.errors import Finding, UsageProblem
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.connection_limits import CONNECTIONS_MAX, BoundedServer, Handler, bound

_LIMITS: Final[Mapping[str, Any]] = {
    "max_line_size": 8_192,
    "max_field_size": 8_192,
    "access_log": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTerms:
    """The name of a server in messages: `does` ("serve metrics").

    `code` is the code for an address that is not available, `limits` go to aiohttp's web.Server
    next to those of every server of ours, and requests under way get `leaving_s` to end.
    """

    does: str
    code: str
    log: str
    limits: Mapping[str, Any]
    leaving_s: float = 2.0
    connections_max: int = CONNECTIONS_MAX


@asynccontextmanager
async def serving(
    handler: Handler, terms: ServerTerms, listen: Listen, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve while the body runs, over TLS with a context; gives the port. Raises UsageProblem."""
    settings = {**_LIMITS, **terms.limits}
    server = BoundedServer(handler, most=terms.connections_max, log_as=terms.log, **settings)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=terms.leaving_s)
    await runner.setup()
    try:
        try:
            listeners = bound(listen.host, listen.port)
        except OSError as error:
            where = f"{listen.host}:{listen.port}"
            message = f"cannot {terms.does} at {where}: {error.strerror}"
            notes = (("next", f"choose another address with {listen.option}"),)
            raise UsageProblem(Finding(code=terms.code, message=message, notes=notes)) from error
        async with server.accepting(listeners, context):
            port: int = listeners[0].getsockname()[1]
            yield port
    finally:
        await runner.cleanup()
        await server.hang_up()
