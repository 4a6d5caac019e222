"""Work of a replica with and without shards: one commit that changes every unit."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import monorepo
from bench.idle import IDLE_S, pause
from bench.monorepo import Monorepo
from bench.timing import Row
from bench.units import PATIENCE_S, SETTLE_S, path_of, settle, stop
from gitkruise.wire.primitives.requests import NAMESPACES, ApiRequest
from tests.e2e.cluster import sandbox
from tests.e2e.program import environment, gitkruise, started
from tests.git.repos import run_git
from tests.kube.real.apiserver import Apiserver, find, free_port, talking
from tests.kube.real.replicas import Written, audited, replica_config, written
from tests.kube.real.shop import install_crds

UNITS: Final = 3_000
COUNT: Final = 3
LIMIT: Final = 45.0  # per cent of what one replica needs for everything
LOOK_S: Final = 1.0
SPREAD_S: Final = 40.0
_MANAGER: Final = "kube-controller-manager"
_ANYBODYS: Final = frozenset({"leases", "events"})


def rows(units: int = UNITS) -> Iterator[Row]:
    """CPU seconds of a replica and its workers, for a commit that changes all units and for an
    idle minute. With shards it is the busiest of the replicas that counts."""
    return _rows(units, embedded, "")


def audited_rows(units: int = UNITS) -> Iterator[Row]:
    """The same on a kube-apiserver, whose audit log says who wrote what."""
    if all(find(name) for name in ("etcd", "kube-apiserver", _MANAGER)):
        yield from _rows(units, real, "kube-apiserver, ")


def _rows(
    units: int, made: Callable[[Path], AbstractContextManager[Ground]], on: str
) -> Iterator[Row]:
    spent = {}
    for count in (1, COUNT):
        with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
            folder = Path(name)
            with made(folder) as ground:
                spent[count] = _spent(folder, ground, units, count)
        prefix = f"{on}{units:,} units, {count} shards"
        busiest = "CPU of the busiest replica"
        yield Row(
            name=f"{prefix}: all units change, {busiest}",
            value=max(spent[count].busy),
            unit="s CPU",
        )
        yield Row(
            name=f"{prefix}: an idle minute, {busiest}", value=max(spent[count].idle), unit="s CPU"
        )
        yield from _authors(prefix, spent[count].writes)
    share = 100 * max(spent[COUNT].busy) / max(spent[1].busy)
    yield Row(name=f"{on}{units:,} units: a replica's share", value=share, unit="%", limit=LIMIT)


def _authors(prefix: str, writes: Sequence[Written]) -> Iterator[Row]:
    """Count the objects that were written, and those of more than one replica."""
    authors = defaultdict[tuple[str, str], set[str]](set)
    for one in writes:
        if one.resource not in _ANYBODYS:
            authors[one.resource, one.name].add(one.account)
    if authors:
        shared = sum(len(accounts) > 1 for accounts in authors.values())
        most = max(Counter(name for accounts in authors.values() for name in accounts).values())
        yield Row(name=f"{prefix}: objects written", value=len(authors), unit="")
        yield Row(name=f"{prefix}: objects written by the busiest replica", value=most, unit="")
        yield Row(name=f"{prefix}: objects written by two replicas", value=shared, unit="", limit=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A cluster of a benchmark: `kubeconfig` of a replica, and `written` by all replicas so far."""

    env: Mapping[str, str]
    kubeconfig: Callable[[int], Path]
    settle: Callable[[], None]
    written: Callable[[], Sequence[Written]]


@contextmanager
def embedded(folder: Path) -> Iterator[Ground]:
    with sandbox(folder / "state") as cluster:
        monorepo.make_space(cluster)
        yield Ground(
            env=cluster.env,
            kubeconfig=lambda _: cluster.kubeconfig,
            settle=lambda: settle(cluster),
            written=list,
        )


@contextmanager
def real(folder: Path) -> Iterator[Ground]:
    home = folder / "server"
    home.mkdir()
    with audited(home) as server, _deployments(server):
        asyncio.run(_make_space(server))

        def rest() -> None:
            before = -1
            while before != (before := len([w for w in written(server) if w.resource != "leases"])):
                pause(SETTLE_S)

        yield Ground(
            env=environment(folder),
            kubeconfig=lambda number: replica_config(server, number),
            settle=rest,
            written=lambda: written(server),
        )


@contextmanager
def _deployments(server: Apiserver) -> Iterator[None]:
    """The controller without which no Deployment is ready, with no limit of its own."""
    words = (
        find(_MANAGER), f"--kubeconfig={server.kubeconfig()}", "--leader-elect=false",
        "--controllers=deployment-controller", "--kube-api-qps=1000", "--kube-api-burst=2000",
        "--bind-address=127.0.0.1", f"--secure-port={free_port()}",
    )  # fmt: skip
    with (server.folder / f"{_MANAGER}.log").open("wb") as log:
        manager = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        yield
    finally:
        manager.kill()
        manager.wait()


async def _make_space(server: Apiserver) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": monorepo.SPACE}}
    async with talking(server) as transport:
        await install_crds(transport)
        await transport.send(ApiRequest(verb="create", resource=NAMESPACES, body=space))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """CPU seconds of each replica, `busy` while all units change and `idle` in a minute, and the
    writes of the change."""

    busy: Sequence[float]
    idle: Sequence[float]
    writes: Sequence[Written]


def _spent(folder: Path, ground: Ground, units: int, count: int) -> Spent:
    names = [f"u{number:04}" for number in range(units)]
    with ExitStack() as stack:
        repo = monorepo.create(folder, names)
        _commit(repo, names, 80)
        replicas = []
        for number in range(count):
            words = gitkruise("run", "--kubeconfig", str(ground.kubeconfig(number)))
            words += ["--cluster", "bench", "--config", str(repo.config), "--shards", str(count)]
            env = _environment(ground, folder / f"replica-{number}")
            replicas.append(stack.enter_context(started(words, env, folder)))
        _until_done(repo, units)
        pause(SPREAD_S)
        ground.settle()
        begun = len(ground.written())
        before = [_cpu_s(one.process.pid) for one in replicas]
        _commit(repo, names, 81)
        _until_done(repo, units)
        pause(SPREAD_S / 4)
        middle = [_cpu_s(one.process.pid) for one in replicas]
        writes = ground.written()[begun:]
        pause(IDLE_S)
        after = [_cpu_s(one.process.pid) for one in replicas]
        for one in replicas:
            stop(one)
    return Spent(busy=_differences(before, middle), idle=_differences(middle, after), writes=writes)


def _differences(before: Sequence[float], after: Sequence[float]) -> Sequence[float]:
    return [new - old for old, new in zip(before, after, strict=True)]


def _environment(ground: Ground, home: Path) -> Mapping[str, str]:
    home.mkdir()
    return {**ground.env, "GITKRUISE_STATE": str(home)}


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
