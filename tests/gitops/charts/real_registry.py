"""The real registry on loopback, and images without layers that are pushed to it."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.git.helm_program import registry

_CONFIG = b'{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}'
_IMAGE = "application/vnd.oci.image.manifest.v1+json"


@contextmanager
def running(folder: Path, htpasswd: str = "") -> Iterator[str]:
    """The address of a registry; with `htpasswd` it wants credentials."""
    program = registry()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings: dict[str, Any] = {
        "version": "0.1", "storage": {"inmemory": {}}, "log": {"level": "error"},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "x"},
    }  # fmt: skip
    if htpasswd:
        (folder / "htpasswd").write_text(htpasswd)
        settings["auth"] = {"htpasswd": {"realm": "charts", "path": str(folder / "htpasswd")}}
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(settings).encode())
        process.stdin.close()
        try:
            _listening(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def push(address: str, name: str, *tags: str) -> None:
    """Push an image under these tags, with names of their own in its manifest."""
    root = f"http://{address}/v2/{name}"
    with _sent("POST", f"{root}/blobs/uploads/") as reply:
        upload = reply.headers["Location"]
    _sent("PUT", f"{upload}&digest={_digest(_CONFIG)}", _CONFIG).close()
    config = {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "digest": _digest(_CONFIG), "size": len(_CONFIG),
    }  # fmt: skip
    for tag in tags:
        manifest = {
            "schemaVersion": 2, "mediaType": _IMAGE, "config": config, "layers": [],
            "annotations": {"tag": tag},
        }  # fmt: skip
        _sent("PUT", f"{root}/manifests/{tag}", json.dumps(manifest).encode(), _IMAGE).close()


def _sent(verb: str, url: str, body: bytes = b"", kind: str = "application/octet-stream") -> Any:
    request = urllib.request.Request(url, body, {"Content-Type": kind}, method=verb)
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the registry listens."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the registry ended")
