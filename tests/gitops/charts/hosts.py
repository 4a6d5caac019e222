"""Repositories of charts on loopback: a server with fixed files, and archives for it."""

from __future__ import annotations

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
from typing import Any

CHART = "apiVersion: v2\nname: {name}\nversion: {version}\n"
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  version: {{ .Chart.Version | quote }}
  region: {{ .Values.region }}
"""


def packed(files: Mapping[str, str | bytes]) -> bytes:
    """A .tgz of files, equal for equal files."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(target.getvalue(), mtime=0)


def chart(version: str, name: str = "web", template: str = SETTINGS) -> bytes:
    """The archive of a version of a chart."""
    return packed(
        {
            f"{name}/Chart.yaml": CHART.format(name=name, version=version),
            f"{name}/values.yaml": "region: none\n",
            f"{name}/templates/settings.yaml": template,
        }
    )


@dataclass
class Host:
    """A server: replies by path as (status, headers, body), and the requests that it had as (path,
    Authorization). A path that it does not know is 404."""

    url: str = ""
    user: str = ""  # `Basic …`, without which it answers 401
    challenge: str = 'Basic realm="charts"'
    replies: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def has(self, path: str, body: bytes, **headers: str) -> None:
        """Answer a path with a body."""
        self.replies[path] = (200, headers, body)

    def publish(self, *archives: tuple[str, bytes], name: str = "web", **entry: Any) -> None:
        """Offer these versions of a chart, and no others."""
        entries = []
        for version, data in archives:
            path = f"/charts/{name}-{version}.tgz"
            self.has(path, data)
            digest = hashlib.sha256(data).hexdigest()
            entries.append(
                {"name": name, "version": version, "digest": digest, "urls": [path[1:]], **entry}
            )
        index = {"apiVersion": "v1", "entries": {name: entries, "database": []}}
        body = json.dumps(index).encode()
        self.has("/index.yaml", body, ETag=f'"{hashlib.sha256(body).hexdigest()}"')


@contextmanager
def serving() -> Iterator[Host]:
    """A server while the block runs."""
    host = Host()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            host.requests.append((self.path, given))
            status, headers, body = host.replies.get(self.path, (404, {}, b"not here"))
            if host.user and given != host.user and not self.path.startswith("/token"):
                status, headers, body = 401, {"WWW-Authenticate": host.challenge}, b"who is it?"
            elif headers.get("ETag") and self.headers.get("If-None-Match") == headers["ETag"]:
                status, body = 304, b""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()
