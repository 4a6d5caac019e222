"""Worker processes: what is too much, stuck, or crashes is the error of one commit and no more."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import InvalidManifests, SourceFailed
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder, BuildRequest, BuildResult
from gitkruise.gitops.build.post_build import NOTHING
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.preview.cluster_facts import cluster_facts
from gitkruise.gitops.workers.pool import InProcess, WorkerPool
from gitkruise.gitops.workers.process import JobBudget
from gitkruise.kube.client.discovery import served_catalog
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import (
    Config,
    GitSource,
    GitSourceSpec,
    Reference,
    Unit,
    UnitSpec,
)
from gitkruise.model.gitops.document import Desired, Document
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.initial_objects import bootstrap
from tests.git.repos import Origin, make_origin, run_git
from tests.worlds import Lab, cloneset

pytestmark = pytest.mark.slow

MIB = 1 << 20
(WRITTEN,) = parse_file(b"kind: Unit\n", "gitkruise.yaml").documents
PLENTY = JobBudget(cpu_s=30, wall_s=120, memory=1024 * MIB, output=64 * MIB)
# 80,000 objects; a fast machine reads 8,000 a second, and limits end a job up to a second late.
COSTLY = 400


def config_map(name: str, text: str = "x") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {text}}}\n"


def many(count: int, at: str = "app", text: str = "x") -> dict[str, str]:
    """Manifests that take a while, and room."""
    return {
        f"{at}/{n}.yaml": "---\n".join(config_map(f"c{n}-{k}", text) for k in range(200))
        for n in range(count)
    }


class House:
    """A repository, and readers of units in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.origin: Origin = make_origin(folder)
        self.repository = Repository.open(str(self.origin.bare))

    def reader(self, path: str = "app") -> Builder:
        spec = UnitSpec(source_ref=Reference(name="src"), path=path)
        unit = Unit("shop", "web", spec, origin=WRITTEN)
        return Builder(repository=self.repository, unit=unit, gates=Gates(), cache=ParseCache())

    @contextmanager
    def pool(self, **less: int) -> Iterator[WorkerPool]:
        budget = JobBudget(
            **{n: less.get(n, getattr(PLENTY, n)) for n in ("cpu_s", "wall_s", "memory", "output")}
        )
        pool = WorkerPool(self.folder, 1, (budget, budget, budget))
        try:
            yield pool
        finally:
            pool.close()

    def read(self, workers: Workers, commit: str, reader: Builder | None = None) -> BuildResult:
        return asyncio.run(read(workers, reader or self.reader(), commit))

    def stuck(self) -> str:
        """A commit with a file that git waits for without end."""
        commit = self.origin.commit({"app/a.yaml": config_map("stuck")}, branch="stuck")
        blob = run_git(self.origin.bare, "rev-parse", f"{commit}:app/a.yaml")
        place = self.origin.bare / "objects" / blob[:2] / blob[2:]
        place.unlink()
        os.mkfifo(place)
        return commit


async def read(workers: Workers, reader: Builder, commit: str) -> BuildResult:
    return await workers.read(reader, BuildRequest(commit=commit), load_catalog(), NOTHING)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.repository.close()


def names(answer: BuildResult) -> list[str]:
    return [d.key.name for d in answer.objects or ()]


def contents_of(objects: Sequence[Desired]) -> list[tuple[Any, ...]]:
    """Objects as far as our process needs them, with the place of their names."""
    return [
        (replace(d, document=Document(obj={}, file="")), d.document.place(("metadata", "name")))
        for d in objects
    ]


def same(one: BuildResult, other: BuildResult) -> bool:
    bare = replace(one, objects=None) == replace(other, objects=None)
    return bare and contents_of(one.objects or ()) == contents_of(other.objects or ())


def wrong(answer: BuildResult) -> tuple[str, str]:
    (finding,) = answer.findings
    return finding.code, finding.message


