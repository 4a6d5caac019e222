"""Drift: attributed, ignored and corrected fields."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.sync_round import Fight, IgnoreRule, Live, SyncPlan, SyncSnapshot
from gitkruise.planner.sync.drift import pointer
from gitkruise.planner.sync.field_owners import field_owners
from gitkruise.planner.sync.plan import apply_ignores
from gitkruise.wire.primitives.names import Obj
from tests.planner.sync.build import applied, desired, key, planned, snapshot, thing
from tests.worlds import START

PAIR = thing("pair", data={"a": "1", "b": "1"})
APP: Obj = {"spec": {"containers": [{"name": "app", "image": "x", "args": ["-v"],
            "ports": [{"containerPort": 80}]}], "tags": ["one"]}}  # fmt: skip


def entry(manager: str, fields: Any, time: str = "2026-11-21T10:00:00Z") -> Obj:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


IMAGE: Obj = {"f:spec": {"f:containers": {'k:{"name":"app"}': {".": {}, "f:image": {}}}}}
PORT: Obj = {"f:spec": {"f:containers": {'k:{"name":"app"}': {"f:ports": {
    'k:{"containerPort":80,"protocol":"TCP"}': {"f:containerPort": {}}}}}}}  # fmt: skip
ARGS: Obj = {"f:spec": {"f:containers": {'k:{"name":"app"}': {"f:args": {}}}}}
TAGS: Obj = {"f:spec": {"f:tags": {'v:"one"': {}}}}
OWNERS: list[tuple[str, Any, tuple[str | int, ...], bool]] = [
    ("a keyed item's field", IMAGE, ("spec", "containers", 0, "image"), True),
    ("another field of it", IMAGE, ("spec", "containers", 0, "args"), False),
    ("a key git leaves to its default", PORT,
     ("spec", "containers", 0, "ports", 0, "containerPort"), True),
    ("inside an atomic list", ARGS, ("spec", "containers", 0, "args", 0), True),
    ("a set's item", TAGS, ("spec", "tags", 0), True),
    ("a whole map", IMAGE, ("spec", "containers"), True),
    ("nothing at all", {}, ("spec", "tags"), True),
    ("no set", None, ("spec",), False),
]  # fmt: skip


@pytest.mark.parametrize("row", OWNERS, ids=[row[0] for row in OWNERS])
def test_owners(row: tuple[str, Any, tuple[str | int, ...], bool]) -> None:
    _, fields, path, owned = row
    found = field_owners([entry("kubectl-edit", fields)], APP, path)
    assert [owner.manager for owner in found] == (["kubectl-edit"] if owned else [])


def test_the_newest_of_several_owners_comes_first_and_we_are_none() -> None:
    entries = [
        entry("old", IMAGE, "2026-11-21T09:00:00Z"),
        entry("gitkruise", IMAGE, "2026-11-21T12:00:00Z"),
        entry("new", IMAGE, "2026-11-21T11:00:00Z"),
    ]
    found = field_owners(entries, APP, ("spec", "containers", 0, "image"))
    assert [owner.manager for owner in found] == ["new", "old"]


def drifted(manager: str = "kubectl-edit", **data: str) -> Live:
    """The pair with other data, set by `manager`."""
    live = applied(PAIR, data={"a": "1", "b": "1", **data})
    fields: Obj = {"f:data": {f"f:{name}": {} for name in data}}
    return replace(live, managed=json.dumps([entry(manager, fields)]).encode())


def plan(live: Live, *, wanted: Obj = PAIR, **more: Any) -> SyncPlan:
    return planned(snapshot([wanted], [live], **more), load_catalog())


RULES: list[tuple[str, IgnoreRule, bool]] = [
    ("path", IgnoreRule(paths=(pointer("/data/a"),)), True),
    ("path above", IgnoreRule(paths=(pointer("/data"),)), True),
    ("path next to it", IgnoreRule(paths=(pointer("/data/aa"), pointer("/data/b"))), False),
    ("path below", IgnoreRule(paths=(pointer("/data/a/x"),)), False),
    ("kind", IgnoreRule(kind="ConfigMap"), True),
    ("another kind", IgnoreRule(kind="Secret", paths=(pointer("/data/a"),)), False),
    ("name", IgnoreRule(name="pair"), True),
    ("another name", IgnoreRule(name="other"), False),
    ("manager", IgnoreRule(manager="istio-pilot"), True),
    ("another manager", IgnoreRule(manager="istio", paths=(pointer("/data/a"),)), False),
]


@pytest.mark.parametrize("row", RULES, ids=[row[0] for row in RULES])
def test_ignore_rules(row: tuple[str, IgnoreRule, bool]) -> None:
    _, rule, ignored = row
    found = plan(drifted("istio-pilot", a="2"), ignore=(rule,))
    assert found.quiet == ignored
    assert bool(found.drift) != ignored


@pytest.mark.parametrize(
    ("note", "ignored"),
    [("/data/a", True), ("/data/x, /data/a", True), ("data.x, /data/a", True), ("/data/b", False),
     ("data.b", False), ("data.b /data/b", False), (" , ", False)],
)  # fmt: skip
def test_an_object_may_say_what_to_ignore(note: str, *, ignored: bool) -> None:
    wanted = thing("pair", data={"a": "1"}, notes={"gitkruise.io/ignore": note})
    assert plan(applied(wanted, data={"a": "2"}), wanted=wanted).quiet == ignored


def test_pointers_are_unescaped() -> None:
    assert pointer("/a~1b/c~0d/~01") == ("a/b", "c~d", "~1")


def test_what_is_ignored_keeps_its_live_value_while_the_rest_is_put_back() -> None:
    rule = IgnoreRule(paths=(pointer("/data/a"),))
    found = plan(drifted(a="2", b="2"), ignore=(rule,))
    assert [f.path for change in found.drift for f in change.fields] == [("data", "b")]
    assert found.apply[0].obj["data"] == {"a": "2", "b": "1"}
    assert found.apply[0].digest == desired(PAIR).digest


def test_what_is_ignored_and_was_taken_out_is_not_brought_back() -> None:
    gone = applied(PAIR, data={"b": "2"})
    found = plan(gone, ignore=(IgnoreRule(paths=(pointer("/data/a"),)),))
    assert found.apply[0].obj["data"] == {"b": "1"}


def test_a_commit_changes_the_rest_of_an_object_with_ignored_fields() -> None:
    newer = thing("pair", data={"a": "1", "b": "3"})
    found = plan(drifted(a="2"), wanted=newer, ignore=(IgnoreRule(paths=(pointer("/data/a"),)),))
    assert found.apply[0].obj["data"] == {"a": "2", "b": "3"}
    plain = plan(drifted(a="2"), wanted=newer)
    assert plain.apply[0].obj["data"] == {"a": "1", "b": "3"}


def test_items_taken_out_of_a_list_are_taken_out_together() -> None:
    ports = [{"name": n, "port": p} for n, p in (("a", 1), ("b", 2), ("c", 3))]
    wanted = thing("svc", "Service", spec={"ports": ports})
    live = applied(wanted, spec={"ports": ports[1:2]})
    s = snapshot([wanted], [live], ignore=(IgnoreRule(paths=(pointer("/spec/ports"),)),))
    sent = apply_ignores(s.desired.objects[0], s, load_catalog(), {})
    assert sent.obj["spec"]["ports"] == ports[1:2]


def test_a_field_that_rests_waits_and_the_others_do_not() -> None:
    resting = {key(PAIR): frozenset({("data", "a")})}
    found = plan(drifted(a="2", b="2"), resting=resting)
    assert found.apply[0].obj["data"] == {"a": "2", "b": "1"}
    assert (found.standing, found.blocked) == ((), ())
    assert plan(drifted(a="2"), resting=resting).quiet


def test_a_fight_is_reported_with_who_and_how_often() -> None:
    path = ("data", "a")
    found = plan(
        drifted("hpa", a="2", b="2"),
        resting={key(PAIR): frozenset({path})},
        fought={key(PAIR): {path: Fight(5, START, START)}},
    )
    assert [f.path for f in found.standing[0].fields] == [path]
    assert found.apply[0].obj["data"] == {"a": "2", "b": "1"}  # all else is kept
    (finding,) = found.blocked
    assert (finding.code, finding.severity) == ("GK2501", "warning")
    assert "hpa changes data.a each time gitkruise puts it back, 5 times" in finding.message


def test_detected_drift_stands_whole() -> None:
    found = plan(drifted(a="2", b="2"), correct_drift=False)
    assert found.quiet
    assert found.standing == found.drift
    assert len(found.standing[0].fields) == 2


def test_snapshots_default_to_no_rules() -> None:
    s: SyncSnapshot = snapshot([PAIR], [drifted(a="2")])
    assert planned(s, load_catalog()).apply == s.desired.objects
