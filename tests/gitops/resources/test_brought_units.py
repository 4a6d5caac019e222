"""A commit that brings a Unit and moves objects to it: they wait for the unit, and none is
deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.names import Obj
from tests.gitops.objects import GROUP, VERSION, House, play
from tests.gitops.stage import config_map, web

pytestmark = pytest.mark.slow
ONE, TWO, THING = (config_map(name, a="b") for name in ("one", "two", "thing"))


def unit(name: str, **spec: Any) -> Obj:
    wanted = {"sourceRef": {"name": "src"}, "path": name, **spec}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Unit", "metadata": meta, "spec": wanted}


async def begin(house: House) -> str:
    """Unit `units` brings unit `one`, which has two objects; return the uid of the one to move."""
    house.push(units=[unit("one")], one=[ONE, THING])
    await house.source()
    await house.unit("units")
    await house.rest(60)
    return str(house.stage.get("ConfigMap", "thing")["metadata"]["uid"])


@pytest.mark.parametrize("more", [{}, {"suspend": True}], ids=["runs", "suspended"])
def test_an_object_moves_to_a_unit_of_the_same_commit(hands: House, more: dict[str, bool]) -> None:
    async def script(house: House) -> None:
        uid = await begin(house)
        house.push(units=[unit("one"), unit("two", **more)], one=[ONE], two=[TWO, THING])
        await house.rest(60)
        found = house.stage.get("ConfigMap", "thing")["metadata"]
        owner = found["annotations"]["gitkruise.io/unit-ref"]
        assert (found["uid"], owner) == (uid, "shop/one" if more else "shop/two")
        assert house.says("Unit", "one")[0] == "True"

    play(hands, script)


def test_a_unit_that_does_not_begin_is_named(hands: House) -> None:
    """The commit that mends it ends the wait."""
    lost, records = {"sinkRef": {"name": "nowhere"}}, dict[str, UnitRecord]()
    program = replace(hands.program(), listeners=(lambda r: records.update({r.unit: r}),))

    async def script(house: House) -> None:
        uid = await begin(house)
        house.push(units=[unit("one"), unit("two", **lost)], one=[ONE], two=[TWO, THING])
        await house.rest(60)
        found = house.stage.get("ConfigMap", "thing")["metadata"]
        assert found["uid"] == uid
        (finding,) = records["shop/one"].findings
        assert finding.message.endswith("unit shop/two is in git and does not run yet")
        house.push(units=[unit("one")])
        await house.rest(60)
        assert house.has("thing", "one") == [False, True]

    play(hands, script, program)


def test_a_unit_that_is_renamed_ends_when_the_new_one_runs(hands: House) -> None:
    """Its objects are of another source than the Units."""
    prune = {"deletionPolicy": "Delete"}

    async def script(house: House) -> None:
        house.push(units=[unit("one", prune=prune), unit("two")], one=[ONE, THING], two=[TWO])
        await house.source()
        await house.source("fleet")
        await house.unit("units", sourceRef={"name": "fleet"})
        await house.rest(60)
        uid = house.stage.get("ConfigMap", "thing")["metadata"]["uid"]
        lost = unit("new", path="one", sinkRef={"name": "nowhere"})
        house.push(units=[lost, unit("two")])
        await house.rest(120)
        assert house.has("thing", "one") == [True, True]
        house.push(units=[unit("new", path="one"), unit("two")])
        await house.rest(120)
        found = house.stage.get("ConfigMap", "thing")["metadata"]
        owner = found["annotations"]["gitkruise.io/unit-ref"]
        assert (found["uid"], owner) == (uid, "shop/new")
        assert house.get("Unit", "one") is None

    play(hands, script)


def test_a_unit_that_is_deleted_by_hand_ends_and_begins_again(hands: House) -> None:
    prune = {"deletionPolicy": "Delete"}

    async def script(house: House) -> None:
        house.push(units=[unit("one", prune=prune)], one=[ONE, THING])
        await house.source()
        await house.unit("units")
        await house.rest(60)
        uids = [house.get("Unit", "one"), house.stage.get("ConfigMap", "thing")]
        await house.ask("delete", "Unit", "one")
        await house.rest(120)
        found = [house.get("Unit", "one"), house.stage.get("ConfigMap", "thing")]
        before, after = ([one["metadata"]["uid"] for one in some] for some in (uids, found))
        assert not set(before) & set(after)
        assert house.says("Unit", "one")[0] == "True"

    play(hands, script)


@pytest.mark.parametrize("kept", [False, True], ids=["goes", "kept"])
def test_a_unit_that_git_renamed_is_stuck_only_where_the_old_one_is_kept(
    hands: House, *, kept: bool
) -> None:
    """The objects of the unit that has both are not ready for a while, so the old one stays."""
    records: list[UnitRecord] = []
    program = replace(hands.program(), listeners=(records.append,))
    old = unit("one")
    note = {"annotations": {"gitkruise.io/prune": "Disabled"}} if kept else {}
    old = {**old, "metadata": {**old["metadata"], **note}}

    async def script(house: House) -> None:
        house.push(units=[old], one=[THING])
        await house.source()
        await house.unit("units")
        await house.rest(60)
        records.clear()
        house.push(units=[unit("new", path="one"), web("app:v1")], one=[THING])
        await house.rest(120)
        owner = house.stage.get("ConfigMap", "thing")["metadata"]["annotations"]
        assert owner["gitkruise.io/unit-ref"] == ("shop/one" if kept else "shop/new")

    play(hands, script, program)
    stuck = {(one.unit, str(f.message)) for one in records for f in one.findings if f.is_error}
    words = "belongs to unit shop/one, which git no longer contains"
    assert stuck == ({("shop/new", f"ConfigMap shop/thing {words}")} if kept else set())
    waits = {o.message for one in records if one.unit == "shop/new" for o in one.objects}
    assert f"not applied: it {words}" in waits
    assert ("Stuck" in {str(one.state) for one in records}) is kept
