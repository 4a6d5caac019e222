"""A plan is of the units that take a commit, also when another one rejects it."""

from __future__ import annotations

from typing import Final

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import Checkout, cloneset
from tests.gitops.programs import SOURCE, unit

TWO_UNITS: Final = (SOURCE + unit("one") + unit("two")).format(url=".")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"one/c.yaml": "kind: [\n"}, "GK1101"), ({"one/c.yaml": "# nothing\n"}, "GK2301")],
)
def test_units_that_take_a_commit_are_planned_when_another_one_rejects_it(
    gk: Caller, checkout: Checkout, wrong: dict[str, str | None], code: str
) -> None:
    files = {f"{name}/c.yaml": cloneset(name=name) for name in ("one", "two")}
    checkout.commit("both", {"gitkruise.yaml": TWO_UNITS, **files})
    checkout.commit("bad", {"two/c.yaml": cloneset("v2", name="two"), **wrong})
    ended = gk("plan", "--offline", "-o", "json", cwd=checkout.folder)
    (change,) = ended.obj["changes"]
    assert (ended.code, change["name"]) == (3, "two")
    (error,) = [f for f in ended.obj["findings"] if f["severity"] == "error"]
    notes = {note["label"]: note["text"] for note in error["notes"]}
    kept = "unit shop/one would keep what is live; the plan is of the other units"
    assert (error["code"], notes["unchanged"]) == (code, kept)
    checkout.commit("next", {"two/c.yaml": cloneset("v3", name="two")})
    ended = gk("plan", "--offline", "-o", "json", cwd=checkout.folder)
    assert (ended.code, [c["name"] for c in ended.obj["changes"]]) == (0, ["two"])
    assert [f["code"] for f in ended.obj["findings"]] == ["GK2108"]
    checkout.commit("mended", {"one/c.yaml": cloneset("v2", name="one")})
    ended = gk("plan", "--offline", "-o", "json", cwd=checkout.folder)
    assert (ended.code, [c["change"] for c in ended.obj["changes"]]) == (0, ["configure"])


def test_a_unit_whose_object_is_refused_applies_nothing_of_the_commit(
    gk: Caller, checkout: Checkout
) -> None:
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {x: '1'}\n"
    files = {f"{name}/c.yaml": cloneset(name=name, policy="InPlaceOnly") for name in ("one", "two")}
    more = {"one/m.yaml": config_map, "two/m.yaml": config_map.replace("more", "other")}
    checkout.commit("both", {"gitkruise.yaml": TWO_UNITS, **files, **more})
    changed = {name: text.replace("'1'", "'2'") for name, text in more.items()}
    bad = cloneset(name="one", policy="InPlaceOnly", level="debug")
    checkout.commit("bad", {"one/c.yaml": bad, **changed})
    ended = gk("plan", "--offline", "-o", "json", cwd=checkout.folder)
    codes = {change["name"]: change["rejected"] for change in ended.obj["changes"]}
    assert (ended.code, codes) == (3, {"one": "GK2104", "more": "GK2104", "other": ""})
    (error,) = [f for f in ended.obj["findings"] if f["severity"] == "error"]
    assert {note["label"] for note in error["notes"]} >= {"unchanged", "next"}


def test_what_leaves_a_unit_waits_for_units_that_reject_the_commit(
    gk: Caller, checkout: Checkout
) -> None:
    """The object may have moved to a unit that cannot be read."""
    files = {f"{name}/c.yaml": cloneset(name=name) for name in ("one", "two")}
    checkout.commit("both", {"gitkruise.yaml": TWO_UNITS, **files, "two/d.yaml": cloneset()})
    checkout.commit("bad", {"one/c.yaml": "kind: [\n", "two/d.yaml": None})
    ended = gk("plan", "--offline", "-o", "json", cwd=checkout.folder)
    line = "deletions of unit shop/two WAIT until a commit suits shop/one as well"
    assert (ended.code, ended.obj["blast"][0]) == (3, line)
