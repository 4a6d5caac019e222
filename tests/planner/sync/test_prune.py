"""Deleting is the last thing that happens, and every guard alone prevents it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gitkruise.errors import Severity
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.sync_round import Live, PruneRules
from gitkruise.planner.sync.apply_order import stage_of
from gitkruise.planner.sync.prune import lingering
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import parse_time
from tests.planner.sync.build import LABEL, applied, desired, foreign, key, planned, snapshot, thing
from tests.planner.sync.test_plan import LEFT_ALONE

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
    plan = planned(snapshot([KEEP], BOTH), load_catalog())
    assert plan.prune == (key(GONE),)
    assert not plan.blocked


def test_an_object_that_took_over_the_label_alone_is_kept() -> None:
    """As from `kubectl expose`, which copies the labels of a Deployment."""
    plan = planned(snapshot([KEEP], [applied(KEEP), foreign(GONE, LABEL)]), load_catalog())
    assert plan.prune == ()


def test_a_commit_of_an_artifact_is_approved_by_the_annotation_alone() -> None:
    s = snapshot([KEEP], BOTH, prune=PruneRules(max_delete=0, max_delete_percent=0))
    ways = dict(planned(s, load_catalog()).blocked[0].notes)
    assert "--trailer" in ways["next"]
    commit = replace(s.desired.commit, artifact="oci://a.example/b@sha256:c")
    imported = replace(s, desired=replace(s.desired, commit=commit))
    ways = dict(planned(imported, load_catalog()).blocked[0].notes)
    assert ways["next"].startswith("annotate the Unit: gitkruise.io/approve: ")


ROWS: list[tuple[str, list[Obj], list[Live], dict[str, Any], str]] = [
    # guard, git, live, snapshot fields, reported code
    ("nothing left in git", [], BOTH, {}, "GK2301"),
    ("inventory not complete", [KEEP], BOTH, {"inventory_complete": False}, ""),
    ("switched off", [KEEP], BOTH, {"prune": PruneRules(enabled=False)}, ""),
    ("not in the inventory", [KEEP], BOTH, {"inventory": [KEEP]}, ""),
    ("gone already", [KEEP], [applied(KEEP)], {"inventory": [KEEP, GONE]}, ""),
    ("being deleted", [KEEP], [applied(KEEP), terminating()], {}, ""),
    ("no label any more", [KEEP], [applied(KEEP), foreign(GONE)], {}, ""),
    ("another unit's label", [KEEP], [applied(KEEP), foreign(GONE, "ffffffffffff")], {}, ""),
    ("another unit wants it", [KEEP], BOTH, {"claimed": frozenset({key(GONE)})}, ""),
    ("git may say more", [KEEP], BOTH, {"prune_held": "a newer commit is there"}, "GK2305"),
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
        "GK2304",
    ),
    *(
        (f"prune: {word}", [KEEP], [applied(KEEP), noted("gitkruise.io/prune", word)], {}, code)
        for word, code in (("disabled", "GK2302"), ("confirm", "GK2304"))
    ),
    *(
        (f"opted out by {name}", [KEEP], [applied(KEEP), noted(name, value)], {}, "GK2302")
        for name, value in (*LEFT_ALONE, ("gitkruise.io/apply", "Ignore"))
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
        "Argo asks",
        [KEEP],
        [applied(KEEP), noted("argocd.argoproj.io/sync-options", "Prune=confirm")],
        {},
        "GK2304",
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
    plan = planned(snapshot(wanted, live, **more), load_catalog())
    assert not plan.prune
    assert [f.code for f in plan.blocked] == ([code] if code else [])


KINDS_WITH_DATA = [
    "Namespace", "PersistentVolumeClaim", "PersistentVolume", "CustomResourceDefinition",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS_WITH_DATA)
def test_what_holds_data_is_deleted_only_by_approval(kind: str) -> None:
    s = snapshot([KEEP], [applied(KEEP), applied(thing("x", kind)), applied(GONE)])
    plan = planned(s, load_catalog())
    assert plan.prune == (key(GONE),)  # the rest need not wait for it
    assert "would delete what it holds" in plan.blocked[0].message
    approved = planned(replace(s, approved=plan.asks), load_catalog())
    assert set(approved.prune) == {key(GONE), key(thing("x", kind))}
    stages = [stage_of(k.group_kind) for k in approved.prune]
    assert stages == sorted(stages, reverse=True)  # what others build on goes last
    assert not approved.blocked


CLAIMS = [{"metadata": {"name": "data"}, "spec": {}}]
RETAINED = {"whenDeleted": "Retain"}
DELETED = {"whenDeleted": "Delete"}
WITH_CLAIMS: list[tuple[str, dict[str, Any], bool]] = [
    # kind, spec, whether its volumes go with it
    ("CloneSet", {"volumeClaimTemplates": CLAIMS}, True),
    ("CloneSet", {"volumeClaimTemplates": []}, False),
    ("CloneSet", {}, False),
    ("StatefulSet", {"volumeClaimTemplates": CLAIMS}, False),
    ("StatefulSet", {"volumeClaimTemplates": CLAIMS,
                     "persistentVolumeClaimRetentionPolicy": RETAINED}, False),
    ("StatefulSet", {"volumeClaimTemplates": CLAIMS,
                     "persistentVolumeClaimRetentionPolicy": DELETED}, True),
    ("StatefulSet", {"persistentVolumeClaimRetentionPolicy": DELETED}, False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "lost"), WITH_CLAIMS)
def test_volumes_are_deleted_only_by_approval(
    kind: str, spec: dict[str, Any], *, lost: bool
) -> None:
    owner = thing("x", kind, spec=spec)
    s = snapshot([KEEP], [applied(KEEP), applied(owner)])
    plan = planned(s, load_catalog())
    assert plan.prune == (() if lost else (key(owner),))
    messages = [finding.message for finding in plan.blocked]
    assert any("would delete the volumes of its pods" in text for text in messages) == lost
    approved = planned(replace(s, approved=plan.asks), load_catalog())
    assert approved.prune == (key(owner),)


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
    plan = planned(
        snapshot(objects[gone:], [applied(o) for o in objects], prune=rules), load_catalog()
    )
    assert len(plan.prune) == deleted
    assert [f.code for f in plan.blocked] == ([] if deleted else ["GK2303"])


MANY = [thing(f"o{n:03}") for n in range(20)]
ALIVE = [applied(o, metadata={**applied(o).obj["metadata"], "uid": f"uid-{n}"})
         for n, o in enumerate(MANY)]  # fmt: skip


def test_an_approval_holds_for_exactly_what_its_author_saw() -> None:
    s = snapshot(MANY[6:], ALIVE)
    blocked = planned(s, load_catalog())
    assert (blocked.prune, [f.code for f in blocked.blocked]) == ((), ["GK2303"])
    (mark,) = blocked.asks
    assert mark in dict(blocked.blocked[0].notes)["next"]
    assert blocked.blocked[0].severity is Severity.WARNING
    assert blocked.waits == (
        "approval (deletion of 6 of 20 objects, limit 4; "
        f'git commit --allow-empty -m Agreed --trailer "Gitkruise-Approve: {mark}")'
    )
    approved = planned(replace(s, approved=blocked.asks), load_catalog())
    assert approved.prune == tuple(key(o) for o in MANY[:6])
    one_more = replace(snapshot(MANY[7:], ALIVE), approved=blocked.asks)
    one_less = replace(snapshot(MANY[5:], ALIVE), approved=blocked.asks)
    again = applied(MANY[0], metadata={**ALIVE[0].obj["metadata"], "uid": "another"})
    made_anew = replace(snapshot(MANY[6:], [again, *ALIVE[1:]]), approved=blocked.asks)
    other_unit = replace(s, unit_label="ffffffffffff", approved=blocked.asks)
    for other in (one_more, one_less, made_anew, other_unit):
        assert planned(other, load_catalog()).prune == ()


def test_an_approved_deletion_that_was_cut_short_goes_on() -> None:
    agreed = frozenset(f"uid-{n}" for n in range(6))
    plan = planned(replace(snapshot(MANY[6:], ALIVE[2:]), agreed=agreed), load_catalog())
    assert plan.prune == tuple(key(o) for o in MANY[2:6])
    more = planned(replace(snapshot(MANY[12:], ALIVE[2:]), agreed=agreed), load_catalog())
    assert more.prune == tuple(key(o) for o in MANY[2:6])
    assert [f.code for f in more.blocked] == ["GK2303"]


def test_what_does_not_go_away_is_reported_when_its_time_is_over() -> None:
    since = "2026-11-21T10:00:00Z"
    meta = {"deletionTimestamp": since, "finalizers": ["example.com/wait"]}
    gone = applied(GONE, metadata={**applied(GONE).obj["metadata"], **meta})
    live, end = {key(GONE): gone, key(KEEP): applied(KEEP)}, at("10:05:00")
    limit = timedelta(minutes=5)
    assert lingering(live, [key(KEEP)], at("10:04:59"), limit) == (None, end)
    finding, again = lingering(live, [key(KEEP)], end, limit)
    assert finding is not None
    assert (finding.code, again) == ("GK2306", None)
    assert "example.com/wait" in finding.message
    assert lingering(live, [key(KEEP), key(GONE)], end, limit) == (None, None)  # wanted again


def at(time: str) -> datetime:
    found = parse_time(f"2026-11-21T{time}Z")
    assert found is not None
    return found


def test_an_empty_unit_is_pruned_only_by_permission() -> None:
    rules = PruneRules(allow_empty=True)
    plan = planned(snapshot([], BOTH, prune=rules), load_catalog())
    assert plan.prune == (key(GONE), key(KEEP))
    assert LABEL
