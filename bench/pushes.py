"""From a push to a local repository to the first write that it causes."""

from __future__ import annotations

import http.client
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from bench.timing import Row
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import PATIENCE_S, gitkruise, started
from tests.e2e.shop import create

PUSHES: Final = 50
SETTINGS: Final = "apps/checkout/configmap.yaml"
WATCH: Final = (
    "/api/v1/namespaces/shop/configmaps?watch=true&fieldSelector=metadata.name%3Dcheckout-settings"
)


def rows() -> Iterator[Row]:
    """Milliseconds from the end, and from the beginning, of `git push` to the watch event of the
    write it causes."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
        from_end, from_begin = _push_often(Path(folder))
    yield Row(name="push to first write, p50", value=median(from_end), unit="ms", limit=200)
    yield Row(name="push to first write, p95", value=quantiles(from_end, n=20)[18], unit="ms")
    yield Row(name="the same with git push itself, p50", value=median(from_begin), unit="ms")


def _push_often(folder: Path) -> tuple[list[float], list[float]]:
    with sandbox(folder / "state") as cluster:
        shop = create(folder, cluster.env)
        words = gitkruise("run", "--sandbox")
        with started(words, cluster.env, shop.clone) as run:
            run.until(r"unit shop/shop state=Done")
            with watching(cluster, WATCH) as seen:
                from_end, from_begin = [], []
                for number in range(PUSHES):
                    was = "5s" if number == 0 else f"{number}ms"
                    shop.edit(
                        SETTINGS, f"PAYMENT_TIMEOUT: {was}", f"PAYMENT_TIMEOUT: {number + 1}ms"
                    )
                    shop.git("commit", "-q", "-a", "-m", f"timeout {number + 1}")
                    begin = time.monotonic()
                    shop.git("push", "-q", "origin", "main")
                    end = time.monotonic()
                    at = arrival(seen, f"{number + 1}ms")
                    from_end.append(1000 * (at - end))
                    from_begin.append(1000 * (at - begin))
    return from_end, from_begin


def arrival(seen: queue.SimpleQueue[tuple[float, dict[str, Any]]], wanted: str) -> float:
    """When the event with the wanted setting came."""
    while True:
        at, event = seen.get(timeout=PATIENCE_S)
        if event["object"]["data"]["PAYMENT_TIMEOUT"] == wanted:
            return at


@contextmanager
def watching(
    cluster: Cluster, path: str
) -> Iterator[queue.SimpleQueue[tuple[float, dict[str, Any]]]]:
    """Events of a watch, each with the moment it arrived."""
    events: queue.SimpleQueue[tuple[float, dict[str, Any]]] = queue.SimpleQueue()
    reply = cluster.open("GET", path)

    def read() -> None:
        try:
            for line in reply:
                events.put((time.monotonic(), json.loads(line)))
        except (OSError, ValueError, http.client.HTTPException):
            return  # the connection was closed on purpose

    threading.Thread(target=read, daemon=True).start()
    yield events
