"""A plan foresees which PodUnavailableBudgets and hooks hold the pods of a rollout back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.simulate import live_world, offline_world, play, rollout_objects
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.report import PodEffects
from gitkruise.model.planning.forecast import STUCK, RolloutForecast
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.report.blast_radius import moved
from gitkruise.planner.report.forecast import rollout_view
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from tests.gitops.plans import side
from tests.planner.statefulset.build import advanced
from tests.planner.sync.build import desired
from tests.worlds import SPACE, START, Lab, budget, cloneset, deployment

CATALOG = load_catalog()


def placed(obj: Obj) -> Desired:
    return desired({**obj, "metadata": {**obj["metadata"], "namespace": SPACE}})


def web(image: str = "app:v1", **more: Any) -> Desired:
    return placed(cloneset("web", 5, image, podUpdatePolicy="ReCreate", maxUnavailable=5, **more))


def foreseen(world: Any, base: Sequence[Desired], target: Sequence[Desired], now: Any) -> Any:
    changes = changes_between(base, target, CATALOG)
    played = play(world, changes, side(target), CATALOG, now, Gates(), live=False)
    assert not played.findings
    assert played.forecast is not None
    (rollout,) = played.forecast.rollouts
    (change,) = (c for c in changes if c.key == rollout.key)
    view = rollout_view(change, rollout, (), live=True)
    return rollout, " ".join(view.notes)


def offline(base: Sequence[Desired], target: Sequence[Desired]) -> tuple[RolloutForecast, str]:
    moved = {base[0].key}
    world, now = offline_world([base], CATALOG, Gates(), START, moved=moved)
    found: tuple[RolloutForecast, str] = foreseen(world, base, target, now)
    return found


SELECTS = {"selector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize("spec", [{}, SELECTS], ids=["target", "selector"])
def test_one_pod_at_a_time(spec: Obj) -> None:
    keep = placed(budget(maxUnavailable=1, **spec))
    rollout, notes = offline([web(), keep], [web("app:v2"), keep])
    assert (rollout.hold, rollout.updated_after, rollout.budgets) == ("", 5, ("keep",))
    assert notes == (
        "PodUnavailableBudget keep holds pods of this rollout back, and it ends all the same"
    )
    alone, none = offline([web()], [web("app:v2")])
    assert (alone.updated_after, alone.budgets, none) == (5, (), "")
    assert rollout.lasts > alone.lasts


def test_a_budget_that_lets_nothing_go() -> None:
    keep = placed(budget(maxUnavailable=0))
    rollout, notes = offline([web(), keep], [web("app:v2"), keep])
    assert (rollout.hold, rollout.updated_after) == (STUCK, 0)
    assert {why for _, why in rollout.held} == {"PodUnavailableBudget keep"}
    assert notes.endswith("5 pods wait for it")


def test_a_budget_of_the_same_commit() -> None:
    rollout, _ = offline([web()], [web("app:v2"), placed(budget(maxUnavailable=0))])
    assert (rollout.hold, rollout.budgets) == (STUCK, ("keep",))
    raised = placed(budget(maxUnavailable=5))
    rollout, _ = offline([web(), placed(budget(maxUnavailable=0))], [web("app:v2"), raised])
    assert (rollout.hold, rollout.updated_after) == ("", 5)


def test_budgets_of_a_live_cluster() -> None:
    lab = Lab()
    lab.apply(web().obj)
    lab.apply(budget(maxUnavailable=0))
    lab.run(60)
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))
    found = asyncio.run(rollout_objects(transport, CATALOG, [SPACE], kinds=(), served=CATALOG))
    rollout, _ = foreseen(live_world(found, CATALOG, Gates()), [web()], [web("app:v2")], lab.now)
    assert (rollout.hold, rollout.budgets) == (STUCK, ("keep",))


def test_hooks_that_the_pods_of_a_rollout_pass() -> None:
    hooks = {"preDelete": {"labelsHandler": {"guard": "on"}},
             "inPlaceUpdate": {"finalizersHandler": ["example.com/drain"]}}  # fmt: skip
    before, after = (
        placed({**d.obj, "spec": {**d.obj["spec"], "lifecycle": hooks}})
        for d in (web(), web("app:v2"))
    )
    rollout, notes = offline([before], [after])
    assert (rollout.hold, rollout.updated_after) == ("", 5)
    assert notes == "the plan assumes that the lifecycle hook preDelete (guard=on) lets pods go on"


def db(image: str) -> Desired:
    most = {"maxUnavailable": 5}
    return placed(advanced(5, image=image, rolling=most, podManagementPolicy="Parallel"))


def test_budget_50_of_an_advanced_stateful_set() -> None:
    keep = placed(
        budget(kind="StatefulSet", to="db", api="apps.kruise.io/v1beta1", maxUnavailable=1)
    )
    rollout, notes = offline([db("app:v1"), keep], [db("app:v2"), keep])
    assert (rollout.hold, rollout.updated_after, rollout.budgets) == ("", 5, ("keep",))
    assert {len(step.moves) for step in rollout.steps} == {1}
    assert notes.startswith("PodUnavailableBudget keep holds pods of this rollout back")


def test_a_pod_of_a_deployment_that_a_budget_keeps_is_not_counted_as_deleted() -> None:
    keep = placed(budget(kind="Deployment", maxUnavailable=1))
    base, target = (placed(deployment("web", 10, image)) for image in ("app:v1", "app:v2"))
    rollout, notes = offline([base, keep], [target, keep])
    assert (rollout.hold, rollout.updated_after, rollout.budgets) == ("", 10, ("keep",))
    assert notes.endswith("holds pods of this rollout back, and it ends all the same")
    assert moved(rollout, created=False) == PodEffects(rolled=10)
    for step in rollout.steps:
        assert step.counts is not None
        assert step.counts.old >= 0
        assert step.counts.new + step.counts.old >= 9
