"""A real HTTP server on loopback that answers as told, and a way to it in virtual time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gitkruise.gitops.http_get import HttpGet, HttpReply, fetch


@dataclass
class Endpoint:
    """The next answers are `body` with `status`; requests are kept as (path, Authorization)."""

    url: str = ""
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def says(self, value: Any) -> None:
        """Answer with this JSON."""
        self.status, self.body = 200, json.dumps(value).encode()


@contextmanager
def serving() -> Iterator[Endpoint]:
    """A server while the block runs."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            endpoint.requests.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(endpoint.status)
            for name, value in endpoint.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(endpoint.body)))
            self.end_headers()
            self.wfile.write(endpoint.body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()


async def fetch_now(request: HttpGet) -> HttpReply:
    """The product's own request, in a loop of real time: virtual time stands still meanwhile."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, fetch(request)).result()