def ended(pid: int) -> None:
    """Wait until a process is no more."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([watched], [], [])
    os.close(watched)


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def busy(pool: WorkerPool) -> None:
    """Let others run until the worker has a git of its own."""
    while not (pool.pids and children(pool.pids[0])):  # noqa: ASYNC110  another process has none
        await asyncio.sleep(0)


# Answers ----------------------------------------------------------------------------------------


def test_a_worker_answers_as_this_process_does(house: House) -> None:
    first = house.origin.commit({"app/a.yaml": config_map("a"), "app/b.yaml": config_map("b")})
    second = house.origin.commit({"app/b.yaml": config_map("b", "z"), "x": "x"})
    broken = house.origin.commit({"app/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetdata: {}\n"})
    gone = house.origin.commit({"app/a.yaml": None, "app/b.yaml": None})
    here, reader = house.reader(), house.reader()
    with house.pool() as pool:
        for commit in (first, second, broken, gone):
            assert same(house.read(pool, commit, reader), house.read(InProcess(), commit, here))


def test_what_is_known_stays_the_same_object(house: House) -> None:
    first = house.origin.commit({"app/a.yaml": config_map("a"), "app/b.yaml": config_map("b")})
    second = house.origin.commit({"app/b.yaml": config_map("b", "z")})
    reader = house.reader()
    with house.pool() as pool:
        one = house.read(pool, first, reader).objects
        two = house.read(pool, second, reader).objects
        os.kill(pool.pids[0], signal.SIGKILL)
        three = house.read(pool, second, reader).objects
    assert one is not None
    assert two is not None
    assert three is not None
    assert one[0] is two[0] is three[0]
    assert one[1] is not two[1]
    assert two[1] is three[1]
    place = two[1].document.place(("data", "a"))
    assert (place.file, place.line) == ("app/b.yaml", 4)


def test_an_object_in_a_file_with_a_secret_stays_private(house: House) -> None:
    objects = (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}, "stringData": {"a": "x"}},
    )
    commit = house.origin.commit({"app/a.json": " ".join(map(json.dumps, objects))})
    with house.pool() as pool:
        there, here = house.read(pool, commit), house.read(InProcess(), commit)
    assert [d.document.private for d in here.objects or ()] == [True, True]
    assert [d.document.private for d in there.objects or ()] == [True, True]


def test_units_that_ask_together_get_their_own_answers_in_their_order(house: House) -> None:
    texts = {f"u{n}/a.yaml": config_map(f"c{n}") for n in range(100)}
    commit = house.origin.commit({**texts, "u7/a.yaml": "kind: [", "u8/a.yaml": "a: b\n"})
    answered: list[str] = []
    with house.pool() as pool:

        async def one(path: str, commit: str) -> BuildResult | SourceFailed:
            try:
                return await read(pool, house.reader(path), commit)
            except SourceFailed as error:
                return error
            finally:
                answered.append(path)

        async def script() -> list[BuildResult | SourceFailed]:
            async with asyncio.TaskGroup() as tasks:
                asked = [
                    tasks.create_task(one(f"u{n}", "0" * 40 if n == 9 else commit))
                    for n in range(101)
                ]
            return [task.result() for task in asked]

        found = asyncio.run(script())
    assert answered == [f"u{n}" for n in range(101)]
    for n, answer in enumerate(found):
        if n == 9:
            assert isinstance(answer, SourceFailed)
        else:
            assert isinstance(answer, BuildResult)
            assert same(answer, house.read(InProcess(), commit, house.reader(f"u{n}")))


def test_a_caller_that_left_costs_the_others_nothing(house: House) -> None:
    commit = house.origin.commit({f"u{n}/a.yaml": config_map(f"c{n}") for n in range(9)})
    with house.pool() as pool:

        async def script() -> list[str]:
            async with asyncio.TaskGroup() as tasks:
                asked = [
                    tasks.create_task(read(pool, house.reader(f"u{n}"), commit)) for n in range(9)
                ]
                await asyncio.sleep(0)
                for left in (0, 1, 5):
                    asked[left].cancel()
            return [name for one in asked if not one.cancelled() for name in names(one.result())]

        assert asyncio.run(script()) == ["c2", "c3", "c4", "c6", "c7", "c8"]


def test_a_commit_that_leaves_units_alone_is_sifted(house: House) -> None:
    first = house.origin.commit({"a/a.yaml": config_map("a"), "b/b.yaml": config_map("b")})
    second = house.origin.commit({"b/b.yaml": config_map("b", "z")})
    readers = [house.reader("a"), house.reader("b")]
    with house.pool() as pool:

        async def script() -> tuple[str, list[bool]]:
            stood = [(r, first, (await read(pool, r, first)).tree) for r in readers]
            commit, is_unchanged = await pool.find_unchanged(stood, second)
            return commit.id, [*is_unchanged]

        assert asyncio.run(script()) == (second, [True, False])


# Limits -----------------------------------------------------------------------------------------

LIMITS: list[tuple[str, dict[str, int], int, str]] = [
    ("CPU", {"cpu_s": 1}, COSTLY, "CPU time > 1 s"),
    ("memory", {"memory": 48 * MIB}, 60, "memory > 48 MiB"),
    ("output", {"output": MIB}, 60, "output > 1 MiB"),
]


@pytest.mark.parametrize("row", LIMITS, ids=[row[0] for row in LIMITS])
def test_a_commit_beyond_a_limit_is_an_error_of_that_commit(
    house: House, row: tuple[str, dict[str, int], int, str]
) -> None:
    _, less, files, limit = row
    good = house.origin.commit({"app/a.yaml": config_map("a")})
    bomb = house.origin.commit(many(files, text="y" * 400))
    with house.pool(**less) as pool:

        async def script() -> list[BuildResult]:
            async with asyncio.TaskGroup() as tasks:
                reads = [read(pool, house.reader(), commit) for commit in (good, bomb, good)]
                asked = [tasks.create_task(one) for one in reads]
            return [one.result() for one in asked]

        before, hostile, after = asyncio.run(script())
    assert names(before) == names(after) == ["a"]
    assert hostile.objects is None
    message = f"Unit shop/web: reading is beyond a limit: {limit}"
    assert wrong(hostile) == ("GK9030", message)


def test_a_git_that_does_not_answer_is_ended_with_its_worker(house: House) -> None:
    stuck = house.stuck()
    good = house.origin.commit({"app/a.yaml": config_map("a")})
    with house.pool(wall_s=3) as pool:

        async def script() -> tuple[BuildResult, list[int]]:
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(read(pool, house.reader(), stuck))
                await busy(pool)
                gits = children(pool.pids[0])
            return waiting.result(), gits

        answer, gits = asyncio.run(script())
        for pid in gits:
            ended(pid)
        assert wrong(answer)[1].endswith("reading is beyond a limit: time > 3 s")
        assert names(house.read(pool, good)) == ["a"]


@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_is_replaced_and_the_job_tried_once_more(
    house: House, signalled: signal.Signals
) -> None:
    stuck = house.stuck()
    good = house.origin.commit({"app/a.yaml": config_map("a")})
    with house.pool() as pool:

        async def script() -> list[BuildResult]:
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(read(pool, house.reader(), stuck))
                second = tasks.create_task(read(pool, house.reader(), good))
                killed: set[int] = set()
                while len(killed) < 2:
                    for pid in set(pool.pids) - killed:
                        if children(pid):
                            os.kill(pid, signalled)
                            killed.add(pid)
                    await asyncio.sleep(0)
            return [first.result(), second.result()]

        dead, queued = asyncio.run(script())
    how = f"it was ended by {signalled.name}"
    assert wrong(dead) == (
        "GK9031", f"Unit shop/web: the process that read this commit died twice: {how}"
    )  # fmt: skip
    assert names(queued) == ["a"]


def test_nothing_is_left_when_the_parent_is_killed(house: House) -> None:
    stuck = house.stuck()
    program = f"""
