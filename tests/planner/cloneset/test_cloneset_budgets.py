"""CloneSets whose pods a PodUnavailableBudget protects: rollouts and scaling respect it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.budgets.availability import is_available
from gitkruise.planner.cloneset.observe import observe_cloneset
from gitkruise.planner.cloneset.plan import plan_cloneset
from gitkruise.wire.primitives.names import ObjectKey
from tests.worlds import SPACE, Lab, budget, cloneset, deployment, template

UPDATES = Gates(pod_unavailable_budget_update_gate=True)
KEY = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
NEW = {"spec": {"template": template("app:v2")}}


def lab_of(gates: Gates | None = None, *, policy: str = "ReCreate", **spec: Any) -> Lab:
    """Five pods that a rollout alone would move all together."""
    lab = Lab(gates=gates)
    lab.apply(cloneset(replicas=5, podUpdatePolicy=policy, maxUnavailable=5))
    lab.apply(budget(**spec))
    lab.run(60)
    return lab


def up(lab: Lab) -> int:
    pods = (lab.world.pod(ObjectKey("", "Pod", SPACE, p["metadata"]["name"])) for p in lab.pods())
    return sum(pod.deleting is None and is_available(pod) for pod in pods if pod is not None)


def levels(lab: Lab, seconds: float = 600) -> Iterator[int]:
    """The available pods every half second, until all are updated."""
    for _ in range(int(seconds * 2)):
        lab.run(0.5)
        yield up(lab)
        if lab.get(cloneset())["status"].get("updatedAvailableReplicas") == 5:
            return
    raise AssertionError("the rollout does not end")


def holds(lab: Lab, gates: Gates | None = None) -> dict[str, str]:
    """Pods that wait for a budget, and its name."""
    snapshot = observe_cloneset(lab.world, KEY, lab.now)
    assert snapshot is not None
    held = plan_cloneset(snapshot, gates or Gates()).held
    return {one.pod: one.detail for one in held if one.why is Hold.UNAVAILABLE_BUDGET}


@pytest.mark.parametrize(
    ("gates", "policy"),
    [
        pytest.param(None, "ReCreate", id="BUDGET-40"),
        pytest.param(UPDATES, "InPlaceIfPossible", id="BUDGET-41"),
        pytest.param(UPDATES, "ReCreate", id="both gates"),
    ],
)
def test_one_pod_at_a_time(gates: Gates | None, policy: str) -> None:
    lab = lab_of(gates, policy=policy, maxUnavailable=1)
    lab.patch(cloneset(), NEW)
    assert min(levels(lab)) == 4
    lab.run(30)
    assert lab.get(budget())["status"]["unavailableAllowed"] == 1
    assert "FailedDelete" not in lab.events("web")


def test_budget_42_updates_in_place_without_their_gate() -> None:
    lab = lab_of(policy="InPlaceIfPossible", maxUnavailable=1)
    lab.patch(cloneset(), NEW)
    assert min(levels(lab)) == 0


@pytest.mark.parametrize(
    ("gates", "policy"), [(None, "ReCreate"), (UPDATES, "InPlaceIfPossible")], ids=["kill", "keep"]
)
def test_pub_63_what_may_not_go_is_held_and_says_for_which_budget(
    gates: Gates | None, policy: str
) -> None:
    lab = lab_of(gates, policy=policy, maxUnavailable=0)
    lab.patch(cloneset(), NEW)
    lab.run(120)
    assert up(lab) == 5
    assert holds(lab, gates) == {p["metadata"]["name"]: "keep" for p in lab.pods()}
    lab.patch(budget(), {"spec": {"maxUnavailable": 2}})
    assert min(levels(lab)) == 3


def test_pub_60_pods_without_a_budget_do_not_wait_for_others() -> None:
    lab = lab_of(maxUnavailable=0)
    first = lab.pods()[0]
    note = {"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}}
    lab.patch(first, note)
    lab.patch(cloneset(), NEW)
    lab.run(60)
    assert first["metadata"]["name"] not in {p["metadata"]["name"] for p in lab.pods()}
    assert len(holds(lab)) == 4


def test_budget_43_scaling_in_waits() -> None:
    lab = lab_of(minAvailable=4)
    lab.patch(cloneset(), {"spec": {"replicas": 3}})
    lab.run(120)
    assert len(lab.pods()) == 4
    assert len(holds(lab)) == 1


def test_budget_44_scaling_in_with_max_unavailable() -> None:
    lab = lab_of(maxUnavailable=1)
    lab.patch(cloneset(), {"spec": {"replicas": 3}})
    lab.run(120)
    assert len(lab.pods()) == 3


def test_budget_45_a_deployment_is_refused_by_the_api_server() -> None:
    lab = Lab()
    all_at_once = {"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}
    lab.apply(deployment(replicas=4, strategy=all_at_once))
    lab.apply(budget(kind="Deployment", maxUnavailable=1))
    lab.run(60)
    lab.patch(deployment(), {"spec": {"template": template("app:v2")}})
    lowest = 4
    for _ in range(60):
        lab.run(0.5)
        lowest = min(lowest, up(lab))
    assert {p["spec"]["containers"][0]["image"] for p in lab.pods()} == {"app:v2"}
    assert lowest == 3


@pytest.mark.parametrize("before", [True, False], ids=["same instant", "raised at once"])
def test_pub_64_a_budget_that_is_not_counted_yet_lets_nothing_pass(before: bool) -> None:
    lab = Lab()
    lab.apply(cloneset(replicas=5, podUpdatePolicy="ReCreate", maxUnavailable=5))
    if before:
        lab.run(60)
        lab.apply(budget(maxUnavailable=1))
    else:
        lab.apply(budget(maxUnavailable=5))
        lab.run(60)
        lab.patch(budget(), {"spec": {"maxUnavailable": 1}})
    lab.patch(cloneset(), NEW)
    assert min(levels(lab)) == 4
