"""OCI images of one layer, and a registry on loopback that serves them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from release import oci
from release.archives import EXECUTABLE, File, tar_of
from release.oci import MANIFEST, Image, Layer, digest

FOLDERS = ("dev", "etc", "proc", "sys", "tmp")  # of every root file system


def layer(program: Path) -> Layer:
    """The program as /app, and folders."""
    return _layer({"app": program.read_bytes()})


def image(part: Layer, version: str) -> Image:
    """An image over a layer; its program knows `version` from the environment."""
    return oci.image([part], {"Entrypoint": ["/app"], "Env": [f"VERSION={version}"]})


def image_of(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> Image:
    """An image of files by path, with the configuration of its containers."""
    return oci.image([_layer(files)], settings)


def _layer(files: Mapping[str, bytes]) -> Layer:
    inside = {path: File(data, EXECUTABLE) for path, data in files.items()}
    return oci.layer(tar_of(inside, folders=FOLDERS), level=1)


@dataclass
class Registry:
    """The pull side of the distribution API. Repositories below `private/` need a login."""

    port: int = 0
    login: str = "puller:loopback"
    blobs: dict[str, bytes] = field(default_factory=dict)
    tags: dict[tuple[str, str], str] = field(default_factory=dict)  # (repository, tag) → digest
    pulls: list[tuple[str, str]] = field(default_factory=list)  # manifests served by tag

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add(self, reference: str, what: Image) -> str:
        """Offer an image as `repository:tag`; returns its full name."""
        repository, _, tag = reference.rpartition(":")
        self.blobs |= {digest(blob): blob for blob in what.blobs}
        self.tags[repository, tag] = digest(what.manifest)
        return f"{self.host}/{reference}"

    def answer(self, path: str, authorization: str) -> tuple[int, bytes, str]:
        """(status, body, content type) of a GET."""
        if not path.startswith("/v2/"):
            return 404, b"", ""
        if path == "/v2/":
            return 200, b"{}", "application/json"
        head, _, reference = path[4:].rpartition("/")
        repository, _, kind = head.rpartition("/")
        basic = "Basic " + base64.b64encode(self.login.encode()).decode()
        if repository.startswith("private/") and authorization != basic:
            return 401, b"", ""
        if kind == "manifests":
            found = self.tags.get((repository, reference), reference)
            if (repository, reference) in self.tags:
                self.pulls.append((repository, reference))
            body = self.blobs.get(found)
            return (404, b"", "") if body is None else (200, body, MANIFEST)
        body = self.blobs.get(reference)
        return (404, b"", "") if body is None else (200, body, "application/octet-stream")


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve the registry on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body, kind = registry.answer(
                self.path.partition("?")[0], self.headers.get("Authorization", "")
            )
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="loopback"')
            if status == 200:
                self.send_header("Content-Type", kind)
                self.send_header("Docker-Content-Digest", digest(body))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Requests are not logged: the tests look at `pulls`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