import asyncio, pathlib
from tests.gitops.workers.test_pool import House, busy, children, read
from gitkruise.git.repository.repository import Repository
house = House.__new__(House)
house.folder = pathlib.Path({str(house.folder)!r})
house.repository = Repository.open({str(house.origin.bare)!r})
async def main():
    with house.pool() as pool:
        task = asyncio.ensure_future(read(pool, house.reader(), {stuck!r}))
        await busy(pool)
        print(*pool.pids, *children(pool.pids[0]), flush=True)
        await task
asyncio.run(main())
"""
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=root) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        run.kill()
    assert len(pids) > 1
    for pid in pids:
        ended(pid)


def test_a_pool_that_is_closed_ends_a_job_and_its_git(house: House) -> None:
    stuck = house.stuck()
    with house.pool() as pool:

        async def script() -> list[int]:
            async with asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(read(pool, house.reader(), stuck))
                await busy(pool)
                pids = [*pool.pids, *children(pool.pids[0])]
                waiting.cancel()
                pool.close()
            return pids

        for pid in asyncio.run(script()):
            ended(pid)


# Health -----------------------------------------------------------------------------------------

NESTED = "spec.l.all(a, spec.l.all(b, spec.l.all(c, spec.l.all(d, spec.l.all(e, a >= 0)))))"


def test_an_expression_without_end_costs_only_its_own_verdict(house: House) -> None:
    obj: dict[str, Any] = {"spec": {"l": [*range(200)]}, "status": {"up": True}}
    with house.pool(cpu_s=1) as pool:
        asked = [(("status.up",), obj), ((NESTED,), obj), (("spec.no", "status.up"), obj)]
        first, hostile, last = asyncio.run(pool.judge(asked))
    assert (first.number, first.why) == (0, "")
    assert (last.number, last.why) == (1, "")
    assert hostile.costly
    assert hostile.why == "operation cancelled: actual cost limit exceeded"


def test_other_work_goes_on_while_an_expression_is_evaluated(house: House) -> None:
    good = house.origin.commit({"app/a.yaml": config_map("a")})
    obj: dict[str, Any] = {"spec": {"l": [*range(200)]}}
    order: list[str] = []
    with house.pool(cpu_s=3) as pool:

        async def judge() -> None:
            await pool.judge([((NESTED,), obj)])
            order.append("judged")

        async def reads() -> None:
            assert names(await read(pool, house.reader(), good)) == ["a"]
            order.append("read")

        async def script() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(judge())
                tasks.create_task(reads())

        asyncio.run(script())
    assert order == ["read", "judged"]


# Pull requests ----------------------------------------------------------------------------------


def config(house: House) -> Config:
    source = GitSource("shop", "src", GitSourceSpec(url=str(house.origin.bare)))
    spec = UnitSpec(source_ref=Reference(name="src"), path="app")
    unit = Unit("shop", "web", spec, origin=WRITTEN)
    return Config({"shop/src": source}, {"shop/web": unit}, {})


def test_a_plan_from_the_live_state_is_made_in_the_process_that_reads(house: House) -> None:
    lab = Lab()
    bootstrap(lab.world, lab.now, nodes=0)
    lab.apply(cloneset("web", 4, podUpdatePolicy="InPlaceIfPossible"))
    lab.run()
    objects = [
        cloneset("web", 4, image, podUpdatePolicy="InPlaceIfPossible", partition=partition)
        for image, partition in (("app:v1", 0), ("app:v2", 2))
    ]
    base, head = (house.origin.commit({"app/web.yaml": json.dumps(obj)}) for obj in objects)
    bomb = house.origin.commit(many(COSTLY, text="y" * 300), branch="bomb")
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))

    async def script(pool: WorkerPool) -> None:
        catalog = await served_catalog(transport, load_catalog())
        rules = (config(house), catalog, Gates())
        before = await pool.side(house.repository, base, *rules, base=True)
        after = await pool.side(house.repository, head, *rules)
        facts = await cluster_facts(
            before, after, catalog, transport=transport, now=lab.now, cluster="lab"
        )
        (reading,) = pool.pids
        plan = await pool.plan_text(house.repository, *rules, facts, base=base, head=head)
        here = await InProcess().plan_text(house.repository, *rules, facts, base=base, head=head)
        assert plan == here
        assert plan.moved
        assert "2 pods restarted in place" in plan.plan
        assert pool.pids == [reading]
        with pytest.raises(InvalidManifests) as caught:
            await pool.plan_text(house.repository, *rules, facts, base=base, head=bomb)
        assert caught.value.findings[0].code == "GK9030"

    with house.pool(cpu_s=2) as pool:
        asyncio.run(script(pool))


def test_a_strangers_plan_has_a_process_of_its_own(house: House) -> None:
    base = house.origin.commit({"app/a.yaml": config_map("a")})
    head = house.origin.commit({"app/b.yaml": config_map("b")}, branch="pull")
    bomb = house.origin.commit(many(COSTLY, text="y" * 300), branch="bomb")
    with house.pool(cpu_s=1) as pool:

        async def script() -> None:
            rules = (config(house), load_catalog(), Gates())
            house_read = await read(pool, house.reader(), base)
            (reading,) = pool.pids
            plan = await pool.plan_text(house.repository, *rules, base=base, head=head)
            here = await InProcess().plan_text(house.repository, *rules, base=base, head=head)
            assert plan == here
            assert "b" in plan.plan
            side = await pool.side(house.repository, head, *rules)
            alone = await InProcess().side(house.repository, head, *rules)
            assert contents_of(side.objects) == contents_of(alone.objects)
            with pytest.raises(InvalidManifests) as caught:
                await pool.plan_text(house.repository, *rules, base=base, head=bomb)
            assert caught.value.findings[0].code == "GK9030"
            assert pool.pids[0] == reading
            assert names(house_read) == ["a"]

        asyncio.run(script())
