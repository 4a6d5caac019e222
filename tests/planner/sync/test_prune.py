"""Deleting is the last thing that happens, and every guard alone prevents it."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.kube.data import load_catalog
from gitkruise.model.change import Live, PruneRules
from gitkruise.planner.sync.plan import plan_sync
from gitkruise.wire.names import Obj
from tests.planner.sync.build import LABEL, applied, desired, foreign, key, snapshot, thing

KEEP, GONE = thing("keep"), thing("gone")
BOTH = [applied(KEEP), applied(GONE)]


def noted(name: str, value: str) -> Live:
    notes = {name: value}
    return applied({**GONE, "metadata": {**GONE["metadata"], "annotations": notes}})


def labelled(name: str, value: str) -> Live:
    live = applied(GONE)
    meta = live.obj["metadata"]
    return applied(GONE, metadata={**meta, "labels": {**meta["labels"], name: value}})


def terminating() -> Live:
    meta = {**applied(GONE).obj["metadata"], "deletionTimestamp": "2026-11-21T10:00:00Z"}
    return applied(GONE, metadata=meta)


def test_what_git_no_longer_names_is_deleted() -> None:
    plan = plan_sync(snapshot([KEEP], BOTH), load_catalog())
    assert plan.prune == (key(GONE),)
    assert not plan.blocked


ROWS: list[tuple[str, list[Obj], list[Live], dict[str, Any], str]] = [
    # guard, git, live, snapshot fields, code told
    ("nothing left in git", [], BOTH, {}, "GK2301"),
    ("inventory not complete", [KEEP], BOTH, {"inventory_complete": False}, ""),
    ("switched off", [KEEP], BOTH, {"prune": PruneRules(enabled=False)}, ""),
    ("not in the inventory", [KEEP], BOTH, {"inventory": [KEEP]}, ""),
    ("gone already", [KEEP], [applied(KEEP)], {"inventory": [KEEP, GONE]}, ""),
    ("being deleted", [KEEP], [applied(KEEP), terminating()], {}, ""),
    ("no label any more", [KEEP], [applied(KEEP), foreign(GONE)], {}, ""),
    ("another unit's label", [KEEP], [applied(KEEP), foreign(GONE, "ffffffffffff")], {}, ""),
    ("another unit wants it", [KEEP], BOTH, {"claimed": frozenset({key(GONE)})}, ""),
    ("something is not ready", [KEEP], [applied(KEEP, ready=False), applied(GONE)], {}, ""),
    ("something is outdated", [thing("keep", data={"a": "b"})], BOTH, {}, ""),
    (
        "something was refused",
        [thing("keep", data={"a": "b"})],
        BOTH,
        {"refused": {key(KEEP): desired(thing("keep", data={"a": "b"})).digest}},
        "",
    ),
    (
        "something drifted",
        [KEEP, thing("d", data={"a": "b"})],
        [*BOTH, applied(thing("d", data={"a": "b"}), data={})],
        {},
        "",
    ),
    (
        "prune: Disabled",
        [KEEP],
        [applied(KEEP), noted("gitkruise.io/prune", "Disabled")],
        {},
        "GK2302",
    ),
    (
        "prune: Confirm",
        [KEEP],
        [applied(KEEP), noted("gitkruise.io/prune", "Confirm")],
        {},
        "GK2302",
    ),
    (
        "Flux",
        [KEEP],
        [applied(KEEP), noted("kustomize.toolkit.fluxcd.io/prune", "disabled")],
        {},
        "GK2302",
    ),
    (
        "Argo",
        [KEEP],
        [applied(KEEP), noted("argocd.argoproj.io/sync-options", "Validate=true, Prune=false")],
        {},
        "GK2302",
    ),
    (
        "cli-utils",
        [KEEP],
        [applied(KEEP), noted("client.lifecycle.config.k8s.io/deletion", "detach")],
        {},
        "GK2302",
    ),
    (
        "OpenKruise",
        [KEEP],
        [applied(KEEP), labelled("policy.kruise.io/delete-protection", "Always")],
        {},
        "GK2302",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_guard_alone_prevents_it(
    row: tuple[str, list[Obj], list[Live], dict[str, Any], str],
) -> None:
    _, wanted, live, more, code = row
    plan = plan_sync(snapshot(wanted, live, **more), load_catalog())
    assert not plan.prune
    assert [f.code for f in plan.blocked] == ([code] if code else [])


@pytest.mark.parametrize("kind", ["Namespace", "PersistentVolumeClaim"])
def test_what_holds_data_is_never_deleted(kind: str) -> None:
    plan = plan_sync(snapshot([KEEP], [applied(KEEP), applied(thing("x", kind))]), load_catalog())
    assert not plan.prune
    assert "would delete what it holds" in plan.blocked[0].message


LIMITS = [
    # objects, of them gone, maxDelete, maxDeletePercent, deleted
    (4, 3, 10, 20, 3),  # up to three are a small change whatever the share
    (5, 4, 10, 20, 0),
    (20, 4, 10, 20, 4),
    (20, 5, 10, 20, 0),
    (100, 10, 10, 20, 10),
    (100, 11, 10, 20, 0),
    (4, 3, 2, 100, 0),
    (2, 1, 0, 100, 0),
]


@pytest.mark.parametrize(("total", "gone", "count", "percent", "deleted"), LIMITS)
def test_limits_are_all_or_nothing(
    total: int, gone: int, count: int, percent: int, deleted: int
) -> None:
    objects = [thing(f"o{n:03}") for n in range(total)]
    rules = PruneRules(max_delete=count, max_delete_percent=percent)
    plan = plan_sync(
        snapshot(objects[gone:], [applied(o) for o in objects], prune=rules), load_catalog()
    )
    assert len(plan.prune) == deleted
    assert [f.code for f in plan.blocked] == ([] if deleted else ["GK2303"])


def test_an_empty_unit_is_pruned_only_by_permission() -> None:
    rules = PruneRules(allow_empty=True)
    plan = plan_sync(snapshot([], BOTH, prune=rules), load_catalog())
    assert plan.prune == (key(GONE), key(KEEP))
    assert LABEL
