"""A sandbox served from a thread, and a small HTTP client for it."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.server import SandboxOptions, SandboxServer, serve

T = TypeVar("T")
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.data)


@dataclass(frozen=True)
class Client:
    """Requests to one sandbox, one connection each."""

    url: str
    token: str
    ca: str

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=self.ca)
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, context=context, timeout=TIMEOUT_S
        )

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with the token; `body` is sent as JSON unless it is bytes.

        A header of "" is left out, one given replaces ours.
        """
        connection = self.connect()
        sent = {"Authorization": f"Bearer {self.token}", "User-Agent": "test/1"}
        data = body
        if body is not None:
            sent["Content-Type"] = "application/json"
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent |= headers or {}
        try:
            connection.request(method, path, data, {k: v for k, v in sent.items() if v})
            got = connection.getresponse()
            return Answer(got.status, dict(got.headers), got.read())
        finally:
            connection.close()

    @contextmanager
    def lines(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Iterator[Any]]:
        """The lines of a watch, decoded as they come."""
        connection = self.connect()
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        connection.request("GET", path, None, sent)
        got = connection.getresponse()
        assert got.status == 200, got.read()
        try:
            yield (json.loads(line) for line in iter(got.readline, b""))
        finally:
            got.close()
            connection.close()


class Served:
    """A running sandbox, reachable from the test's thread."""

    def __init__(self, sandbox: SandboxServer, loop: asyncio.AbstractEventLoop) -> None:
        self.sandbox = sandbox
        self.client = Client(sandbox.url, sandbox.token, sandbox.ca)
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the sandbox's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    @contextmanager
    def beside(self, work: Coroutine[Any, Any, None]) -> Iterator[None]:
        """Have a coroutine run on the sandbox's loop for the length of a block."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            yield
        finally:
            running.cancel()


async def run_controllers(transport: WorldTransport, clock: Clock, gates: Gates) -> None:
    options = ControllerOptions(gates=gates)
    await Controllers(EMBEDDED, transport, load_catalog(), clock, options).run()


@contextmanager
def served(options: SandboxOptions) -> Iterator[Served]:
    """Serve a sandbox in a thread for the length of a block."""
    up: list[Served] = []
    failed: list[BaseException] = []
    started, stop = threading.Event(), asyncio.Event()

    async def main() -> None:
        async with serve(options, controllers=run_controllers) as sandbox:
            up.append(Served(sandbox, asyncio.get_running_loop()))
            started.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        started.wait(TIMEOUT_S)
        if failed:
            raise failed[0]
        yield up[0]
    finally:
        if up:
            up[0]._loop.call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    if failed:
        raise failed[0]
