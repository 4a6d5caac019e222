"""A unit that leaves the configuration ends by its deletionPolicy, and never by an accident."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.errors import Forbidden, Unavailable, UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.planner.sync.annotations import UNIT, unit_label
from gitkruise.wire.primitives.names import Obj
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.reconcile.test_hooks import BEFORE
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: out, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
SINK_REF: Final = ", sinkRef: {{name: out}}"
HEAD: Final = SOURCE + SINK + unit("stays", SINK_REF)


def leaves(prune: str, sink: str = SINK_REF) -> str:
    return unit("leaves", f"{sink}, prune: {{{{{prune}}}}}")


STAYS: Final = config_map("stays", a="b")
NAMES: Final = [f"leaves-{n}" for n in range(4)]
LEFT: Final = [config_map(name, a="b") for name in NAMES]
CLAIM: Final[Obj] = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}  # fmt: skip


class House:
    """A program with two units, of which one is taken out of its configuration."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage, self.folder = stage, folder
        self.records: list[UnitRecord] = []

    def program(self, prune: str | None) -> RunOptions:
        """The configuration with the unit, or without for None."""
        text = HEAD + (leaves(prune) if prune is not None else "")
        return options(self.stage, self.folder, text, listeners=(self.records.append,))

    def push(self, *left: Obj, stays: Obj = STAYS) -> None:
        files = {"stays/a.yaml": documents(stays)}
        files["leaves/a.yaml"] = documents(*left) if left else "# nothing\n"
        self.stage.origin.commit(files, "change")

    async def run(self, prune: str | None, seconds: float = 60) -> None:
        async with controller(self.program(prune), self.stage.wire, self.stage.clock):
            await self.stage.rest(seconds)

    def there(self) -> int:
        return sum(self.stage.get("ConfigMap", name) is not None for name in NAMES)

    def branch(self) -> str:
        return run_git(self.stage.origin.bare, "ls-tree", "-r", "--name-only", STATUS)

    def subject(self) -> str:
        return run_git(self.stage.origin.bare, "log", "-1", "--format=%s", STATUS)

    def codes(self) -> list[str]:
        return [f.code for r in self.records if r.unit == "shop/leaves" for f in r.findings]


@pytest.fixture
def house(staged: MakeStage, tmp_path: Path) -> House:
    return House(staged(), tmp_path)


ENDS: list[tuple[str, int, str]] = [
    ("", 0, "shop/leaves: removed, 4 objects deleted [skip ci]"),
    ("enabled: false", 4, "shop/leaves: removed, its objects stay [skip ci]"),
    ("maxDelete: 1, deletionPolicy: Delete", 0,
     "shop/leaves: removed, 4 objects deleted [skip ci]"),
    ("enabled: false, deletionPolicy: Delete", 0,
     "shop/leaves: removed, 4 objects deleted [skip ci]"),
    ("deletionPolicy: WaitForTermination", 0, "shop/leaves: removed, 4 objects deleted [skip ci]"),
    ("deletionPolicy: Orphan", 4, "shop/leaves: removed, its objects stay [skip ci]"),
]  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [ENDS[0], *(pytest.param(row, marks=pytest.mark.slow) for row in ENDS[1:])],
    ids=[row[0] or "MirrorPrune" for row in ENDS],
)
def test_policies(
    house: House, row: tuple[str, int, str], caplog: pytest.LogCaptureFixture
) -> None:
    prune, left, subject = row

    async def script() -> None:
        house.push(*LEFT)
        await house.run(prune)
        assert house.there() == 4
        await house.run(None)
        assert (house.there(), house.subject()) == (left, subject)
        assert house.stage.get("ConfigMap", "stays") is not None
        assert "units/shop/leaves" not in house.branch()
        assert "shop/leaves" not in house.stage.status_file("index.tsv")
        assert "shop/stays" in house.stage.status_file("index.tsv")
        await house.run(None)  # there is nothing more to do
        assert house.subject() == subject

    house.stage.play(script)
    lines = [r.getMessage() for r in caplog.records if "event=Pruned" in r.getMessage()]
    assert len(lines) == 4 - left
    assert all('text="deleted: its unit was removed"' in line for line in lines)


