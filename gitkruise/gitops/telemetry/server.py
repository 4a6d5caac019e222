"""HTTP server for metrics and probes.

On a loopback address it serves HTTP to every user of the machine. Elsewhere it serves HTTPS with a
certificate of its own, and /metrics needs the token of a user who may `get` that path, as in
controller-runtime; /healthz and /readyz answer one word to everyone.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gitkruise.errors import ApiError
from gitkruise.gitops.telemetry.metrics import Metrics, MetricsSource
from gitkruise.kube.client.reviews import bearer_token, may, user_of_token
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.client.wrappers import Counted
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.certificates import LOOPBACK, new_authority, new_server, server_context
from gitkruise.kube.serve.http_server import ServerTerms, serving
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line

log: Final = logging.getLogger(__name__)

METRICS: Final = "/metrics"
_TERMS: Final = ServerTerms(
    does="serve metrics",
    code="GK7027",
    log="gitkruise.metrics.http",
    limits={
        "keepalive_timeout": 75.0,  # longer than most scrape intervals
        "lingering_time": 1.0,
        "max_field_size": 16_384,  # tokens of service accounts
    },
)


@dataclass(frozen=True, slots=True)
class ProbeHandler:
    """Answers GETs. `text` makes the metrics, `ready` says whether everything was started.

    `public` is whether others than this machine's users may come by.
    """

    text: Callable[[], bytes]
    ready: Callable[[], bool]
    transport: Transport
    public: bool

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if not self.public and request.url.host not in LOOPBACK:
            return web.Response(status=421)  # a page that had its own name lead to this machine
        if path not in {"/healthz", "/readyz", METRICS}:
            return web.Response(status=404)
        if request.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        if path == METRICS:
            status = await self._refusal(request) if self.public else 0
            if status:
                return web.Response(status=status)
            return web.Response(
                body=self.text(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
            )
        well = path == "/healthz" or self.ready()
        return web.Response(status=200 if well else 503, text="ok" if well else "not ready")

    async def _refusal(self, request: web.BaseRequest) -> int:
        """Return 0 for an authorized user; 401, 403, or 503 when the API server does not answer."""
        token = bearer_token(request.headers)
        if not token:
            return 401
        try:
            user = await user_of_token(self.transport, token)
            if user is None:
                return 401
            read = {"path": METRICS, "verb": "get"}
            return 0 if await may(self.transport, user, nonResourceAttributes=read) else 403
        except ApiError as error:
            log.warning(log_line("metrics-access-unknown", error=error))
            return 503


class Meter:
    """Metrics that are served: `transport` counts what goes to the cluster, `url` is where."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.metrics = Metrics(clock)
        self.metrics.of_process()
        self.transport: Transport = Counted(transport, self.metrics.answered)
        self.url = ""
        self.ready = False

    def started(self, metrics: MetricsSource) -> None:
        """Everything runs: serve its values from now on."""
        self.metrics.of(metrics)
        self.ready = True


@asynccontextmanager
async def metered(
    listen: Listen, transport: Transport, clock: Clock, *, public: bool
) -> AsyncIterator[Meter]:
    """Serve while the body runs, ready or not. Raises UsageProblem GK7027."""
    meter = Meter(transport, clock)
    probes = ProbeHandler(meter.metrics.text, lambda: meter.ready, transport, public)
    context = _certified(clock) if public else None
    async with serving(probes.handle, _TERMS, listen, context) as port:
        meter.url = listen.url("https" if public else "http", port) + METRICS
        yield meter


def _certified(clock: Clock) -> ssl.SSLContext:
    """Create a self-signed certificate: it keeps tokens from being overheard."""
    authority = new_authority(clock.now(), name="gitkruise metrics authority")
    return server_context(new_server(authority, clock.now()))
