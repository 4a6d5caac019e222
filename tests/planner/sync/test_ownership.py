"""Which objects a unit may write, row by row: by marks, by claims, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.sync_round import Owner
from gitkruise.planner.sync.ownership import Ownership, conflict
from gitkruise.wire.primitives.names import Obj
from tests.planner.sync.build import applied, foreign, key, planned, snapshot, thing

MAP = thing("cfg", data={"a": "1"})
OTHER = "ffffffffffff"
GONE = Owner(unit="shop/one")
WANTS = Owner(unit="shop/one", wants=True)
OPEN = Owner(
    unit="shop/one", unsettled="which is suspended", next="gitkruise resume unit/one -n shop"
)
CLAIMED = frozenset({key(MAP)})


def noted(name: str, value: str) -> Obj:
    return thing("cfg", data={"a": "1"}, notes={name: value})


ROWS: list[tuple[str, str, Owner | None, dict[str, Any], str]] = [
    # what it shows, mark, the owner as known, snapshot fields, "" for a write or the message
    ("no mark", "", None, {}, ""),
    ("handed over", OTHER, GONE, {}, ""),
    ("the owner wants it", OTHER, WANTS, {}, "is in more than one unit; unit shop/one owns it"),
    ("the owner wants it, or has yet to read that it does not", OTHER, replace(OPEN, wants=True),
     {}, "belongs to unit shop/one, which is suspended"),
    ("git is not read", OTHER, OPEN, {}, "belongs to unit shop/one, which is suspended"),
    ("an unknown owner", OTHER, None, {},
     "belongs to another unit, which this gitkruise does not run"),
    ("no mark, and another wants it", "", None, {"claimed": CLAIMED}, "is in more than one unit"),
    ("handed over, and a third wants it", OTHER, GONE, {"claimed": CLAIMED},
     "is in more than one unit; unit shop/one owns it"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_rows(row: tuple[str, str, Owner | None, dict[str, Any], str]) -> None:
    _, mark, owner, more, message = row
    owners = {key(MAP): owner} if owner is not None else {}
    gone = applied(thing("gone"))  # nothing is deleted while something is withheld
    found = planned(
        snapshot([MAP], [foreign(MAP, mark), gone], owners=owners, **more), load_catalog()
    )
    assert [d.key for d in found.apply] == ([] if message else [key(MAP)])
    assert (found.prune, found.replace, found.drift) == ((), (), ())
    assert [f.message for f in found.blocked] == ([f"{key(MAP)} {message}"] if message else [])
    assert tuple(found.withheld) == ((key(MAP),) if message else ())
    assert found.all_done is False
    for finding in found.blocked:
        notes = dict(finding.notes)
        assert (finding.code, notes["unchanged"]) == ("GK2402", f"the live {key(MAP)}")
        assert notes["next"]


def test_what_an_unknown_owner_deletes_is_waited_for() -> None:
    """Nobody can hand it over or take its mark off in time; it is created when it is gone."""
    there = foreign(MAP, OTHER)
    meta = {**there.obj["metadata"], "deletionTimestamp": "2026-11-21T10:00:00Z"}
    ending = replace(there, obj={**there.obj, "metadata": meta})
    found = planned(replace(snapshot([MAP], []), live={key(MAP): ending}), load_catalog())
    assert (found.apply, found.blocked, found.withheld) == ((), (), {})
    assert [(one.key, one.why) for one in found.waiting] == [
        (key(MAP), "until the old one is gone")
    ]


def test_a_plan_asks_for_the_configuration_of_an_unknown_owner() -> None:
    there = foreign(MAP, OTHER).obj
    d = snapshot([MAP], []).desired.objects[0]
    found = conflict(d, there, Ownership.STRANGE, "", None, planned=True)
    assert found.message == f"{key(MAP)} belongs to another unit, which this plan does not read"
    assert "gitkruise plan --config FILE" in dict(found.notes)["next"]


def test_the_command_that_releases_an_object_is_safe_in_a_shell() -> None:
    role = thing("a; id", "ClusterRole")
    d = snapshot([role], []).desired.objects[0]
    found = conflict(d, foreign(role, OTHER).obj, Ownership.STRANGE, "", None)
    assert "kubectl label clusterrole 'a; id' -n shop" in dict(found.notes)["or"]


@pytest.mark.parametrize("newer", [False, True])
def test_an_owner_whose_newest_commit_is_not_live_is_not_blamed(*, newer: bool) -> None:
    found = planned(snapshot([MAP], [applied(MAP)], claimed=CLAIMED, newer=newer), load_catalog())
    message = f"{key(MAP)} is in more than one unit; this unit owns it"
    assert [f.message for f in found.blocked] == ([] if newer else [message])
    assert (found.apply, found.withheld, found.all_done) == ((), {}, True)  # it is as git says


ALONE = [("gitkruise.io/reconcile", "Disabled"), ("gitkruise.io/apply", "IfNotPresent")]


@pytest.mark.parametrize(("name", "value"), ALONE)
def test_what_the_unit_would_not_write_is_no_conflict(name: str, value: str) -> None:
    found = planned(snapshot([noted(name, value)], [foreign(MAP, OTHER)]), load_catalog())
    assert (found.apply, found.blocked, found.withheld) == ((), (), {})


def test_a_hook_of_another_unit_is_not_replaced() -> None:
    job = {**thing("cfg", "Job"), "apiVersion": "batch/v1"}
    s = snapshot([job, MAP], [foreign(job, OTHER)])
    hook, rest = s.desired.objects
    objects = (replace(hook, hook="pre-apply"), rest)
    found = planned(replace(s, desired=replace(s.desired, objects=objects)), load_catalog())
    assert not found.replace
    assert [f.code for f in found.blocked] == ["GK2402"]