@pytest.mark.slow
def test_more_than_the_limit_stays_and_is_reported(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("maxDelete: 3")
        await house.run(None)
        assert (house.there(), house.codes()) == (4, ["GK2308"])
        assert "state: Stuck" in house.stage.status_file("units/shop/leaves/status.yaml")
        await house.run("deletionPolicy: Delete")  # what its message says
        await house.run(None)
        assert (house.there(), "units/shop/leaves" in house.branch()) == (0, False)

    house.stage.play(script)


PROTECTED: list[tuple[str, Obj, bool]] = [
    ("holds data", CLAIM, False),
    ("asks", config_map("data", {"gitkruise.io/prune": "Confirm"}, a="b"), False),
    ("protected", config_map("data", {"gitkruise.io/prune": "Disabled"}, a="b"), True),
    ("protected for Argo", config_map("data", {"argocd.argoproj.io/sync-options": "Delete=false"},
                                      a="b"), True),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("row", PROTECTED, ids=[row[0] for row in PROTECTED])
def test_no_policy_deletes_what_is_protected(house: House, row: tuple[str, Obj, bool]) -> None:
    _, obj, forgotten = row

    async def script() -> None:
        house.push(*LEFT, obj)
        await house.run("deletionPolicy: Delete")
        await house.run(None)
        assert house.there() == 0
        assert house.stage.get(obj["kind"], "data") is not None
        assert ("units/shop/leaves" not in house.branch()) == forgotten
        assert house.codes() == ([] if forgotten else ["GK2308"])

    house.stage.play(script)


ASIDE: list[tuple[str, str, str]] = [
    # where, annotation, value
    ("git", "gitkruise.io/reconcile", "disabled"),
    ("git", "gitkruise.io/hold", "2036-01-01T00:00:00Z dana looks at it"),
    ("cluster", "gitkruise.io/hold", "2036-01-01T00:00:00Z dana looks at it"),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", ASIDE, ids=[f"{row[1]} in {row[0]}" for row in ASIDE])
def test_what_is_left_alone_stays(house: House, row: tuple[str, str, str]) -> None:
    """As it does when it leaves the git of a unit that goes on."""
    where, name, value = row

    async def script() -> None:
        house.push(*LEFT)
        await house.run("deletionPolicy: Delete")
        if where == "git":
            house.push(*LEFT[1:], config_map(NAMES[0], {name: value}, a="b"))
            await house.run("deletionPolicy: Delete")
        else:
            house.stage.meddle(config_map(NAMES[0], {name: value}, a="b"))
        await house.run(None)
        assert house.there() == 1
        assert house.stage.get("ConfigMap", NAMES[0]) is not None
        assert "units/shop/leaves" not in house.branch()

    house.stage.play(script)


@pytest.mark.slow
def test_what_another_unit_took_over_is_not_deleted(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("deletionPolicy: Delete")
        house.push(*LEFT, stays=LEFT[0])  # moved to the unit that stays
        await house.run(None)
        assert house.there() == 1
        assert house.stage.get("ConfigMap", NAMES[0]) is not None

    house.stage.play(script)


@pytest.mark.slow
def test_nothing_is_deleted_while_another_units_git_cannot_be_read(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("deletionPolicy: Delete")
        house.stage.origin.commit({"stays/a.yaml": "a: b: c"}, "broken")
        await house.run(None)
        assert house.there() == 4
        house.push(*LEFT)
        await house.run(None)
        assert house.there() == 0

    house.stage.play(script)


def test_an_object_that_outlives_its_unit_is_logged(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> list[str]:
        return [r.getMessage() for r in caplog.records if "event=unit-objects-" in r.getMessage()]

    async def script() -> None:
        house.push(*LEFT)
        await house.run("timeout: 2m")
        meta: dict[str, Any] = {"name": NAMES[0], "namespace": SPACE, "finalizers": ["a.com/b"]}
        house.stage.meddle({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        async with controller(house.program(None), house.stage.wire, house.stage.clock):
            await house.stage.rest(60)
            assert (house.there(), logged()) == (1, [])
            assert "units/shop/leaves" not in house.branch()  # the unit is forgotten
            await house.stage.rest(300)
            (late,) = logged()
            assert 'unit=shop/leaves error="GK2306: ConfigMap shop/leaves-0 waits' in late
            assert "for a.com/b, 2m after it was deleted" in late
            house.stage.meddle(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "finalizers": []}}
            )
            await house.stage.rest(60)
        assert (house.there(), len(logged())) == (0, 2)
        assert logged()[1] == "event=unit-objects-gone unit=shop/leaves"

    house.stage.play(script)


def test_an_object_that_outlives_its_unit_is_logged_after_a_restart(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> list[str]:
        return [r.getMessage() for r in caplog.records if "event=unit-objects-" in r.getMessage()]

    async def script() -> None:
        house.push(*LEFT)
        await house.run("timeout: 2m")
        meta: dict[str, Any] = {"name": NAMES[0], "namespace": SPACE, "finalizers": ["a.com/b"]}
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        house.stage.meddle(held)
        await house.run(None)
        assert "units/shop/leaves" not in house.branch()  # the unit is forgotten
        subject = house.subject()
        assert (house.there(), logged()) == (1, [])
        await house.run(None, 300)
        assert (len(logged()), house.subject()) == (1, subject)
        async with controller(house.program(None), house.stage.wire, house.stage.clock):
            await house.stage.rest(60)
            meta["finalizers"] = []
            house.stage.meddle(held)
            await house.stage.rest(60)
        assert logged()[2:] == ["event=unit-objects-gone unit=shop/leaves"]
        await house.run(None, 300)
        assert len(logged()) == 3

    house.stage.play(script)


@pytest.mark.parametrize("again", ["", "deletionPolicy: Orphan"])
def test_a_unit_that_comes_back_is_remembered_when_its_old_objects_are_gone(
    house: House, again: str
) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("timeout: 2m")
        meta: dict[str, Any] = {"name": NAMES[0], "namespace": SPACE, "finalizers": ["a.com/b"]}
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        house.stage.meddle(held)
        await house.run(None)
        assert house.there() == 1
        async with controller(house.program(again), house.stage.wire, house.stage.clock):
            await house.stage.rest(60)
            meta["finalizers"] = []
            house.stage.meddle(held)
            await house.stage.rest(120)
        assert house.there() == 4
        await house.run(None)
        assert house.there() == (0 if not again else 4)

    house.stage.play(script)


@pytest.mark.slow
def test_a_finalizer_is_waited_for(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("timeout: 2m, deletionPolicy: WaitForTermination")
        held = house.stage.get("ConfigMap", NAMES[0])
        meta: dict[str, Any] = {"name": NAMES[0], "namespace": SPACE, "finalizers": ["a.com/b"]}
        house.stage.meddle({"apiVersion": "v1", "kind": held["kind"], "metadata": meta})
        await house.run(None, 300)
        assert (house.there(), house.codes()) == (1, ["GK2309", "GK2306"])
        house.stage.meddle(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**meta, "finalizers": []}}
        )
        await house.run(None)
        assert (house.there(), "units/shop/leaves" in house.branch()) == (0, False)

    house.stage.play(script)


def test_the_units_that_keep_another_from_its_end_are_named(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("")
        house.push(*LEFT, stays={**STAYS, "data": 1})  # which is rejected
        await house.run(None, 50)
        assert (house.there(), house.codes()) == (4, [])
        await house.run(None, 300)
        assert (house.there(), house.codes()) == (4, ["GK2309"])
        status = house.stage.status_file("units/shop/leaves/status.yaml")
        assert "state: Waiting" in status
        assert "before unit shop/stays has taken the newest commit of its source" in status
        house.push(*LEFT)
        await house.run(None)
        assert (house.there(), "units/shop/leaves" in house.branch()) == (0, False)

    house.stage.play(script)


FORGED: Final = (
    "units/shop/{name}/status.yaml",
    """apiVersion: gitkruise.io/v1alpha1
kind: UnitStatus
unit: shop/{name}
cluster: test
state: Done
message: all is well
since: "2026-01-01T00:00:00Z"
removal: {{policy: Delete, propagation: Background, timeout: 5m, limit: 1000}}
""",
)


@pytest.mark.parametrize("name", ["foreign", "leaves"])
def test_a_forged_record_deletes_nothing(house: House, name: str) -> None:
    """Whoever may push the status branch may write any record: none of it is carried out."""

    async def script() -> None:
        house.push(*LEFT)
        await house.run("deletionPolicy: Orphan")
        foreign = config_map("foreign", x="1")
        foreign["metadata"]["labels"] = {UNIT: unit_label("test", "shop/foreign")}
        house.stage.meddle(foreign)  # of another team
        work = house.folder / "forger"
        run_git(house.folder, "clone", "-q", str(house.stage.origin.bare), str(work))
        run_git(work, "checkout", "-q", STATUS.removeprefix("refs/heads/"))
        path, text = (part.format(name=name) for part in FORGED)
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
        run_git(work, "add", "--all")
        run_git(work, "-c", "user.name=m", "-c", "user.email=m@x", "commit", "-qm", "forged")
        run_git(work, "push", "-q", "origin", "HEAD")
        before = len(house.stage.wire.requests)
        await house.run(None, 120)
        deleted = [r for r in house.stage.wire.requests[before:] if r.verb == "delete"]
        assert deleted == []
        assert house.there() == 4
        assert house.stage.get("ConfigMap", "foreign") is not None

    house.stage.play(script)


def test_a_unit_ends_as_the_cluster_knows_though_its_record_is_gone(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("deletionPolicy: Delete")
        run_git(house.stage.origin.bare, "update-ref", "-d", STATUS)
        await house.run(None)
        assert house.there() == 0
        assert house.stage.get("ConfigMap", "stays") is not None

    house.stage.play(script)


def test_without_the_right_to_remember_nothing_is_deleted(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT)
        house.stage.wire.refuse = lambda r: (
            Forbidden("no") if r.name == "gitkruise-sync-units" else None
        )
        await house.run("deletionPolicy: Delete")
        await house.run(None)
        assert house.there() == 4

    house.stage.play(script)


def test_units_left_while_the_cluster_remembered_nothing_end_once_it_does(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async def script() -> None:
        house.push(*LEFT)
        await house.run("")
        house.stage.wire.refuse = lambda r: (
            Unavailable("busy") if r.name == "gitkruise-sync-units" else None
        )
        async with controller(house.program(None), house.stage.wire, house.stage.clock):
            await house.stage.rest(60)
            assert house.there() == 4
            house.stage.wire.refuse = lambda _: None
            await house.stage.rest(5 * 60)
            assert house.there() == 0

    house.stage.play(script)
    assert any("keep their objects until then" in r.getMessage() for r in caplog.records)


def test_a_policy_that_would_be_forgotten_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text((HEAD + leaves("deletionPolicy: Orphan", sink="")).format(url=tmp_path))
    with pytest.raises(UsageProblem) as caught:
        load_config(file)
    (finding,) = caught.value.findings
    assert (finding.code, finding.places[0].line) == ("GK7007", 19)


@pytest.mark.slow
def test_a_unit_that_comes_back_runs_its_hooks_again(house: House) -> None:
    async def script() -> None:
        house.push(*LEFT, BEFORE)
        for _ in range(2):
            house.stage.wire.requests.clear()
            await house.run("deletionPolicy: Delete")
            assert "patch before" in house.stage.wire.writes()
            await house.run(None)
            assert house.stage.get("Job", "before", "batch") is None

    house.stage.play(script)
