"""OCI images of one layer, and a registry on loopback that serves them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
FOLDERS = ("dev", "etc", "proc", "sys", "tmp")  # of every root file system
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Image:
    """Blobs of one image; `version` gives it a configuration and so a digest of its own."""

    config: bytes
    layer: bytes
    manifest: bytes

    @property
    def blobs(self) -> tuple[bytes, bytes, bytes]:
        return self.config, self.layer, self.manifest

    def archive(self, reference: str) -> bytes:
        """The image as an OCI tar, for `ctr images import`."""
        entry = {
            "mediaType": MANIFEST,
            "size": len(self.manifest),
            "digest": digest(self.manifest),
            "annotations": {"io.containerd.image.name": reference},
        }
        index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
        files |= {"blobs/sha256/" + digest(blob)[7:]: blob for blob in self.blobs}
        return _tar(files)


def layer(program: Path) -> tuple[bytes, str]:
    """(compressed layer, digest of what is in it): the program as /app, and folders."""
    raw = _tar({"app": program.read_bytes()}, folders=FOLDERS)
    return gzip.compress(raw, 1, mtime=0), digest(raw)


def image(parts: tuple[bytes, str], version: str) -> Image:
    """An image over a layer; its program knows `version` from the environment."""
    return _image(parts, {"Entrypoint": ["/app"], "Env": [f"VERSION={version}"]})


def image_of(files: Mapping[str, bytes], settings: Mapping[str, Any]) -> Image:
    """An image of files by path, with the configuration of its containers."""
    raw = _tar(files, folders=FOLDERS)
    return _image((gzip.compress(raw, 1, mtime=0), digest(raw)), settings)


def _image(parts: tuple[bytes, str], settings: Mapping[str, Any]) -> Image:
    compressed, inside = parts
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"WorkingDir": "/", **settings},
        "rootfs": {"type": "layers", "diff_ids": [inside]},
    }
    text = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(text), "digest": digest(text)},
        "layers": [{"mediaType": LAYER, "size": len(compressed), "digest": digest(compressed)}],
    }
    return Image(text, compressed, json.dumps(manifest).encode())


def _tar(files: Mapping[str, bytes], folders: tuple[str, ...] = ()) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in folders:
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return written.getvalue()


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
