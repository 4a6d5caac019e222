"""Two instances of one configuration: paused, cut off and woken, none brings an old commit back.

A paused process is simulated to the letter: none of its tasks takes a step while it is frozen, and
all of them go on where they were, with whatever became true meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import random  # noqa: TID251  a fixed seed
from collections.abc import AsyncIterator, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.kube.cache.leader_election import Lease
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.kubelet.profiles import FAST
from tests.clock import ManualClock
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import Inline, MakeStage, Stage, Wire, documents, web
from tests.worlds import SPACE, parts_of

pytestmark = pytest.mark.slow

CYCLES: Final = 100
REPLICAS: Final = 4  # at most; every change asks for another number
BEHIND_S: Final = 1.0
WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
MAP: Final = ObjectKey("", "ConfigMap", SPACE, "settings")


@dataclass(eq=False)
class Machine:
    """One process: everything that runs in its context stops while it is frozen."""

    name: str
    running: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.running.set()


_MACHINE: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("machine", default=None)


class Stepped:
    """A coroutine whose steps wait while its machine is frozen."""

    def __init__(self, work: Coroutine[Any, Any, Any], machine: Machine) -> None:
        self._work, self._machine = work, machine

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            while not self._machine.running.is_set():
                try:
                    yield from self._machine.running.wait().__await__()
                except asyncio.CancelledError as cancelled:  # seen by the process once it wakes
                    error = cancelled
            try:
                waits_for = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as done:
                return done.value
            error = None
            try:
                yield waits_for
            except BaseException as raised:
                error = raised


async def _stepped(work: Coroutine[Any, Any, Any], machine: Machine) -> Any:
    return await Stepped(work, machine)


def freezable(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    """A task factory: tasks of a machine are steps of it."""
    context = more.get("context")
    machine = (context[_MACHINE] if context and _MACHINE in context else None) or _MACHINE.get()
    if machine is not None:
        work = _stepped(work, machine)
    return asyncio.Task(work, loop=loop, **more)


class SlowWire(Wire):
    """A request takes a while until it leaves: a process may be stopped before, and woken after."""

    async def send(self, request: ApiRequest) -> ApiReply:
        await asyncio.sleep(0.1)
        return await super().send(request)


class Watcher:
    """Looks at every version of an object: how old its commit is, and how many pods there are."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.order = stage, dict[str, int]()
        self.newest: dict[ObjectKey, int] = {}
        self.back: list[str] = []
        self.most_pods = 0
        self.extra: list[str] = []  # pods that came though there were enough
        self._pods: set[str] = set()
        self._asked, self._since = 0, 0.0  # replicas of the live CloneSet, and since when

    def look(self) -> None:
        for key in (WEB, MAP):
            obj: Obj | None = self.stage.world.get(key)
            commit = (
                (obj or {}).get("metadata", {}).get("annotations", {}).get("gitkruise.io/commit")
            )
            if commit is None:
                continue
            now, before = self.order[commit], self.newest.get(key, 0)
            if now < before:
                self.back.append(f"{key} from {before} to {now}")
            self.newest[key] = now
        self._count()

    def _count(self) -> None:
        """A controller that leads may be a request behind the CloneSet, and no more."""
        pods = self.stage.world.objects(GroupKind("", "Pod"), SPACE)
        alive = {p["metadata"]["uid"] for p in pods if not p["metadata"].get("deletionTimestamp")}
        self.most_pods = max(self.most_pods, len(alive))
        now, owner = self.stage.clock.monotonic(), self.stage.world.get(WEB)
        asked = owner["spec"]["replicas"] if owner else 0
        if asked != self._asked:
            self._asked, self._since = asked, now
        elif alive - self._pods and len(alive) > asked and now - self._since > BEHIND_S:
            self.extra.append(f"{len(alive)} pods of {asked}")
        self._pods = alive

    async def run(self, clock: ManualClock) -> None:
        while True:
            self.look()
            await clock.sleep(0.05)


