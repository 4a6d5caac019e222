"""A relay in front of a sandbox that notes every request on its way."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.e2e.cluster import Cluster
from tests.e2e.program import PATIENCE_S

_HOP: frozenset[str] = frozenset({"host", "connection", "transfer-encoding", "content-length"})


@dataclass(slots=True)
class Relay:
    """`kubeconfig` leads to the relay; `requests` are `METHOD path?query`, in order of arrival."""

    kubeconfig: Path
    requests: list[str] = field(default_factory=list)

    def writes(self, start: int = 0, *, dry: bool = False) -> list[str]:
        """Those since `start` that write, or dry runs; leases are renewed and left out."""
        return [
            request
            for request in self.requests[start:]
            if not request.startswith("GET ")
            and ("dryRun=" in request) == dry
            and "/leases/" not in request
        ]


@contextmanager
def counted(cluster: Cluster) -> Iterator[Relay]:
    """A relay to the cluster in a thread of its own, for as long as the body lasts."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    target = config["clusters"][0]["cluster"]
    authority = base64.b64decode(target.pop("certificate-authority-data")).decode()
    server = target["server"]
    relay = Relay(cluster.state / "relay.yaml")
    ready, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        trust = ssl.create_default_context(cadata=authority)
        connector = aiohttp.TCPConnector(limit=0, ssl=trust)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            handler = web.Server(lambda request: _pass_on(request, relay, session, server))
            runner = web.ServerRunner(handler, shutdown_timeout=0.0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            target["server"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
            relay.kubeconfig.write_text(yaml.safe_dump(config))
            loops.append(asyncio.get_running_loop())
            ready.set()
            await over.wait()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield relay
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(PATIENCE_S)


async def _pass_on(
    request: web.BaseRequest, relay: Relay, session: aiohttp.ClientSession, server: str
) -> web.StreamResponse:
    relay.requests.append(f"{request.method} {request.raw_path}")
    headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
    body = await request.read()
    async with session.request(
        request.method, server + request.raw_path, headers=headers, data=body or None
    ) as reply:
        kept = {k: v for k, v in reply.headers.items() if k.lower() not in _HOP}
        response = web.StreamResponse(status=reply.status, headers=kept)
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # whoever asked has gone
            async for data in reply.content.iter_any():
                await response.write(data)
            await response.write_eof()
    return response
