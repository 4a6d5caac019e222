"""What a controller with nothing to do costs: memory, CPU time, writes."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import gitkruise, started
from tests.e2e.shop import create

IDLE_S: Final = 60.0
SETTLE_S: Final = 20.0
LISTS: Final = (
    "/api/v1/pods", "/api/v1/nodes", "/api/v1/configmaps", "/api/v1/events", "/api/v1/namespaces",
    "/apis/apps.kruise.io/v1alpha1/clonesets", "/apis/apps/v1/deployments",
    "/apis/apps/v1/controllerrevisions", "/apis/coordination.k8s.io/v1/leases",
)  # fmt: skip


def idle_controller(folder: Path) -> Iterator[str]:
    """Resident memory, CPU time and writes of a minute in which nothing happens (goals: 120 MiB,
    0 writes; leases are renewed and counted apart)."""
    for flags, who in (((), "the sandbox's own"), (("--no-controllers",), "gitkruise run's")):
        state = folder / f"state{len(flags)}"
        with sandbox(state, *flags) as cluster:
            state.joinpath("repo").mkdir()
            shop = create(state / "repo", cluster.env, without="apps/storefront")
            with started(gitkruise("run", "--sandbox"), cluster.env, shop.clone) as run:
                run.until(r"unit shop/shop state=Done")
                pause(SETTLE_S)
                before, used = snapshot(cluster), cpu_s(run.process.pid)
                tip = shop.git("ls-remote", str(shop.bare), "gitkruise/status/*")
                pause(IDLE_S)
                after = snapshot(cluster)
                changed = sorted(k for k in after if after[k] != before.get(k))
                leases = [name for name in changed if name.startswith("Lease/")]
                told = shop.git("ls-remote", str(shop.bare), "gitkruise/status/*") != tip
                cpu_ms = 1000 * (cpu_s(run.process.pid) - used)
                yield (
                    f"workloads driven by {who}: RSS {rss_mib(run.process.pid):.0f} MiB, "
                    f"CPU {cpu_ms:.0f} ms a minute, objects written {len(changed) - len(leases)} "
                    f"and {len(leases)} leases, status commits {int(told)}"
                )


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
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
