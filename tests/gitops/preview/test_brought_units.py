"""Plans of commits that bring, change or remove Units: they equal what a sync does."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.cli.context.commit_plan import read_sides
from gitkruise.gitops.config.cluster_units import cluster_config
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.gitops.workers.jobs import plan_text
from gitkruise.model.gitops.report import PlanReport
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.gitops.objects import GROUP, VERSION, House, play
from tests.gitops.stage import config_map

pytestmark = pytest.mark.slow
ONE, TWO, THING, NEW = (config_map(name, a="b") for name in ("one", "two", "thing", "new"))
BROKEN: Final[Obj] = {**NEW, "data": ["no", "mapping"]}


def unit(name: str, **spec: Any) -> Obj:
    wanted = {"sourceRef": {"name": "src"}, "path": name, **spec}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Unit", "metadata": meta, "spec": wanted}


# what a commit does: (its Units, the objects of each folder), and the plan
ROWS: dict[str, tuple[list[Obj], dict[str, list[Obj]], list[str], str]] = {
    "a split": (
        [unit("one"), unit("two"), unit("new")],
        {"one": [ONE], "two": [TWO], "new": [NEW, THING]},
        ["create configmap/new", "create unit/new"],
        "1 object moves from unit shop/one to unit shop/new",
    ),
    "a merge": (
        [unit("two")], {"one": [], "two": [TWO, ONE, THING]}, ["prune unit/one"],
        "2 objects move from unit shop/one to unit shop/two",
    ),
    "another name and path": (
        [unit("new"), unit("two")], {"one": [], "two": [TWO], "new": [ONE, THING]},
        ["create unit/new", "prune unit/one"],
        "2 objects move from unit shop/one to unit shop/new",
    ),
    "a unit that ends": (
        [unit("two")], {"one": [], "two": [TWO]},
        ["prune configmap/one", "prune configmap/thing", "prune unit/one"], "",
    ),
    "another path": (
        [unit("one", path="new"), unit("two")], {"one": [], "two": [TWO], "new": [ONE, NEW]},
        ["configure unit/one", "create configmap/new", "prune configmap/thing"], "",
    ),
    "a new unit that is rejected": (
        [unit("one"), unit("two"), unit("new")],
        {"one": [ONE, THING], "two": [TWO], "new": [BROKEN]}, ["create unit/new"], "",
    ),
}  # fmt: skip


async def begin(house: House) -> str:
    """Unit `units` brings units `one` and `two`; return the commit."""
    commit = house.push(units=[unit("one"), unit("two")], one=[ONE, THING], two=[TWO])
    await house.source()
    await house.unit("units")
    await house.rest(60)
    return commit


async def planned(house: House, old: str, new: str) -> PlanReport:
    """Return the plan from the Units of the cluster."""
    stage, gates = house.stage, Gates()
    catalog = stage.world.catalog
    config = await cluster_config(house.hands, catalog, [str(stage.origin.bare)], "test")
    assert config is not None
    ends = (old, new)
    base, target = read_sides(stage.repository, ends, config, catalog, gates, given=config)
    now = stage.clock.now()
    preview = await live_preview(base, target, catalog, gates, transport=house.hands, now=now)
    return report_of(preview, base, target, cluster="test")


def changes_of(report: PlanReport) -> list[str]:
    """The changes by kind and object."""
    return sorted(f"{e.kind} {e.keys[0].kind.lower()}/{e.keys[0].name}" for e in report.entries)


def there(house: House) -> set[str]:
    """The objects that units manage, as a plan names them."""
    kinds = {("", "ConfigMap"), (GROUP, "Unit")}
    found = (house.stage.world.objects(GroupKind(*kind), "shop") for kind in kinds)
    return {f"{o['kind'].lower()}/{o['metadata']['name']}" for some in found for o in some}


@pytest.mark.parametrize("name", ROWS)
def test_the_plan_of_units_in_git_is_what_a_sync_does(hands: House, name: str) -> None:
    units, folders, changes, move = ROWS[name]

    async def script(house: House) -> None:
        old = await begin(house)
        before = there(house)
        new = house.push(units=units, **folders)
        report = await planned(house, old, new)
        assert changes_of(report) == changes
        moves = [span.text for span in report.blast if "move" in span.text]
        assert moves == ([move] if move else [])
        await house.rest(120)
        done = {f"create {one}" for one in there(house) - before}
        done |= {f"prune {one}" for one in before - there(house)}
        assert done == {one for one in changes if not one.startswith("configure")}

    play(hands, script)


def test_a_suspended_unit_is_planned_as_resumed_and_does_nothing_before(hands: House) -> None:
    units, folders, changes, _ = ROWS["a split"]

    async def script(house: House) -> None:
        old = await begin(house)
        await house.unit("units", suspend=True)
        await house.rest(10)
        before = there(house)
        new = house.push(units=units, **folders)
        report = await planned(house, old, new)
        assert changes_of(report) == changes
        assert any("shop/units is suspended" in span.text for span in report.blast)
        await house.rest(120)
        assert there(house) == before
        await house.unit("units", suspend=False)
        await house.rest(120)
        assert there(house) - before == {"configmap/new", "unit/new"}

    play(hands, script)


def test_a_pull_request_is_planned_by_the_units_that_it_brings(hands: House) -> None:
    units, folders, _, move = ROWS["a split"]

    async def script(house: House) -> None:
        base = await begin(house)
        stage, catalog = house.stage, house.stage.world.catalog
        config = await cluster_config(house.hands, catalog, [str(stage.origin.bare)], "test")
        assert config is not None
        head = house.push(units=units, **folders)
        rules = (config, catalog, Gates(), None)
        found = plan_text(stage.repository, *rules, base=base, head=head)
        assert move in found.plan
        assert found.units == ("shop/new", "shop/units")

    play(hands, script)