class Pair:
    """Two processes with equal host names, each with a state directory and a line of its own."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.watcher = stage, Watcher(stage)
        self.machines = [Machine("a"), Machine("b")]
        self.wires = [SlowWire(stage.cluster) for _ in self.machines]
        self.folder, self.count = folder, 0
        self.at, self.seen = 0, [-1, -1]

    async def live(self, number: int) -> None:
        folder = self.folder / self.machines[number].name
        folder.mkdir()
        program = options(self.stage, folder, SOURCE + unit("web"))  # identity "one", both
        _MACHINE.set(self.machines[number])
        async with controller(program, self.wires[number], self.stage.clock):
            await asyncio.get_running_loop().create_future()

    def push(self) -> None:
        self.count += 1
        settings = {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"count": str(self.count)},
        }  # fmt: skip
        clones = web(f"app:v{self.count}")
        clones["spec"]["replicas"] = REPLICAS - self.count % 3
        files = {"web/a.yaml": documents(clones, settings)}
        commit = self.stage.origin.commit(files, f"change {self.count}")
        self.watcher.order[commit] = self.count

    def leader(self) -> Machine:
        """The process that wrote last."""
        counts = [max((n for n, r in enumerate(w.requests) if r.name == "settings"), default=-1)
                  for w in self.wires]  # fmt: skip
        return self.machines[self.last(counts)]

    def last(self, counts: list[int]) -> int:
        news = [count > seen for count, seen in zip(counts, self.seen, strict=True)]
        self.at, self.seen = (news.index(True) if any(news) else self.at), counts
        return self.at

    def applied(self) -> int:
        return self.watcher.newest.get(MAP, 0)


class Unfenced(Lease):
    """A lease that everybody holds at any time."""

    @property
    def valid(self) -> bool:
        return True

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def held(self, notes: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[None]:
        yield


@pytest.mark.parametrize(("cycles", "seed"), [(CYCLES, 1), (15, 6)])
def test_two_instances(staged: MakeStage, tmp_path: Path, cycles: int, seed: int) -> None:
    """Seed 6 stops a leader between its look at the lease and the creation of a pod."""
    pair = played(staged(), tmp_path, cycles, seed=seed)
    assert pair.watcher.back == []
    assert pair.watcher.extra == []
    assert pair.watcher.most_pods <= REPLICAS
    assert run_git(pair.stage.origin.bare, "rev-list", "--count", "main") == str(pair.count)


def test_without_leases_both_laws_are_seen_to_be_broken(
    staged: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitkruise.app.Lease", Unfenced)
    pair = played(staged(), tmp_path, 60, seed=1)
    assert pair.watcher.back
    assert pair.watcher.extra


def played(stage: Stage, folder: Path, cycles: int, *, seed: int) -> Pair:
    """Two processes after so many cycles in which the leader is paused or cut off."""
    dice, pair, clock = random.Random(seed), Pair(stage, folder), stage.clock

    async def cycle(number: int) -> None:
        leader = pair.leader()
        wire = pair.wires[pair.machines.index(leader)]
        cut = number % 3 == 2
        pair.push()
        await clock.sleep(dice.choice([0.05, 0.15, 0.25, 0.35, 0.45, 10.0]))
        leader.running.clear() if not cut else None
        wire.cut = cut
        if dice.random() < 0.5:
            pair.push()
        await clock.sleep(dice.choice([0.5, 5.0, 12.0, 14.9, 16.0, 40.0]))
        pair.push()
        await clock.sleep(dice.choice([0.0, 0.01, 1.0, 30.0]))
        leader.running.set()
        wire.cut = False
        await clock.sleep(dice.choice([0.0, 1.0, 45.0]))
        if number % 10 == 9:
            for _ in range(60):
                await clock.sleep(5)
                if pair.applied() == pair.count:
                    break
            assert pair.applied() == pair.count, f"nobody leads in cycle {number}"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(Inline())
        loop.set_task_factory(freezable)
        parts = run_parts(stage.cluster, parts_of(FAST), clock)
        pair.push()
        async with alongside(parts, pair.watcher.run(clock), pair.live(0), pair.live(1)):
            await clock.sleep(30)
            for number in range(cycles):
                await cycle(number)

    clock.run(main())
    return pair
