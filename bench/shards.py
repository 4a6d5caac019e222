"""Work of a replica with and without shards: one commit that changes every unit."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import monorepo
from bench.idle import IDLE_S, pause
from bench.monorepo import Monorepo
from bench.timing import Row
from bench.units import PATIENCE_S, path_of, settle, stop
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import gitkruise, started
from tests.git.repos import run_git

UNITS: Final = 3_000
COUNT: Final = 3
LIMIT: Final = 45.0  # per cent of what one replica needs for everything
LOOK_S: Final = 1.0
SPREAD_S: Final = 40.0


def rows(units: int = UNITS) -> Iterator[Row]:
    """CPU seconds of a replica and its workers, for a commit that changes all units and for an
    idle minute. With shards it is the busiest of the replicas that counts."""
    busy, idle = {}, {}
    for count in (1, COUNT):
        with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
            busy[count], idle[count] = _spent(Path(name), units, count)
        for what, spent in (("all units change", busy), ("an idle minute", idle)):
            told = f"{units:,} units, {count} shards: {what}, CPU of the busiest replica"
            yield Row(name=told, value=max(spent[count]), unit="s CPU")
    share = 100 * max(busy[COUNT]) / max(busy[1])
    yield Row(name=f"{units:,} units: a replica's share", value=share, unit="%", limit=LIMIT)


def _spent(folder: Path, units: int, count: int) -> tuple[Sequence[float], Sequence[float]]:
    """CPU seconds of each replica: while all units change, and of a minute in which none does."""
    names = [f"u{number:04}" for number in range(units)]
    with sandbox(folder / "state") as cluster, ExitStack() as stack:
        repo = monorepo.create(folder, names)
        _commit(repo, names, 80)
        monorepo.make_space(cluster)
        replicas = []
        for number in range(count):
            words = gitkruise("run", "--kubeconfig", str(cluster.kubeconfig), "--cluster", "bench")
            words += ["--config", str(repo.config), "--shards", str(count)]
            environment = _environment(cluster, folder / f"replica-{number}")
            replicas.append(stack.enter_context(started(words, environment, folder)))
        _until_done(repo, units)
        pause(SPREAD_S)
        settle(cluster)
        before = [_cpu_s(one.process.pid) for one in replicas]
        _commit(repo, names, 81)
        _until_done(repo, units)
        pause(SPREAD_S / 4)
        middle = [_cpu_s(one.process.pid) for one in replicas]
        pause(IDLE_S)
        after = [_cpu_s(one.process.pid) for one in replicas]
        for one in replicas:
            stop(one)
    return _differences(before, middle), _differences(middle, after)


def _differences(before: Sequence[float], after: Sequence[float]) -> Sequence[float]:
    return [new - old for old, new in zip(before, after, strict=True)]


def _environment(cluster: Cluster, home: Path) -> Mapping[str, str]:
    home.mkdir()
    return {**cluster.env, "GITKRUISE_STATE": str(home)}


def _commit(repo: Monorepo, names: Sequence[str], port: int) -> None:
    texts = {path_of(n): re.sub(r"port: 8\d\n", f"port: {port}\n", _text(n)) for n in names}
    repo.commit(texts, f"port {port}")


def _text(name: str) -> str:
    return monorepo.four_objects(name)


def _until_done(repo: Monorepo, units: int) -> None:
    """Wait until the status branch says that all units took the newest commit."""
    head = run_git(repo.bare, "rev-parse", "--short=7", "main")
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        pause(LOOK_S)
        refs = run_git(repo.bare, "for-each-ref", "--format=%(refname)", "refs/heads/gitkruise")
        index = run_git(repo.bare, "show", f"{refs}:index.tsv") if refs else ""
        if len(re.findall(rf"(?m)\tDone\t{head}\t", index)) == units:
            return
    raise TimeoutError(f"not all units took {head}")


def _cpu_s(pid: int) -> float:
    """User and system time of a process and of all that it started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        parents[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))

    def total(one: int) -> int:
        return parents[one][1] + sum(total(n) for n, (of, _) in parents.items() if of == one)

    return total(pid) / os.sysconf("SC_CLK_TCK")
