"""Connections that cost their owner nothing: raw TCP ones before TLS, and watches never read.

The server's memory is its resident set; an honest client lists and writes meanwhile.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.doors import BARE, Server, own
from bench.lines import Door
from bench.timing import Row
from tests.e2e.cluster import Cluster, sandbox

RAW: Final = 4_000
WATCHES: Final = 1_000
WRITES: Final = 100
BIG: Final = 100_000  # bytes of each object written
LIMIT_MIB: Final = 400
GOAL_S: Final = 5
MAPS: Final = "/api/v1/namespaces/default/configmaps"
_FILES: Final = 4 * RAW


def rows() -> Iterator[Row]:
    """Raw connections first, in a server of their own; then watches."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    for part in (_raw, _unread):
        with (
            tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name,
            sandbox(Path(name), *BARE) as cluster,
        ):
            yield from part(cluster, own(cluster))


def _raw(cluster: Cluster, server: Server) -> Iterator[Row]:
    parts = urlsplit(server.door.url)
    before = server.rss_mib
    with ExitStack() as stack:
        held = []
        for _ in range(RAW):
            plain = socket.create_connection((parts.hostname, parts.port), timeout=20)
            held.append(stack.enter_context(plain))
        served = _honest(cluster)
        most = server.rss_mib
        name = f"{RAW:,} TCP connections before TLS"
        yield Row(name=f"{name}: memory", value=most, unit="MiB", limit=LIMIT_MIB)
        yield Row(name="  more than before", value=most - before, unit="MiB")
        yield Row(name="  an honest client is answered in", value=served, unit="s", limit=GOAL_S)
        yield Row(name="  still open", value=_open(held), unit="")
    yield Row(name="  answered when they are gone in", value=_honest(cluster), unit="s")


def _open(held: list[socket.socket]) -> int:
    """Number of these connections that the server keeps open."""
    waiting = select.poll()
    for one in held:
        waiting.register(one, select.POLLIN | select.POLLHUP)
    return len(held) - len(waiting.poll(0))


def _honest(cluster: Cluster) -> float:
    """Seconds until a client that begins now is answered; it tries again when it is hung up."""
    start = time.monotonic()
    while True:
        try:
            cluster.get("/api/v1/namespaces")
        except (OSError, ssl.SSLError):
            if time.monotonic() - start > 60:
                return time.monotonic() - start
            time.sleep(0.1)
        else:
            return time.monotonic() - start


def _unread(cluster: Cluster, server: Server) -> Iterator[Row]:
    door, before = server.door, server.rss_mib
    with ExitStack() as stack:
        for _ in range(WATCHES):
            stack.enter_context(_watch(door))
        opened, took = server.rss_mib, 0.0
        most = opened
        for number in range(WRITES):
            start = time.monotonic()
            cluster.send("PATCH", f"{MAPS}/big?fieldManager=bench", _map(number))
            took = max(took, time.monotonic() - start)
            most = max(most, server.rss_mib)
        name = f"{WATCHES:,} watches that never read"
        yield Row(name=f"{name}: memory", value=most, unit="MiB", limit=LIMIT_MIB)
        yield Row(name="  of that the connections", value=opened - before, unit="MiB")
        yield Row(name="  of that what they are owed", value=most - opened, unit="MiB")
        yield Row(name="  a write took at most", value=took, unit="s", limit=GOAL_S)
        yield Row(name="  a list took", value=_honest(cluster), unit="s", limit=GOAL_S)


def _watch(door: Door) -> ssl.SSLSocket:
    """A watch over TLS with a small window, whose answer is never read."""
    parts = urlsplit(door.url)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(20)
    plain.connect((parts.hostname, parts.port))
    context = ssl.create_default_context(cadata=door.ca_pem)
    tls = context.wrap_socket(plain, server_hostname=parts.hostname)
    tls.sendall(door.request("GET", f"{MAPS}?watch=1"))
    return tls


def _map(number: int) -> bytes:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}}
    return json.dumps({**body, "data": {"text": f"{number:06}" + "x" * BIG}}).encode()
