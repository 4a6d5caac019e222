"""Replicas with shards: each unit has one of them at each moment, and shares follow who lives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.errors import LeaseRefused
from gitkruise.model.gitops.shards import Shard, shard_of
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.sharding import sharded
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from gitkruise.world.kubelet.profiles import FAST
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import STATUS, Inline, MakeStage, Stage, Wire, config_map, documents, web
from tests.worlds import SPACE, parts_of

pytestmark = pytest.mark.slow

COUNT: Final = 3
UNITS: Final = tuple("abcdefgh")
SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
CONFIG: Final = SOURCE + SINK + "".join(unit(n, ", sinkRef: {{name: git}}") for n in UNITS)
_NOTES: Final = {"leases", "events"}
_DRIVEN: Final = {"pods", "controllerrevisions", "persistentvolumeclaims"}


@dataclass
class Replica:
    """One process with shards, its way to the cluster, and what it did."""

    name: str
    wire: Wire
    task: asyncio.Task[None] | None = None
    error: BaseException | None = None
    started: dict[Shard, int] = field(default_factory=Counter)

    async def leave(self) -> None:
        """End as after SIGTERM."""
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    async def die(self) -> None:
        """End without a word to the cluster."""
        self.wire.cut = True
        await self.leave()


class Fleet:
    """Replicas over one cluster, whose writes are compared with the holders of the leases."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.folder = stage, folder
        self.replicas: dict[str, Replica] = {}
        self.writes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.tasks = asyncio.TaskGroup()

    def push(self, text: str) -> None:
        files = {f"{n}/a.yaml": documents(config_map(n, text=text)) for n in UNITS}
        files["a/a.yaml"] = documents(config_map("a", text=text), web(f"app:{text}"))
        self.stage.origin.commit(files, text)

    def holder(self, name: str) -> str:
        lease: Any = self.stage.world.get(
            ObjectKey("coordination.k8s.io", "Lease", "kube-system", name)
        )
        return str((lease or {}).get("spec", {}).get("holderIdentity", "")).partition("_")[0]

    @property
    def holders(self) -> list[str]:
        return [self.holder(f"gitkruise-sync-shard-{number}") for number in range(COUNT)]

    def start(self, name: str, count: int = COUNT, text: str = CONFIG) -> Replica:
        replica = self.replicas[name] = Replica(name, Wire(self.stage.cluster))
        replica.wire.before = self._watching(replica)
        folder = self.folder / name
        folder.mkdir()
        program = self._options(name, folder, text)
        replica.task = self.tasks.create_task(self._live(replica, program, count))
        return replica

    async def begin(self) -> list[str]:
        """Start replicas a, b and c with a first commit; return who holds each shard at rest."""
        self.push("one")
        for name in "abc":
            self.start(name)
        await self.stage.rest(60)
        return self.holders

    def _options(self, name: str, folder: Path, text: str) -> RunOptions:
        program = options(self.stage, self.folder, text)  # of one file
        return replace(program, identity=name, state_dir=folder / "state")

    async def _live(self, replica: Replica, program: RunOptions, count: int) -> None:
        clock = self.stage.clock

        def record_shard(shard: Shard, running: object) -> None:
            replica.started[shard] += running is not None

        try:
            if count == 1:
                async with controller(program, replica.wire, clock):
                    await asyncio.get_running_loop().create_future()
            async with sharded(program, replica.wire, clock, count=count, on_shard=record_shard):
                await asyncio.get_running_loop().create_future()
        except LeaseRefused as error:
            replica.error = error

    def _watching(self, replica: Replica) -> Callable[[ApiRequest], Coroutine[Any, Any, None]]:
        async def look(request: ApiRequest) -> None:
            kind = request.resource.plural
            if request.verb in {"get", "list"} or "dryRun" in request.params or kind in _NOTES:
                return
            if kind in _DRIVEN or (kind == "clonesets" and request.subresource):
                shard = shard_of(SPACE, COUNT)
            else:
                shard = shard_of(f"shop/{'a' if kind == 'clonesets' else request.name}", COUNT)
            self.writes[replica.name] += 1
            holder = self.holder(f"gitkruise-sync-shard-{shard}")
            if holder != replica.name:
                self.wrong.append(f"{replica.name} wrote {kind} {request.name}, held by {holder}")

        return look

    def applied(self, text: str) -> list[str]:
        """The units whose object is not as the newest commit wants it."""
        found = {n: self.stage.get("ConfigMap", n) for n in UNITS}
        return [n for n, obj in found.items() if obj is None or obj["data"]["text"] != text]

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            parts = run_parts(self.stage.cluster, parts_of(FAST), self.stage.clock)
            async with alongside(parts), self.tasks:
                await script()
                for replica in self.replicas.values():
                    await replica.leave()

        self.stage.clock.run(main())


@pytest.fixture
def fleet(staged: MakeStage, tmp_path: Path) -> Fleet:
    return Fleet(staged(), tmp_path)


