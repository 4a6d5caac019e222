"""A server that is only polled: from a push to the first write, and the cost of its polls."""

from __future__ import annotations

import base64
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from bench.idle import IDLE_S, SETTLE_S, cpu_s, pause
from bench.pushes import SETTINGS, WATCH, arrival, watching
from bench.timing import Row
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import gitkruise, started
from tests.e2e.shop import Shop, create
from tests.git.repos import serve
from tests.git.tls import context, issue

PUSHES: Final = 15
_SPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
_APPLIED: Final = "fieldManager=bench&force=true"


def rows() -> Iterator[Row]:
    """Milliseconds from the end of `git push` to the watch event of the write it causes; the
    repository is behind git http-backend and TLS, asked every 5 s, and no webhook calls. Then the
    CPU time of a minute of twelve polls that bring nothing."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
        waited, idle_s = _push_often(Path(folder))
    yield Row(name="polled push to first write, p50", value=median(waited), unit="ms", limit=3000)
    yield Row(name="polled push to first write, longest", value=max(waited), unit="ms", limit=6500)
    yield Row(name="CPU of a minute of polls", value=1000 * idle_s, unit="ms", limit=300)


def _push_often(folder: Path) -> tuple[list[float], float]:
    authority = issue("authority")
    with sandbox(folder / "state") as cluster:
        shop = create(folder, cluster.env)
        shop.git("-C", str(shop.bare), "config", "uploadpack.allowFilter", "true")
        tls = context(folder, issue("server", authority))
        with serve(folder, tls=tls) as base:
            _point(shop, cluster, base, authority.certificate)
            with started(gitkruise("run", "--sandbox"), cluster.env, shop.clone) as run:
                run.until(r"unit shop/shop state=Done")
                waited = list(_pushes(shop, cluster))
                pause(SETTLE_S)
                used = cpu_s(run.process.pid)
                pause(IDLE_S)
                return waited, cpu_s(run.process.pid) - used


def _point(shop: Shop, cluster: Cluster, base: str, authority: str) -> None:
    """Let the shop's source follow the server, with a Secret that trusts its authority."""
    url = f"url: {base}/{shop.bare.name}\n  secretRef: {{name: read}}"
    shop.edit("gitkruise.yaml", f"url: {shop.bare}", url)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "read"},
        "data": {"ca.crt": base64.b64encode(authority.encode()).decode()},
    }
    cluster.send("PATCH", f"/api/v1/namespaces/shop?{_APPLIED}", json.dumps(_SPACE).encode())
    path = f"/api/v1/namespaces/shop/secrets/read?{_APPLIED}"
    cluster.send("PATCH", path, json.dumps(secret).encode())
    shop.push("follow the server")


def _pushes(shop: Shop, cluster: Cluster) -> Iterator[float]:
    with watching(cluster, WATCH) as seen:
        for number in range(PUSHES):
            was = "5s" if number == 0 else f"{number}ms"
            shop.edit(SETTINGS, f"PAYMENT_TIMEOUT: {was}", f"PAYMENT_TIMEOUT: {number + 1}ms")
            shop.push(f"timeout {number + 1}")
            end = time.monotonic()
            yield 1000 * (arrival(seen, f"{number + 1}ms") - end)
            time.sleep(number * 5 / PUSHES)  # so that pushes fall everywhere between two looks
