"""Order, gates, drift and what is left alone, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.sync_round import SyncPlan, SyncSnapshot
from gitkruise.planner.sync.apply_order import stage_of, wave_of
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.planner.sync.build import applied, desired, foreign, key, planned, snapshot, thing

SPACE, MAP, WEB, ROAD = (
    thing("shop", "Namespace"), thing("cfg", data={"a": "1"}),
    thing("web", "CloneSet", spec={"replicas": 2}), thing("road", "Ingress", spec={}),
)  # fmt: skip
ALL = [ROAD, WEB, MAP, SPACE]


def wave(number: int, obj: Obj, alias: str = "gitkruise.io/wave") -> Obj:
    notes = {alias: str(number)}
    return {**obj, "metadata": {**obj["metadata"], "annotations": notes}}


def noted(obj: Obj, name: str, value: str) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "annotations": {name: value}}}


EARLY, LATE = wave(-1, thing("early")), wave(2, thing("late"))
AFTER_WEB = noted(
    thing("after"), "gitkruise.io/depends-on", "apps.kruise.io/namespaces/shop/CloneSet/web"
)
WEB_BEFORE = {**WEB, "spec": {"replicas": 1}}
ROWS: list[tuple[str, SyncSnapshot, list[str], list[str]]] = [
    # what it shows, snapshot, names applied now, names that wait
    ("foundations first", snapshot(ALL, []), ["shop"], ["cfg", "web", "road"]),
    ("then configuration", snapshot(ALL, [applied(SPACE)]), ["cfg"], ["web", "road"]),
    ("then workloads", snapshot(ALL, [applied(SPACE), applied(MAP)]), ["web"], ["road"]),
    (
        "a stage needs no readiness",
        snapshot(ALL, [applied(SPACE), applied(MAP), applied(WEB, ready=False)]),
        ["road"],
        [],
    ),
    (
        "foundations need it",
        snapshot(ALL, [applied(SPACE, ready=False, why="Terminating")]),
        [],
        ["shop", "cfg", "web", "road"],
    ),
    ("a wave below none", snapshot([MAP, EARLY], []), ["early"], ["cfg"]),
    (
        "a wave waits for readiness",
        snapshot([WEB, LATE], [applied(WEB, ready=False, why="1 of 2")]),
        [],
        ["web", "late"],
    ),
    (
        "held is ready",
        snapshot([WEB, LATE], [applied(WEB, ready=True, why="held by partition")]),
        ["late"],
        [],
    ),
    (
        "waves of another tool",
        snapshot([MAP, wave(-1, thing("early"), "argocd.argoproj.io/sync-wave")], []),
        ["early"],
        ["cfg"],
    ),
    (
        "an object waits for one that it names, and blocks no other",
        snapshot([AFTER_WEB, MAP, WEB], [applied(MAP), applied(WEB, ready=False, why="1 of 2")]),
        [],
        ["after", "web"],
    ),
    (
        "for one that is out of date, too",
        snapshot([AFTER_WEB, MAP, WEB], [applied(MAP), applied(WEB_BEFORE)]),
        ["web"],
        ["after"],
    ),
    (
        "held is ready for it",
        snapshot([AFTER_WEB, WEB], [applied(WEB, why="held by partition")]),
        ["after"],
        [],
    ),
    ("all as asked", snapshot([MAP, WEB], [applied(MAP), applied(WEB)]), [], []),
    ("other content", snapshot([thing("cfg", data={"a": "2"})], [applied(MAP)]), ["cfg"], []),
    ("not ours yet", snapshot([MAP], [foreign(MAP)]), ["cfg"], []),
    (
        "refused as it is",
        snapshot([MAP, WEB], [], refused={key(MAP): desired(MAP).digest}),
        [],
        ["cfg", "web"],
    ),
    ("refused, then changed", snapshot([MAP], [], refused={key(MAP): "sha256:old"}), ["cfg"], []),
    (
        "wanted twice",
        snapshot([MAP], [applied(MAP, data={"a": "x"})], claimed=frozenset({key(MAP)})),
        [],
        [],
    ),
    ("drift", snapshot([MAP], [applied(MAP, data={"a": "x"})]), ["cfg"], []),
    (
        "drift, only reported",
        snapshot([MAP], [applied(MAP, data={"a": "x"})], correct_drift=False),
        [],
        [],
    ),
    (
        "drift, whose correction was refused",
        snapshot([MAP], [applied(MAP, data={"a": "x"})], refused={key(MAP): desired(MAP).digest}),
        [],
        ["cfg"],
    ),
    (
        "drift, corrected just now",
        snapshot(
            [MAP], [applied(MAP, data={"a": "x"})], resting={key(MAP): frozenset({("data", "a")})}
        ),
        [],
        [],
    ),
    (
        "the server's own form",
        snapshot(
            [MAP], [applied(MAP, data={"a": "x"})], settled={key(MAP): frozenset({("data", "a")})}
        ),
        [],
        [],
    ),
    ("extra keys are others'", snapshot([MAP], [applied(MAP, data={"a": "1", "b": "2"})]), [], []),
    (
        "drift waits for no wave",
        snapshot([WEB, LATE, MAP], [applied(WEB, ready=False), applied(MAP, data={})]),
        ["cfg"],
        ["web", "late"],
    ),
]
LEFT_ALONE = [
    ("gitkruise.io/reconcile", "Disabled"),
    ("kustomize.toolkit.fluxcd.io/reconcile", "disabled"),
    ("argocd.argoproj.io/skip-reconcile", "true"),
    ("configmanagement.gke.io/managed", "disabled"),
]


def plan(s: SyncSnapshot) -> SyncPlan:
    return planned(s, load_catalog())


@pytest.mark.parametrize(("name", "s", "now", "waits"), ROWS, ids=[row[0] for row in ROWS])
def test_rows(name: str, s: SyncSnapshot, now: list[str], waits: list[str]) -> None:
    del name
    found = plan(s)
    assert [d.key.name for d in found.apply] == now
    assert [w.key.name for w in found.waiting] == waits
    assert not found.prune


@pytest.mark.parametrize(("name", "value"), LEFT_ALONE)
@pytest.mark.parametrize("where", ["git", "cluster"])
def test_what_somebody_set_aside_is_not_touched_and_not_waited_for(
    name: str, value: str, where: str
) -> None:
    aside = noted(WEB, name, value)
    live = applied(aside, ready=False, spec={"replicas": 9})
    found = plan(snapshot([aside if where == "git" else WEB, LATE], [live]))
    assert [d.key.name for d in found.apply] == ["late"]
    assert not found.drift
    other = noted(WEB, name, "other")
    assert plan(snapshot([other], [applied(WEB)])).apply


@pytest.mark.parametrize("note", ["reconcile", "hold"])
def test_a_hook_that_was_set_aside_does_not_run(note: str) -> None:
    job = {**thing("before", "Job"), "apiVersion": "batch/v1"}
    aside = noted(job, "gitkruise.io/reconcile", "Disabled") if note == "reconcile" else job
    s = snapshot([aside, MAP], [], held=frozenset({key(job)} if note == "hold" else ()))
    hook, rest = s.desired.objects
    objects = (replace(hook, hook="pre-apply"), rest)
    found = plan(replace(s, desired=replace(s.desired, objects=objects)))
    assert [d.key.name for d in found.apply] == ["cfg"]


def test_both_units_report_an_object_they_share() -> None:
    found = plan(snapshot([MAP], [], claimed=frozenset({key(MAP)})))
    assert [f.code for f in found.blocked] == ["GK2402"]


def test_memory_of_comparisons_changes_nothing() -> None:
    memo: Any = {}
    drifted = snapshot([MAP], [applied(MAP, data={"a": "x"})])
    first = planned(drifted, load_catalog(), memo)
    assert planned(drifted, load_catalog(), memo) == first == plan(drifted)
    healed = snapshot([MAP], [applied(MAP)])
    assert planned(healed, load_catalog(), memo).quiet


def test_a_wave_is_an_integer() -> None:
    with pytest.raises(ValueError, match="soon"):
        wave_of(noted(MAP, "gitkruise.io/wave", "soon"))


def test_what_new_pods_depend_on_comes_before_workloads() -> None:
    pods = (GroupKind("apps.kruise.io", "CloneSet"), GroupKind("apps", "Deployment"))
    for kind in ("SidecarSet", "WorkloadSpread"):
        assert all(stage_of(GroupKind("apps.kruise.io", kind)) < stage_of(one) for one in pods)


def test_roles_come_before_their_bindings() -> None:
    group = "rbac.authorization.k8s.io"
    assert stage_of(GroupKind(group, "Role")) < stage_of(GroupKind(group, "RoleBinding"))
