"""Advanced StatefulSets whose pods a PodUnavailableBudget protects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET
from gitkruise.planner.budgets.availability import is_available
from gitkruise.planner.statefulset.observe import observe_stateful_set
from gitkruise.planner.statefulset.plan import plan_stateful_set
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.planner.statefulset.build import GATE, IN_PLACE, StatefulLab, advanced
from tests.worlds import SPACE, budget, template

UPDATES = Gates(pod_unavailable_budget_update_gate=True)
KEY = ObjectKey(*ADVANCED_STATEFULSET, SPACE, "db")
WARM: Obj = {"readinessGates": [*GATE["readinessGates"], {"conditionType": "warm"}]}
NEW: Obj = {"spec": {"template": template("app:v2", app="db", **GATE)}}


def kept(**spec: Any) -> Obj:
    """A budget for the set."""
    return budget(kind="StatefulSet", to="db", api="apps.kruise.io/v1beta1", **spec)


def lab_of(
    gates: Gates | None = None,
    *,
    rolling: Obj | None = None,
    keep: Obj | None = None,
    pod: Obj = GATE,
    **spec: Any,
) -> StatefulLab:
    """Five pods that a rollout alone would move all together."""
    fields = {"podManagementPolicy": "Parallel", **spec}
    lab = StatefulLab(
        gates=gates,
        replicas=5,
        pod=pod,
        rolling={"maxUnavailable": 5, **(rolling or {})},
        **fields,
    )
    lab.apply(kept(**(keep or {"maxUnavailable": 1})))
    lab.run(60)
    return lab


def up(lab: StatefulLab) -> int:
    pods = (lab.world.pod(ObjectKey("", "Pod", SPACE, name)) for name in lab.names)
    return sum(pod.deleting is None and is_available(pod) for pod in pods if pod is not None)


def levels(lab: StatefulLab, seconds: float = 600) -> Iterator[int]:
    """The available pods every half second, until all are updated."""
    for _ in range(int(seconds * 2)):
        lab.run(0.5)
        yield up(lab)
        if lab.status.get("updatedAvailableReplicas") == 5:
            return
    raise AssertionError("the rollout does not end")


def holds(lab: StatefulLab, gates: Gates | None = None) -> dict[str, str]:
    """Pods that wait for a budget, and its name."""
    snapshot = observe_stateful_set(lab.world, KEY, lab.now)
    assert snapshot is not None
    held = plan_stateful_set(snapshot, gates or Gates()).held
    return {one.pod: one.detail for one in held if one.why is Hold.UNAVAILABLE_BUDGET}


@pytest.mark.parametrize(
    ("gates", "rolling"),
    [
        pytest.param(None, {}, id="BUDGET-50"),
        pytest.param(UPDATES, IN_PLACE, id="BUDGET-51"),
        pytest.param(UPDATES, {}, id="both gates"),
    ],
)
def test_one_pod_at_a_time(gates: Gates | None, rolling: Obj) -> None:
    lab = lab_of(gates, rolling=rolling)
    assert lab.get(kept())["status"]["totalReplicas"] == 5
    lab.patch(advanced(), NEW)
    assert min(levels(lab)) == 4
    lab.run(30)
    assert lab.get(kept())["status"]["unavailableAllowed"] == 1
    assert "FailedDelete" not in lab.events("db")


def test_budget_52_updates_in_place_without_their_gate() -> None:
    lab = lab_of(rolling=IN_PLACE)
    lab.patch(advanced(), NEW)
    assert min(levels(lab)) == 0


@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
@pytest.mark.parametrize(
    ("gates", "rolling"), [(None, {}), (UPDATES, IN_PLACE)], ids=["kill", "keep"]
)
def test_pub_70_what_may_not_go_is_held_and_says_for_which_budget(
    gates: Gates | None, rolling: Obj, policy: str
) -> None:
    most = {"maxUnavailable": 5 if policy == "Parallel" else 1}
    lab = lab_of(
        gates, rolling={**rolling, **most}, podManagementPolicy=policy, keep={"maxUnavailable": 0}
    )
    lab.patch(advanced(), NEW)
    lab.run(120)
    assert up(lab) == 5
    assert holds(lab, gates) == dict.fromkeys(lab.names, "keep")
    lab.patch(kept(), {"spec": {"maxUnavailable": 2}})
    assert min(levels(lab)) == (3 if policy == "Parallel" else 4)


def test_asts_60_in_place_the_order_of_ordinals_stays() -> None:
    lab = lab_of(UPDATES, rolling=IN_PLACE, keep={"maxUnavailable": 2})
    lab.patch(advanced(), NEW)
    moved: list[set[str]] = []
    for _ in levels(lab):
        new = {name for name, tag in lab.images.items() if tag == "v2"}
        if not moved or new != moved[-1]:
            moved.append(new)
    for new in moved:
        assert new == set(lab.names[5 - len(new) :])


def test_pub_60_pods_without_a_budget_do_not_wait_for_others() -> None:
    lab = lab_of(keep={"maxUnavailable": 0})
    before = lab.uids
    note = {"metadata": {"annotations": {"pub.kruise.io/no-protect": "true"}}}
    lab.patch(lab.pod_named("db-1"), note)
    lab.patch(advanced(), NEW)
    lab.run(60)
    assert [name for name, uid in lab.uids.items() if before[name] != uid] == ["db-1"]
    assert set(holds(lab)) == {"db-0", "db-2", "db-3", "db-4"}


def test_pub_71_a_pod_that_is_down_is_mended_though_those_above_wait() -> None:
    lab = lab_of(rolling={"maxUnavailable": 2}, pod=WARM)
    for name in ("db-0", "db-2", "db-3", "db-4"):
        known = lab.pod_named(name)["status"]["conditions"]
        warm = {"type": "warm", "status": "True"}
        lab.patch(
            lab.pod_named(name), {"status": {"conditions": [*known, warm]}}, subresource="status"
        )
    lab.run(60)
    assert lab.get(kept())["status"]["unavailableAllowed"] == 0
    before = lab.uids
    lab.patch(advanced(), {"spec": {"template": template("app:v2", app="db", **WARM)}})
    lab.run(60)
    assert [name for name, uid in lab.uids.items() if before[name] != uid] == ["db-1"]


@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
def test_budget_53_scaling_in_waits(policy: str) -> None:
    lab = lab_of(
        rolling={"maxUnavailable": 1}, podManagementPolicy=policy, keep={"minAvailable": 4}
    )
    lab.change(120, replicas=3)
    assert lab.names == ["db-0", "db-1", "db-2", "db-3"]
    assert holds(lab) == {"db-3": "keep"}


def test_budget_54_a_pod_that_a_user_marked_waits() -> None:
    lab = lab_of(keep={"maxUnavailable": 0})
    before = lab.uids
    lab.label("db-2", specified_delete="true")
    lab.run(60)
    assert lab.uids == before
    assert holds(lab) == {"db-2": "keep"}
    lab.patch(kept(), {"spec": {"maxUnavailable": 1}})
    lab.run(60)
    assert lab.uids["db-2"] != before["db-2"]


def test_budget_55_others_ask_the_same_budget() -> None:
    lab = lab_of(keep={"maxUnavailable": 0})
    with pytest.raises(Forbidden, match="unavailable allowed is negative"):
        lab.delete(lab.pod_named("db-0"))
