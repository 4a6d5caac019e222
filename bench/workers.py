"""Seconds of reading in worker processes, of all CPUs and of the clock, as a ratio to our own.

Workers are asked as `run` asks them: units of one commit all together. Our own process reads them
one after another, which is what costs it least.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

from bench.timing import Row
from gitkruise.cli.root import YOUNG_OBJECTS
from gitkruise.git.parsing.parse_cache import ParseCache
from gitkruise.git.parsing.parse_cache_db import ParsedStore
from gitkruise.git.repository.path_history import PathHistory
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder, BuildRequest, BuildResult
from gitkruise.gitops.build.post_build import NOTHING
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.workers.pool import InProcess, WorkerPool
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.repos import Origin, make_origin

UNITS: Final = 300
OBJECTS: Final = 4  # of each unit
LARGE: Final = 2_000
LARGE_UNITS: Final = ("large2", "large3", "large")  # the last one is changed
CHANGES: Final = 10  # commits; one alone costs a few ticks of the kernel's clock
ROUNDS: Final = 9  # of each, the best counts
GOAL: Final = 1.05
_OF_PROCESS: Final = 2  # CPUCLOCK_SCHED
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_UNITS, _FIRST, _CHANGED = "units", "first", "changed"
_NAMES: Final = {
    _UNITS: f"{UNITS} units x {OBJECTS} objects, first read",
    _FIRST: f"{LARGE:,} ConfigMaps, first read",
    _CHANGED: f"{LARGE:,} ConfigMaps, {CHANGES} times one changed",
}


class Spent(NamedTuple):
    """Seconds of CPU of all processes, and of the clock."""

    cpu: float
    wall: float


class Commits:
    """A repository with a large unit, small ones, and one to warm up with."""

    def __init__(self, origin: Origin) -> None:
        small = {
            f"u{n}/{k}.yaml": _config_map(f"c{n}-{k}", k)
            for n in range(UNITS)
            for k in range(OBJECTS)
        }
        large = {
            f"{unit}/{n}.yaml": _config_map(f"{unit}-{n}", n)
            for unit in LARGE_UNITS
            for n in range(LARGE)
        }
        self.first = origin.commit({**small, **large, "warm/a.yaml": _config_map("a", 0)})
        self.changes = [
            origin.commit({f"large/{n}.yaml": _config_map(f"large-{n}", -1)})
            for n in range(CHANGES)
        ]
        self.bare = str(origin.bare)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        commits = Commits(make_origin(Path(name)))
        spent: dict[tuple[bool, str], list[Spent]] = {}
        for number in range(ROUNDS):
            for pooled in (True, False) if number % 2 else (False, True):
                for what, seconds in _alone(commits, pooled=pooled):
                    spent.setdefault((pooled, what), []).append(seconds)
    best = {key: Spent(*map(min, zip(*several, strict=True))) for key, several in spent.items()}
    for what, name in _NAMES.items():
        own, worker = best[False, what], best[True, what]
        yield Row(name=name, value=own.cpu, unit="s CPU")
        yield Row(name="the same in a worker process", value=worker.cpu, unit="s CPU")
        yield Row(name="ratio", value=worker.cpu / own.cpu, unit="", limit=GOAL)
        yield Row(name="ratio by the clock", value=worker.wall / own.wall, unit="")


def _alone(commits: Commits, *, pooled: bool) -> Sequence[tuple[str, Spent]]:
    """Cost of each read in a program that has just started, as a worker has: one that did the same
    before has its memory ready."""
    fresh = multiprocessing.get_context("spawn")
    start = functools.partial(gc.set_threshold, YOUNG_OBJECTS)
    with ProcessPoolExecutor(1, mp_context=fresh, initializer=start) as program:
        return program.submit(_measured, commits, pooled=pooled).result()


def _measured(commits: Commits, *, pooled: bool) -> Sequence[tuple[str, Spent]]:
    """Cost of each read. Both keep what they parse, as `run` does."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name, ExitStack() as stack:
        repository = stack.enter_context(closing(Repository.open(commits.bare)))
        folder = Path(name)
        workers: Workers
        if pooled:
            workers, cache = WorkerPool(folder, 1), ParseCache()
            stack.callback(workers.close)
        else:
            store = stack.enter_context(closing(ParsedStore(folder / "parsed.sqlite")))
            workers, cache = InProcess(), ParseCache(store=store)
        return asyncio.run(_reads(workers, commits, repository, cache, together=pooled))


async def _reads(
    workers: Workers, commits: Commits, repository: Repository, cache: ParseCache, *, together: bool
) -> Sequence[tuple[str, Spent]]:
    catalog, history = load_catalog(), PathHistory(repository)

    def reader(path: str) -> Builder:
        unit = Unit("shop", path, UnitSpec(source_ref=Reference(name="src"), path=path))
        return Builder(repository=repository, unit=unit, gates=Gates(), cache=cache, shared=history)

    async def read(one: Builder, request: BuildRequest) -> BuildResult:
        return await workers.read(one, request, catalog, NOTHING)

    first = BuildRequest(commit=commits.first)
    await read(reader("warm"), first)
    marks: list[tuple[str, Spent]] = [("", _now())]
    for large in map(reader, LARGE_UNITS):
        answer = await read(large, first)
        marks.append((_FIRST, _now()))
    for live, commit in itertools.pairwise((commits.first, *commits.changes)):
        answer = await read(large, BuildRequest(commit=commit, old=live, tree=answer.tree))
    marks.append((_CHANGED, _now()))
    await _all_of([read(reader(f"u{n}"), first) for n in range(UNITS)], together=together)
    marks.append((_UNITS, _now()))
    return [
        (what, Spent(end.cpu - start.cpu, end.wall - start.wall))
        for (_, start), (what, end) in itertools.pairwise(marks)
    ]


def _now() -> Spent:
    gc.collect()
    return Spent(used_s(), time.perf_counter())


async def _all_of(reads: Sequence[Coroutine[None, None, BuildResult]], *, together: bool) -> None:
    if not together:
        for one in reads:
            await one
        return
    async with asyncio.TaskGroup() as tasks:
        for one in reads:
            tasks.create_task(one)


def used_s() -> float:
    """CPU seconds of this process and all it started."""
    return sum(map(_used_s, _family([os.getpid()])))


def _family(pids: Sequence[int]) -> Iterator[int]:
    for pid in pids:
        yield pid
        tasks = Path(f"/proc/{pid}/task").iterdir()
        yield from _family([int(n) for t in tasks for n in (t / "children").read_text().split()])


def _used_s(pid: int) -> float:
    """Of a process, by its own clock, and of those it started that ended (cutime, cstime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    clock = ~pid << 3 | _OF_PROCESS  # clock_getcpuclockid
    return time.clock_gettime(clock) + sum(map(int, fields[13:15])) * _TICK_S


def _config_map(name: str, number: int) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"
        f"data:\n  number: '{number}'\n  level: info\n"
    )
