"""What a preview says is what then happens: the same pods, in the same order, to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.gitops.preview.changes import changes_between, with_live
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.preview.preview import offline_preview
from gitkruise.gitops.preview.simulate import live_world, offline_world, play, rollout_objects
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.sync_round import IgnoreRule
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from tests.gitops.plans import NEW, side
from tests.gitops.reconcile.test_hooks import job
from tests.planner.sync.build import applied, desired, key
from tests.worlds import SPACE, START, Lab, cloneset

CATALOG = load_catalog()


def placed(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": SPACE}}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Obj, Obj]:
    """A CloneSet, and what a commit makes of it."""
    replicas = draw(st.integers(1, 6))
    policy = draw(st.sampled_from(["ReCreate", "InPlaceIfPossible"]))
    rolling: dict[str, Any] = {
        "podUpdatePolicy": policy,
        "maxUnavailable": draw(st.sampled_from([1, "50%"])),
        "partition": draw(st.sampled_from([0, 1, "50%"])),
    }
    after = replicas + draw(st.integers(-1, 2))
    image = draw(st.sampled_from(["app:v1", "app:v2"]))
    return (
        placed(cloneset("web", replicas, podUpdatePolicy=policy)),
        placed(cloneset("web", max(after, 0), image, **rolling)),
    )


def preview_of(world: Any, before: Obj, after: Obj, now: Any, *, live: bool) -> Any:
    target = [desired(after)]
    changes = changes_between([desired(before)], target, CATALOG)
    played = play(world, changes, side(target), CATALOG, now, Gates(), live=live)
    assert not played.findings
    return played.forecast


@pytest.mark.slow
@settings(max_examples=8)
@given(pairs())
def test_a_live_preview_names_the_pods_that_then_move(pair: tuple[Obj, Obj]) -> None:
    before, after = pair
    lab = Lab()
    lab.apply(before)
    lab.run()
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))
    found = asyncio.run(rollout_objects(transport, CATALOG, [SPACE], kinds=(), served=CATALOG))
    twin = live_world(found, CATALOG, Gates())
    version = lab.world.version
    forecast = preview_of(twin, before, after, lab.now, live=True)
    assert lab.world.version == version
    lab.patch(before, {"spec": after["spec"]})
    trace = lab.run()
    moved = [
        (line.what, line.object)
        for line in trace.lines
        if line.what in {"CreatePod", "DeletePod", "in-place"}
    ]
    if forecast is None or not forecast.rollouts:
        assert not moved
        return
    rollout = forecast.rollouts[0]
    foreseen = [
        (line.what, line.object)
        for line in forecast.trace.lines
        if line.what in {"CreatePod", "DeletePod", "in-place"}
    ]
    assert sorted(foreseen) == sorted(moved)
    assert [n for w, n in foreseen if w == "in-place"] == [n for w, n in moved if w == "in-place"]
    assert rollout.updated_after == lab.get(before)["status"].get("updatedReplicas", 0)


@pytest.mark.slow
@settings(max_examples=5)
@given(pairs())
def test_an_offline_preview_counts_the_same(pair: tuple[Obj, Obj]) -> None:
    before, after = pair
    base = [desired(before)]
    world, now = offline_world([base], CATALOG, Gates(), START, moved={base[0].key})
    forecast = preview_of(world, before, after, now, live=False)
    lab = Lab()
    lab.apply(before)
    lab.run()
    lab.patch(before, {"spec": after["spec"]})
    lab.run()
    if forecast is not None and forecast.rollouts:
        rollout = forecast.rollouts[0]
        status = lab.get(before)["status"]
        assert rollout.updated_after == status.get("updatedReplicas", 0)
        assert rollout.replicas == status.get("replicas", 0)


def test_changes_say_what_git_does_and_drift_what_a_sync_would_correct() -> None:
    old = placed(cloneset("gone"))
    same, changed = placed(cloneset("same")), placed(cloneset("web"))
    new = placed(cloneset("web", image="app:v2"))
    fresh = placed(cloneset("fresh"))
    base: list[Desired] = [desired(o) for o in (old, same, changed)]
    target = [desired(o) for o in (same, new, fresh)]
    found = changes_between(base, target, CATALOG)
    assert [(c.key.name, str(c.kind)) for c in found] == [
        ("fresh", "create"), ("gone", "prune"), ("same", "unchanged"), ("web", "configure"),
    ]  # fmt: skip
    drifted = {key(same): applied(same, spec={**same["spec"], "replicas": 9}).obj}
    seen = {c.key.name: c for c in with_live(found, target, drifted, CATALOG)}
    assert (seen["same"].kind, seen["same"].drift) == (ChangeKind.CONFIGURE, True)
    assert [c.path for c in seen["same"].fields] == [("spec", "replicas")]
    rules = {key(same): [IgnoreRule(kind="CloneSet", paths=(("spec", "replicas"),))]}
    left = {c.key.name: c for c in with_live(found, target, drifted, CATALOG, rules)}
    assert left["same"].kind is ChangeKind.UNCHANGED


def test_what_is_rendered_without_all_values_is_not_held_against_the_cluster() -> None:
    same, web = placed(cloneset("same")), placed(cloneset("web"))
    new = placed(cloneset("web", image="app:v2"))
    base, target = [desired(same), desired(web)], [desired(same), desired(new)]
    found = changes_between(base, target, CATALOG)
    there = {key(o): applied(o, spec={**o["spec"], "replicas": 9}).obj for o in (same, web)}
    seen = {c.key.name: c for c in with_live(found, target, there, CATALOG, uncertain=there)}
    assert (seen["same"].kind, seen["same"].drift) == (ChangeKind.UNCHANGED, False)
    assert [c.path[-1] for c in seen["web"].fields] == ["image"]
    (made,) = with_live(
        changes_between([], target[:1], CATALOG), target[:1], there, CATALOG, uncertain=there
    )
    assert made.kind is ChangeKind.UNCHANGED
    lab = Lab()
    lab.apply(web)
    unsure = side(target, uncertain=frozenset(there))
    played = play(lab.world, [*seen.values()], unsure, CATALOG, lab.now, Gates(), live=True)
    assert (played.forecast, [*played.unknown]) == (None, [key(new)])


HPA = {
    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
    "spec": {"maxReplicas": 9, "scaleTargetRef": {
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}},
}  # fmt: skip
KEPT = "CloneSet shop/web keeps its size, which HorizontalPodAutoscaler shop/web sets"


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [([HPA], [HPA], (KEPT,)), ([], [HPA], ()), ([HPA], [], ()), ([], [], ())],
    ids=["both", "added", "deleted", "none"],
)
def test_offline_a_size_is_left_to_the_autoscaler_of_both_commits(
    before: list[Obj], after: list[Obj], notes: tuple[str, ...]
) -> None:
    """One that is added comes after the workload, and one that is deleted goes last."""
    base, target = (
        PlanSide(
            commit=NEW,
            objects=tuple(desired(placed(obj)) for obj in (cloneset("web", size), *others)),
        )
        for size, others in ((3, before), (6, after))
    )
    preview = offline_preview(base, target, CATALOG, Gates())
    sized = [c for c in preview.changes if c.key.kind == "CloneSet"]
    assert [c.kind for c in sized] == [ChangeKind.UNCHANGED if notes else ChangeKind.CONFIGURE]
    assert preview.notes == notes


def test_a_hook_that_ran_for_this_content_is_no_change() -> None:
    older, newer = (job("migrate", "pre-apply", image) for image in ("job:v1", "job:v2"))
    base, target = ([replace(desired(placed(o)), hook="pre-apply")] for o in (older, newer))
    (change,) = changes_between(base, target, CATALOG)
    for live, kind in ((older, ChangeKind.CONFIGURE), (newer, ChangeKind.UNCHANGED)):
        there = {change.key: applied(placed(live)).obj}
        (seen,) = with_live([change], target, there, CATALOG)
        assert seen.kind is kind
