"""From a change by hand to the write that puts it back."""

from __future__ import annotations

import json
import queue
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from bench.pushes import watching
from bench.timing import Row
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import PATIENCE_S, gitkruise, started
from tests.e2e.shop import Shop, create

CHANGES: Final = 50
MAPS: Final = "/api/v1/namespaces/shop/configmaps"
APPLY: Final = "fieldManager=kubectl-edit&force=true"


def rows() -> Iterator[Row]:
    """Milliseconds from the end of a client's PATCH to the watch event of ours, each on an object
    of its own (the second change of one field in a row waits on purpose)."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
        took = _change_often(Path(folder))
    yield Row(name="drift healed, p50", value=median(took), unit="ms")
    yield Row(name="drift healed, p95", value=quantiles(took, n=20)[18], unit="ms", limit=1000)


def _change_often(folder: Path) -> list[float]:
    with sandbox(folder / "state") as cluster:
        shop = create(folder, cluster.env)
        _add_maps(shop)
        with started(gitkruise("run", "--sandbox"), cluster.env, shop.clone) as run:
            run.until(r"unit shop/shop state=Done")
            with watching(cluster, f"{MAPS}?watch=true") as seen:
                return [_one(cluster, seen, number) for number in range(CHANGES)]


def _add_maps(shop: Shop) -> None:
    made = "---\n".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {_name(n)}, namespace: shop}}\n"
        "data: {mode: fast}\n"
        for n in range(CHANGES)
    )
    (shop.clone / "apps/checkout/drift.yaml").write_text(made)
    shop.push("shop: settings to meddle with")


def _name(number: int) -> str:
    return f"meddled-{number:02}"


def _one(
    cluster: Cluster, seen: queue.SimpleQueue[tuple[float, dict[str, Any]]], number: int
) -> float:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _name(number)},
        "data": {"mode": "slow"},
    }
    cluster.send("PATCH", f"{MAPS}/{_name(number)}?{APPLY}", json.dumps(body).encode())
    end = time.monotonic()
    moved = False
    while True:
        at, event = seen.get(timeout=PATIENCE_S)
        obj = event["object"]
        if obj["metadata"]["name"] != _name(number):
            continue
        moved = moved or obj["data"]["mode"] == "slow"
        if moved and obj["data"]["mode"] == "fast":
            return max(1000 * (at - end), 0.0)
