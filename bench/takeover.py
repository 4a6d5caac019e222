"""Two replicas whose leader fails again and again while one rollout follows the other."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from bench.timing import Row
from tests.kube.real.apiserver import find
from tests.kube.real.failover import play

FAILURES: Final = 21  # each of the three kinds seven times
PAUSE_S: Final = 16.0  # with a takeover about 30 seconds from one failure to the next
LIMIT_S: Final = 15


def rows() -> Iterator[Row]:
    """Seconds from the failure until another process holds the lease, on a kube-apiserver."""
    if not (find("kube-apiserver") and find("etcd")):
        return
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
        played = asyncio.run(play(Path(folder), FAILURES, PAUSE_S))
    took = [seconds for *_, seconds in played.taken]
    yield Row(name="takeover, median", value=median(took), unit="s")
    yield Row(name="takeover, the longest", value=max(took), unit="s", limit=LIMIT_S)
    yield Row(name="rollouts meanwhile", value=played.rollouts, unit="")
    yield Row(name="writes without the lease", value=len(played.trespasses), unit="", limit=0)
    yield Row(name="moments with too many pods down", value=len(played.broken), unit="", limit=0)
