"""A thousand units in one repository: to ready, at rest, after a restart, with one file changed."""

from __future__ import annotations

import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import monorepo
from bench.counting import counted
from bench.idle import IDLE_S, cpu_s, pause, rss_mib, snapshot
from bench.monorepo import Monorepo
from bench.timing import Row
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import Program, eventually, gitkruise, started
from tests.git.repos import run_git

UNITS: Final = 1_000
RESTING: Final = 300
SETTLE_S: Final = 20.0
TO_READY_S: Final = 40.0
PATIENCE_S: Final = 600.0  # on a machine that others use, too
CHANGED: Final = "u0500"
_STATE_LINE: Final = re.compile(r" unit (?P<unit>\S+) state=(?P<state>\w+)")


def rows() -> Iterator[Row]:
    """Seconds are of the clock and depend on what else the machine does; CPU seconds do not. Two
    processes share the work: on two free cores it cannot take less than the larger of them."""
    with _fleet(UNITS) as (repo, cluster, folder):
        yield from _first(repo, cluster, folder)
        yield from _again(repo, cluster, folder)


def rest() -> Iterator[Row]:
    """CPU of an idle minute with fewer units, of four objects each."""
    with _fleet(RESTING) as (repo, cluster, folder):
        words = gitkruise("run", "--sandbox", "--config", str(repo.config))
        with started(words, cluster.env, folder) as run:
            until_done(run, RESTING)
            settle(cluster)
            spent = cpu_s(run.process.pid)
            pause(IDLE_S)
            spent = cpu_s(run.process.pid) - spent
            what = f"{RESTING} units: CPU of an idle minute"
            yield Row(name=what, value=1000 * spent, unit="ms", limit=150)
            stop(run)


@contextmanager
def _fleet(count: int) -> Iterator[tuple[Monorepo, Cluster, Path]]:
    """A cluster, and a repository with so many units."""
    names = [f"u{number:04}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        with sandbox(folder / "state") as cluster:
            repo = monorepo.create(folder, names)
            files = {path_of(unit): monorepo.four_objects(unit) for unit in names}
            repo.commit(files, "fleet: first release")
            monorepo.make_space(cluster)
            yield repo, cluster, folder


def settle(cluster: Cluster) -> None:
    """Until the cluster's own controllers, too, have written nothing for a while."""
    end, before = time.monotonic() + PATIENCE_S, snapshot(cluster)
    while time.monotonic() < end:
        pause(SETTLE_S)
        after = snapshot(cluster)
        if _written(before, after) == 0:
            return
        before = after


def _written(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    return sum(after[k] != before.get(k) for k in after if not k.startswith("Lease/"))


def path_of(unit: str) -> str:
    return f"units/{unit}/app.yaml"


def _first(repo: Monorepo, cluster: Cluster, folder: Path) -> Iterator[Row]:
    words = gitkruise("run", "--sandbox", "--config", str(repo.config))
    server = cluster.status()["pid"]
    before, begin = cpu_s(server), time.monotonic()
    with started(words, cluster.env, folder) as run:
        pid = run.process.pid
        until_done(run, UNITS)
        took = time.monotonic() - begin
        yield _row("to ready", took, "s", TO_READY_S)
        yield _row("to ready, CPU of run", cpu_s(pid), "s CPU", TO_READY_S)
        yield _row("to ready, CPU of the sandbox", cpu_s(server) - before, "s CPU", TO_READY_S)
        settle(cluster)
        yield _row("memory", rss_mib(pid), "MiB", 250)
        objects, spent, tip = snapshot(cluster), cpu_s(pid), monorepo.status_tip(repo)
        pause(IDLE_S)
        spent, written = cpu_s(pid) - spent, _written(objects, snapshot(cluster))
        yield _row("objects written in an idle minute", written, "", 0)
        yield _row("status commits in an idle minute", int(monorepo.status_tip(repo) != tip), "", 0)
        yield _row("CPU of an idle minute", 1000 * spent, "ms")
        stop(run)


def _again(repo: Monorepo, cluster: Cluster, folder: Path) -> Iterator[Row]:
    with counted(cluster) as relay:
        words = gitkruise("run", "--kubeconfig", str(relay.kubeconfig), "--cluster", "sandbox")
        begin = time.monotonic()
        with started([*words, "--config", str(repo.config)], cluster.env, folder) as run:
            pid = run.process.pid
            until_done(run, UNITS)
            yield _row("restart to ready", time.monotonic() - begin, "s")
            yield _row("restart to ready, CPU of run", cpu_s(pid), "s CPU")
            pause(SETTLE_S)
            yield _row("restart, requests", len(relay.requests), "")
            yield _row("restart, writes", len(relay.writes()), "", 0)
            seen, spent, tip = len(relay.requests), cpu_s(pid), monorepo.status_tip(repo)
            text = monorepo.four_objects(CHANGED).replace("port: 80\n", "port: 81\n")
            begin = time.monotonic()
            repo.commit({path_of(CHANGED): text}, "u0500: another port")
            eventually(lambda: relay.writes(seen))
            took = time.monotonic() - begin
            yield _row("one file changed, to the first write", 1000 * took, "ms")
            pause(SETTLE_S)
            spent = cpu_s(pid) - spent
            yield _row("one file changed, writes", len(relay.writes(seen)), "", 1)
            yield _row("one file changed, dry runs", len(relay.writes(seen, dry=True)), "", 1)
            yield _row("one file changed, units reported", changed_units(repo, tip), "", 1)
            yield _row("one file changed, CPU of run", 1000 * spent, "ms")
            stop(run)


def changed_units(repo: Monorepo, tip: str) -> int:
    """Number of units with other files on the status branch than at `tip`."""
    words = ["diff", "--name-only", tip, monorepo.status_tip(repo), "--", "units"]
    changed = run_git(repo.bare, *words).splitlines()
    return len({path.split("/")[2] for path in changed})


def until_done(run: Program, count: int, *, within_s: float = PATIENCE_S) -> None:
    """Until so many units stand at Done."""
    states: dict[str, str] = {}
    done = 0
    while done < count:
        match = _STATE_LINE.search(run.until(_STATE_LINE.pattern, within_s))
        assert match is not None
        done += (match["state"] == "Done") - (states.get(match["unit"]) == "Done")
        states[match["unit"]] = match["state"]


def stop(run: Program) -> None:
    """An orderly end, with the last records written."""
    run.signal(signal.SIGTERM)
    assert run.ends(PATIENCE_S) == 0


def _row(name: str, value: float, unit: str, limit: float | None = None) -> Row:
    return Row(name=f"{UNITS:,} units: {name}", value=value, unit=unit, limit=limit)
