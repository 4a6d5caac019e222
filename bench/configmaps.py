"""Ten thousand ConfigMaps in one unit, from the start to ready."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import monorepo
from bench.idle import cpu_s, rss_mib
from bench.timing import Row
from bench.units import stop, until_done
from tests.e2e.cluster import sandbox
from tests.e2e.program import gitkruise, started

COUNT: Final = 10_000
A_FILE: Final = 100
TO_READY_S: Final = 60.0
UNIT: Final = "settings"


def rows() -> Iterator[Row]:
    """Seconds of the clock, and of CPU, which another program on the machine does not change."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        with sandbox(folder / "state") as cluster:
            repo = monorepo.create(folder, [UNIT])
            starts = range(0, COUNT, A_FILE)
            repo.commit({f"units/{UNIT}/{s:05}.yaml": _maps(s) for s in starts}, "settings")
            monorepo.make_space(cluster)
            words = gitkruise("run", "--sandbox", "--config", str(repo.config))
            server = cluster.status()["pid"]
            before, begin = cpu_s(server), time.monotonic()
            with started(words, cluster.env, folder) as run:
                until_done(run, 1)
                took, pid = time.monotonic() - begin, run.process.pid
                yield _row("to ready", took, "s", TO_READY_S)
                yield _row("to ready, CPU of run", cpu_s(pid), "s CPU", TO_READY_S)
                spent = cpu_s(server) - before
                yield _row("to ready, CPU of the sandbox", spent, "s CPU", TO_READY_S)
                yield _row("memory", rss_mib(pid), "MiB")
                stop(run)


def _maps(start: int) -> str:
    return "---\n".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-{number:05}\n"
        f'data:\n  mode: fast\n  number: "{number}"\n'
        for number in range(start, start + A_FILE)
    )


def _row(name: str, value: float, unit: str, limit: float | None = None) -> Row:
    return Row(name=f"{COUNT:,} ConfigMaps: {name}", value=value, unit=unit, limit=limit)
