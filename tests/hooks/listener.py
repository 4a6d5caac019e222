"""A webhook on loopback that answers as its path says, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from aiohttp import web

from gitkruise.kube.serve.certificates import new_authority, new_server, server_context
from gitkruise.kube.system.wall_clock import wall_time

TIMEOUT_S: Final = 20.0
NAMES: Final = ("127.0.0.1", "hook.default.svc", "named.default.svc")


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def bundle_of(ca: str) -> str:
    """A PEM as a caBundle."""
    return base64.b64encode(ca.encode()).decode()


@dataclass
class Listener:
    """A running webhook. `ca` is the PEM that proves it."""

    ca: str = ""
    port: int = 0
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def bundle(self) -> str:
        """The caBundle of a clientConfig."""
        return bundle_of(self.ca)

    def drain(self) -> list[Mapping[str, Any]]:
        """The requests of the reviews since the last look, in the order they came."""
        found, self.asked = self.asked, []
        return found

    async def answer(self, http: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await http.read())
        self.asked.append({"via": http.path.rpartition("/")[0], **review["request"]})
        return await answered(spoken(http.path), review["request"]["uid"])


def path_of(answer: Mapping[str, Any]) -> str:
    """The path under which a webhook answers so: `response` (a list as its patch is encoded),
    `body` (whole, or a text), `status` of HTTP, `hang`. `name` tells reviews apart."""
    text = json.dumps(answer, separators=(",", ":"), sort_keys=True)
    encoded = base64.b32encode(text.encode()).decode().rstrip("=").lower()
    return f"/{answer.get('name', 'hook')}/{encoded}"


def spoken(path: str) -> Mapping[str, Any]:
    encoded = path.rpartition("/")[2].upper()
    found: dict[str, Any] = json.loads(base64.b32decode(encoded + "=" * (-len(encoded) % 8)))
    return found


async def answered(answer: Mapping[str, Any], uid: str) -> web.Response:
    """The answer a path stands for."""
    if answer.get("hang"):
        await asyncio.sleep(TIMEOUT_S)
    status = answer.get("status", 200)
    if "body" in answer:
        body = answer["body"]
        text = body if isinstance(body, str) else json.dumps(body).replace("<uid>", uid)
        return web.Response(status=status, text=text)
    response = {"uid": uid, "allowed": True, **answer.get("response", {})}
    if isinstance(response.get("patch"), list):
        patch = json.dumps(response["patch"]).encode()
        response = {"patchType": "JSONPatch", **response, "patch": base64.b64encode(patch).decode()}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return web.json_response(review, status=status)


@asynccontextmanager
async def hearing(answer: Handler) -> AsyncIterator[tuple[int, str]]:
    """Serve `answer` over HTTPS in the running loop: its port, and the PEM that proves it."""
    now = wall_time() - timedelta(days=1)
    authority = new_authority(now)
    context = server_context(new_server(authority, now, NAMES))
    server = web.Server(answer)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield runner.addresses[0][1], authority.certificate.decode()
    finally:
        for kept in list(server.connections):
            if kept.transport is not None:
                kept.transport.abort()  # a farewell would wait for the other end's
        await runner.cleanup()


@contextmanager
def listening() -> Iterator[Listener]:
    """A webhook in a thread of its own."""
    listener = Listener()
    loops: list[asyncio.AbstractEventLoop] = []
    started, stop = threading.Event(), asyncio.Event()

    async def main() -> None:
        async with hearing(listener.answer) as (listener.port, listener.ca):
            loops.append(asyncio.get_running_loop())
            started.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert started.wait(TIMEOUT_S)
        yield listener
    finally:
        for loop in loops:
            loop.call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT_S)
