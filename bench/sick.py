"""Healthy units next to dead ones: sources that do not answer, objects that never become ready."""

from __future__ import annotations

import queue
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench import monorepo
from bench.monorepo import SPACE, Monorepo
from bench.pushes import watching
from bench.timing import Row
from bench.units import path_of, settle, stop, until_done
from tests.e2e.cluster import sandbox
from tests.e2e.program import PATIENCE_S, gitkruise, started

HEALTHY: Final = 117
UNREACHABLE, NEVER_READY = 5, 6
PUSHES: Final = 20
TIMES_IDLE: Final = 2.0
NOWHERE: Final = "https://127.0.0.1:1/gone{}.git"  # nothing listens there
WATCH: Final = f"/api/v1/namespaces/{SPACE}/services?watch=true"


def rows() -> Iterator[Row]:
    """Milliseconds from a commit to the watch event of its write, with healthy units alone and
    with dead ones next to them; each commit changes another unit."""
    well = [f"u{number:03}" for number in range(HEALTHY)]
    never = [f"never{number}" for number in range(NEVER_READY)]
    alone = _syncs(well, [], 0)
    yield Row(name=f"{HEALTHY} healthy units: one syncs, p50", value=alone, unit="ms")
    beside = _syncs(well, never, UNREACHABLE)
    name = f"next to {UNREACHABLE + NEVER_READY} dead units: one syncs, p50"
    yield Row(name=name, value=beside, unit="ms")
    yield Row(name="the same, times idle", value=beside / alone, unit="", limit=TIMES_IDLE)


def _syncs(well: Sequence[str], never: Sequence[str], unreachable: int) -> float:
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        with sandbox(folder / "state") as cluster:
            repo = monorepo.create(folder, [*well, *never])
            for number in range(unreachable):
                monorepo.add_source(repo, f"gone{number}", NOWHERE.format(number))
            files = {path_of(unit): monorepo.four_objects(unit) for unit in well}
            files |= {path_of(unit): _never_ready(unit) for unit in never}
            repo.commit(files, "fleet: first release")
            monorepo.make_space(cluster)
            words = gitkruise("run", "--sandbox", "--config", str(repo.config))
            with started(words, cluster.env, folder) as run:
                until_done(run, len(well))
                settle(cluster)
                with watching(cluster, WATCH) as seen:
                    took = [_push(repo, seen, unit) for unit in well[:PUSHES]]
                stop(run)
    return median(took)


def _never_ready(unit: str) -> str:
    text = monorepo.four_objects(unit).replace("replicas: 0", "replicas: 2")
    return text.replace(f"{unit}:v1", f"{unit}:unready")


def _push(
    repo: Monorepo, seen: queue.SimpleQueue[tuple[float, dict[str, Any]]], unit: str
) -> float:
    text = monorepo.four_objects(unit).replace("port: 80\n", "port: 81\n")
    repo.commit({path_of(unit): text}, f"{unit}: another port")
    begin = time.monotonic()
    while True:
        at, event = seen.get(timeout=PATIENCE_S)
        obj = event["object"]
        if obj["metadata"]["name"] == unit and obj["spec"]["ports"][0]["port"] == 81:
            return 1000 * max(at - begin, 0.0)