def test_one_replica_has_all_shards_until_another_joins(fleet: Fleet) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a")
        await fleet.stage.rest(40)
        assert fleet.holders == ["a"] * 3
        assert fleet.applied("one") == []
        fleet.start("b")
        await fleet.stage.rest(20)
        assert sorted(Counter(fleet.holders).values()) == [1, 2]
        fleet.start("c")
        await fleet.stage.rest(20)
        assert sorted(fleet.holders) == ["a", "b", "c"]
        fleet.push("two")
        await fleet.stage.rest(60)
        assert fleet.applied("two") == []
        assert fleet.stage.images() == ["app:two"] * 4
        assert set(fleet.writes) == {"a", "b", "c"}
        assert sum(fleet.replicas["a"].started.values()) == 3, "no shard came back"

    fleet.play(script)
    assert fleet.wrong == []


@pytest.mark.parametrize(("how", "within_s"), [("leave", 4), ("die", 15)])
def test_shards_of_a_replica_that_ends_are_taken_over(
    fleet: Fleet, how: str, within_s: float
) -> None:
    async def script() -> None:
        before = await fleet.begin()
        assert sorted(before) == ["a", "b", "c"]
        await getattr(fleet.replicas["b"], how)()
        fleet.push("two")
        await fleet.stage.rest(within_s)
        after = fleet.holders
        assert {one for one, old in zip(after, before, strict=True) if old == "b"} <= {"a", "c"}
        assert [one for one in before if one != "b"] == [
            one for one, old in zip(after, before, strict=True) if old != "b"
        ]
        await fleet.stage.rest(60)
        assert fleet.applied("two") == []

    fleet.play(script)
    assert fleet.wrong == []


def test_a_replica_looks_at_all_leases_by_one_request(fleet: Fleet) -> None:
    looked: dict[str, Counter[str]] = {}

    async def script() -> None:
        assert sorted(await fleet.begin()) == ["a", "b", "c"]
        begun = {name: len(one.wire.requests) for name, one in fleet.replicas.items()}
        await fleet.stage.rest(60)
        for name, one in fleet.replicas.items():
            leases = [r for r in one.wire.requests[begun[name] :] if r.resource.plural == "leases"]
            looked[name] = Counter(
                r.verb for r in leases if "-shard-" in r.name or "-member-" in r.name or not r.name
            )

    fleet.play(script)
    assert all(each["get"] == 0 for each in looked.values())
    assert all(40 <= each["list"] <= 46 for each in looked.values()), "one each 1.33 s"


def test_looks_that_get_no_reply_neither_take_nor_hand_back(fleet: Fleet) -> None:
    async def script() -> None:
        before = await fleet.begin()
        wire = fleet.replicas["a"].wire
        look = wire.before

        async def hang(request: ApiRequest) -> None:
            if request.verb == "list" and request.resource.plural == "leases":
                await asyncio.get_running_loop().create_future()
            await look(request)

        wire.before = hang
        await fleet.stage.rest(120)
        assert fleet.holders == before
        wire.before = look
        await fleet.replicas[before[1] if before[1] != "a" else before[2]].die()
        await fleet.stage.rest(30)
        assert set(fleet.holders) == {n for n in before if fleet.replicas[n].wire.cut is False}

    fleet.play(script)
    assert fleet.wrong == []


def test_every_replica_records_its_units_on_the_one_status_branch(fleet: Fleet) -> None:
    async def script() -> None:
        await fleet.begin()
        fleet.push("two")
        await fleet.stage.rest(90)
        index = run_git(fleet.stage.origin.bare, "show", f"{STATUS}:index.tsv").splitlines()
        rows = [line.split("\t")[:3] for line in index[1:]]
        head = run_git(fleet.stage.origin.bare, "rev-parse", "--short=7", "main")
        assert rows == [[f"shop/{n}", "Done", head] for n in UNITS]

    fleet.play(script)


@pytest.mark.parametrize(("first", "second"), [(3, 2), (3, 1), (1, 3)])
def test_a_replica_with_another_number_of_shards_is_refused(
    fleet: Fleet, first: int, second: int
) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a", first)
        await fleet.stage.rest(30)
        other = fleet.start("b", second)
        await fleet.stage.rest(30)
        assert isinstance(other.error, LeaseRefused)
        (finding,) = other.error.findings
        assert finding.code == "GK4119"
        assert f"--shards {second}" in finding.message
        assert fleet.writes["b"] == 0

    fleet.play(script)


def test_one_pass_that_a_user_asks_for_does_not_stand_in_for_shards(
    fleet: Fleet, tmp_path: Path
) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a")
        await fleet.stage.rest(30)
        wire = Wire(fleet.stage.cluster)
        program = replace(options(fleet.stage, tmp_path, CONFIG), identity="by-hand", acts=False)
        with pytest.raises(LeaseRefused, match="one pass cannot stand in"):
            async with controller(program, wire, fleet.stage.clock):
                pass
        assert wire.writes() == []
        assert fleet.holders == ["a"] * 3

    fleet.play(script)


