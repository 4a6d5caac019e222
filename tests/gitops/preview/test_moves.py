"""A plan names the objects that change their unit: those that do, by the unit that owns them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import controller
from gitkruise.cli.context.commit_plan import read_sides
from gitkruise.gitops.preview.inputs import PlanSide, config_at, read_base, read_side
from gitkruise.gitops.preview.ownership import moves
from gitkruise.gitops.preview.preview import Preview, live_preview
from gitkruise.gitops.preview.rejection import as_taken
from gitkruise.gitops.preview.report import report_of
from gitkruise.model.gitops.config import Config, Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.report import PlanReport
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents, reference

NAMES: Final = ("one", "two", "three")
RING: Final = {"one": "a", "two": "b", "three": "c"}  # unit and object
LOST: Final[Obj] = {**config_map("lost", a="b"), "metadata": {"name": "lost", "namespace": "none"}}


def files(held: Mapping[str, str], *more: Obj) -> dict[str, str]:
    """The files of a commit: what each unit has; `more` is in unit three."""
    return {
        f"{name}/a.yaml": documents(
            config_map(f"base-{name}", a="b"),
            config_map(held[name], a="b"),
            *(more if name == "three" else ()),
        )
        for name in NAMES
    }


async def planned(stage: Stage, config: Config, old: str, new: str) -> PlanReport:
    catalog, gates = stage.world.catalog, Gates()
    base = read_base(stage.repository, old, config, config, catalog, gates)
    target = as_taken(base, read_side(stage.repository, new, config, catalog, gates))
    preview = await live_preview(
        base, target, catalog, gates, transport=stage.wire, now=stage.clock.now()
    )
    return report_of(preview, base, target, cluster="test")


def moved(report: PlanReport) -> list[str]:
    texts = [span.text for span in report.blast if " moves from unit " in span.text]
    return [text.removeprefix("1 object moves from unit shop/") for text in texts]


@pytest.mark.slow
def test_no_object_moves_from_or_to_a_unit_that_rejects_the_commit(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Three objects move on among three units, and the commit that mends the last one."""
    stage = staged()
    program = options(stage, tmp_path, SOURCE + "".join(map(unit, NAMES)))
    config = program.config

    def owners() -> dict[str, str]:
        found = {name: stage.get("ConfigMap", name)["metadata"] for name in "abc"}
        return {n: m["annotations"]["gitkruise.io/unit-ref"] for n, m in found.items()}

    async def script() -> None:
        old = stage.origin.commit(files(RING))
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(30)
            held = {"one": "c", "two": "a", "three": "b"}
            new = stage.origin.commit(files(held, LOST))
            report = await planned(stage, config, old, new)
            assert moved(report) == ["one to unit shop/two"]
            assert [f.message for f in report.findings if f.code == "GK2402"] == [
                "ConfigMap shop/c belongs to unit shop/three, which rejects this commit"
            ]
            await stage.rest(60)
            assert owners() == {"a": "shop/two", "b": "shop/two", "c": "shop/three"}
            mended = stage.origin.commit(files(held))
            report = await planned(stage, config, new, mended)
            assert moved(report) == ["three to unit shop/one", "two to unit shop/three"]
            await stage.rest(60)
            assert owners() == {"a": "shop/two", "b": "shop/three", "c": "shop/one"}

    stage.play(script)


@pytest.mark.slow
def test_a_move_names_what_keeps_the_new_unit_from_it(staged: MakeStage, tmp_path: Path) -> None:
    """Also where nothing of the object changes."""
    stage = staged()
    before = options(stage, tmp_path, SOURCE + unit("one") + unit("two"))
    after = options(stage, tmp_path, SOURCE + unit("one") + unit("two", ", suspend: true")).config
    thing = config_map("thing", a="b")

    async def script() -> None:
        one, two = documents(config_map("one", a="b")), documents(config_map("two", a="b"))
        old = stage.origin.commit({"one/a.yaml": one, "two/a.yaml": two,
                                   "one/b.yaml": documents(thing)})  # fmt: skip
        async with controller(before, stage.wire, stage.clock):
            await stage.rest(30)
        new = stage.origin.commit({"one/b.yaml": None, "two/b.yaml": documents(thing)})
        report = await planned(stage, after, old, new)
        assert moved(report) == ["one to unit shop/two"]
        suspended = "unit shop/two is suspended: it applies nothing meanwhile"
        assert suspended in [span.text for span in report.blast]

    stage.play(script)


def test_files_of_a_unit_that_leaves_are_files_of_a_unit(staged: MakeStage) -> None:
    """A unit gets another name and another path by one commit."""
    stage = staged()
    url, thing = str(stage.origin.bare), documents(config_map("thing", a="b"))

    def config(name: str) -> str:
        return (SOURCE + unit(name)).format(url=url)

    old = stage.origin.commit({"gitkruise.yaml": config("one"), "one/a.yaml": thing})
    new = stage.origin.commit(
        {"gitkruise.yaml": config("two"), "one/a.yaml": None, "two/a.yaml": thing}
    )
    _, target = read_sides(
        stage.repository, (old, new), config_at(stage.repository, new), stage.world.catalog,
        Gates(), given=None,
    )  # fmt: skip
    assert target.outside == ()


def test_of_an_object_in_two_units_no_plan_says_that_it_moves() -> None:
    """The unit that keeps it may own it already."""
    one, two = (Unit("shop", name, UnitSpec(source_ref=reference("src"))) for name in "ab")
    key = ObjectKey("", "ConfigMap", "shop", "web")
    commit = GitCommit(id="c" * 40)
    preview = Preview(changes=(), forecast=None, live=False, inventory={key: one.id})
    shared = PlanSide(commit=commit, objects=(), units={key: one}, shared={key: (one.id, two.id)})
    target = PlanSide(commit=commit, objects=(), units={key: two})
    assert moves(preview, shared, target) == {}
    alone = PlanSide(commit=commit, objects=(), units={key: one})
    assert moves(preview, alone, target) == {(one.id, two.id): 1}
