"""Cost of a controller with nothing to do: memory, CPU time, writes."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.timing import Row
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import gitkruise, started
from tests.e2e.shop import create

IDLE_S: Final = 60.0
SETTLE_S: Final = 20.0
LISTS: Final = (
    "/api/v1/pods", "/api/v1/nodes", "/api/v1/configmaps", "/api/v1/events", "/api/v1/namespaces",
    "/apis/apps.kruise.io/v1alpha1/clonesets", "/apis/apps/v1/deployments",
    "/apis/apps/v1/controllerrevisions", "/apis/coordination.k8s.io/v1/leases",
    "/api/v1/services", "/api/v1/serviceaccounts", "/apis/networking.k8s.io/v1/ingresses",
    "/apis/apps/v1/replicasets",
)  # fmt: skip


def rows() -> Iterator[Row]:
    """Memory, CPU time and writes of a minute in which nothing happens, twice: the sandbox drives
    the pods, and `gitkruise run` does. Leases are renewed, and counted apart."""
    for flags, who in (((), "sandbox drives"), (("--no-controllers",), "run drives")):
        with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
            for row in _idle(Path(folder), flags):
                yield replace(row, name=f"idle run, {who}: {row.name}")


def _idle(folder: Path, flags: tuple[str, ...]) -> Iterator[Row]:
    with sandbox(folder / "state", *flags) as cluster:
        shop = create(folder, cluster.env, without="apps/storefront")
        with started(gitkruise("run", "--sandbox"), cluster.env, shop.clone) as run:
            run.until(r"unit shop/shop state=Done")
            pause(SETTLE_S)
            before, used = snapshot(cluster), cpu_s(run.process.pid)
            tip = shop.git("ls-remote", str(shop.bare), "gitkruise/status/*")
            pause(IDLE_S)
            after, spent = snapshot(cluster), cpu_s(run.process.pid) - used
            written = shop.git("ls-remote", str(shop.bare), "gitkruise/status/*") != tip
            changed = [key for key in after if after[key] != before.get(key)]
            leases = sum(key.startswith("Lease/") for key in changed)
            yield Row(name="RSS", value=rss_mib(run.process.pid), unit="MiB", limit=120)
            yield Row(name="CPU of a minute", value=1000 * spent, unit="ms")
            yield Row(name="objects written", value=len(changed) - leases, unit="", limit=0)
            yield Row(name="leases renewed", value=leases, unit="")
            yield Row(name="status commits", value=int(written), unit="", limit=0)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def snapshot(cluster: Cluster) -> dict[str, str]:
    """resourceVersion by kind and name, of everything a controller might write."""
    found: dict[str, str] = {}
    for path in LISTS:
        answer: dict[str, Any] = cluster.get(path)
        kind = answer["kind"].removesuffix("List")
        for item in answer["items"]:
            meta = item["metadata"]
            found[f"{kind}/{meta.get('namespace', '')}/{meta['name']}"] = meta["resourceVersion"]
    return found


def rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


def cpu_s(pid: int) -> float:
    """User and system time so far of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