def test_the_number_of_shards_changes_once_all_replicas_have_ended(fleet: Fleet) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a", 1)
        await fleet.stage.rest(30)
        await fleet.replicas["a"].leave()
        fleet.start("b")
        await fleet.stage.rest(30)
        assert fleet.holders == ["b"] * 3
        await fleet.replicas["b"].die()
        fleet.push("two")
        fleet.start("c", 1)
        await fleet.stage.rest(60)
        assert fleet.applied("two") == []

    fleet.play(script)


def test_more_replicas_than_shards_stand_by(fleet: Fleet) -> None:
    async def script() -> None:
        fleet.push("one")
        for name in "abcd":
            fleet.start(name)
        await fleet.stage.rest(60)
        (spare,) = set("abcd") - set(fleet.holders)
        assert fleet.writes[spare] == 0
        gone = fleet.holders[0]
        await fleet.replicas[gone].leave()
        await fleet.stage.rest(20)
        assert sorted(fleet.holders) == sorted(set("abcd") - {gone})

    fleet.play(script)
    assert fleet.wrong == []


def test_a_unit_that_left_is_ended_by_its_own_shard_only(fleet: Fleet) -> None:
    async def script() -> None:
        fleet.push("one")
        fleet.start("a")
        fleet.start("b")
        await fleet.stage.rest(60)
        for name in "ab":
            await fleet.replicas[name].leave()
        gone = UNITS[-1]
        rest = "".join(unit(n, ", sinkRef: {{name: git}}") for n in UNITS[:-1])
        for name in "cd":
            fleet.start(name, text=SOURCE + SINK + rest)
        await fleet.stage.rest(90)
        assert [n for n in UNITS if fleet.stage.get("ConfigMap", n) is None] == [gone]

    fleet.play(script)
    assert fleet.wrong == []


def apart() -> tuple[str, str]:
    """Two units of different shards."""
    first = UNITS[0]
    other = next(n for n in UNITS if shard_of(f"shop/{n}", 3) != shard_of(f"shop/{first}", 3))
    return first, other


@pytest.mark.parametrize("ends", [False, True], ids=["both stay", "the old unit ends"])
def test_an_object_moves_between_shards_without_being_deleted(fleet: Fleet, ends: bool) -> None:
    old, new = apart()
    rest = "".join(unit(n, ", sinkRef: {{name: git}}") for n in UNITS if n != old)

    def uid() -> str:
        return str(fleet.stage.get("ConfigMap", "moving")["metadata"]["uid"])

    async def script() -> None:
        fleet.push("one")
        both = documents(config_map(old, text="one"), config_map("moving", text="one"))
        fleet.stage.origin.commit({f"{old}/a.yaml": both}, "added")
        for name in "abc":
            fleet.start(name)
        await fleet.stage.rest(60)
        before = uid()
        moved = documents(config_map(new, text="one"), config_map("moving", text="two"))
        alone = documents(config_map(old, text="one"))
        fleet.stage.origin.commit({f"{old}/a.yaml": alone, f"{new}/a.yaml": moved}, "moved")
        if ends:
            for name in "abc":
                await fleet.replicas[name].leave()
            for name in "def":
                fleet.start(name, text=SOURCE + SINK + rest)
        await fleet.stage.rest(120)
        assert uid() == before
        assert fleet.stage.get("ConfigMap", "moving")["data"]["text"] == "two"
        label = fleet.stage.get("ConfigMap", "moving")["metadata"]["labels"]
        assert label == fleet.stage.get("ConfigMap", new)["metadata"]["labels"]
        records = run_git(fleet.stage.origin.bare, "log", "-p", STATUS)
        assert "Stuck" not in records, "a commit that is about to be read is no fault"
        assert "DriftCorrected" not in records, "nobody had changed anything by hand"

    fleet.play(script)


def test_a_unit_waits_for_one_of_another_shard(fleet: Fleet) -> None:
    first, last = apart()
    waits = unit(last, f", sinkRef: {{{{name: git}}}}, dependsOn: [{{{{name: {first}}}}}]")
    text = SOURCE + SINK + unit(first, ", sinkRef: {{name: git}}") + waits
    order: list[str] = []

    def noted(request: ApiRequest) -> None:
        if request.verb == "patch" and "dryRun" not in request.params and request.name in {
            first, last
        } and request.resource.plural == "configmaps":  # fmt: skip
            order.append(request.name)

    async def script() -> None:
        fleet.push("one")
        for name in "abc":
            replica = fleet.start(name, text=text)
            look = replica.wire.before

            async def both(request: ApiRequest, look: Any = look) -> None:
                if request.name == first and request.verb == "patch":
                    await fleet.stage.clock.sleep(5)
                noted(request)
                await look(request)

            replica.wire.before = both
        await fleet.stage.rest(60)
        assert order == [first, last]
        await fleet.stage.rest(60)
        fleet.push("two")
        await fleet.stage.rest(90)
        assert order == [first, last] * 2

    fleet.play(script)
