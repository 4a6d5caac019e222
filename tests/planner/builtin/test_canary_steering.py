"""Canary of a Deployment that another controller sizes: gitkruise's writes next to that one's.

The other controller is the one of the embedded cluster, from which the canary is kept. Rows are
those of docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.planning.canary import ANNOTATION, BOOKKEEPING, GIT_PAUSE, LOCK
from gitkruise.model.planning.canary_lock import (
    NEVER_S,
    lock_of,
    pending_lock,
    unlocked,
    waiting_amounts,
)
from gitkruise.model.planning.plan import Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.canary_steering import SteeringSnapshot, plan_steering
from gitkruise.planner.builtin.deployment import newest_set, observe_deployment, plan_deployment
from gitkruise.wire.patch.json_patch import merge_patch
from tests.planner.builtin.played import RESUMED, Played, unbegun, version_of
from tests.worlds import deployment


class Steered(Played):
    """Both controllers take turns; `idle` lets gitkruise stop for a while."""

    idle = False

    def plan(self) -> Plan:
        """The other controller, which knows no canary."""
        whole = self.raw
        notes = {k: v for k, v in whole["metadata"]["annotations"].items() if k not in BOOKKEEPING}
        self.objects[self.key] = {**whole, "metadata": {**whole["metadata"], "annotations": notes}}
        try:
            seen = observe_deployment(self, self.key, self.now)  # type: ignore[arg-type]
        finally:
            self.objects[self.key] = whole
        assert seen is not None
        return plan_deployment(seen, Gates())

    def step_kubelets(self) -> None:
        super().step_kubelets()
        for one in self.sets:
            if one["spec"].get("minReadySeconds") == NEVER_S:
                status = {**one["status"], "availableReplicas": 0}
                self._store({**one, "status": status}, status=True)

    def sync(self, *, writes: int | None = None) -> bool:
        moved = super().sync(writes=writes)
        self.step_kubelets()
        return moved or (not self.idle and self.steer())

    def steer(self) -> bool:
        seen = observe_deployment(self, self.key, self.now)  # type: ignore[arg-type]
        assert seen is not None
        new = newest_set(seen.raw, seen.sets)
        ready = self.available(new.raw) if new is not None else 0
        plan = plan_steering(
            SteeringSnapshot(deployment=seen, available=ready, ready=ready), Gates()
        )
        for action in plan.actions:
            self._write(action)
        return bool(plan.actions)

    def annotate(self, notes: dict[str, str | None]) -> None:
        self._store(merge_patch(self.raw, {"metadata": {"annotations": notes}}))

    def commit(self, image: str, **spec: Any) -> None:
        """Change the template as gitkruise applies a commit."""
        template = deployment(image=f"app:{image}")["spec"]["template"]
        notes = {LOCK: unbegun(self.raw).text}
        if "canary" in spec:
            notes[ANNOTATION] = spec.pop("canary")
        if (lock := lock_of(self.raw)) is not None:
            amounts = waiting_amounts(lock, self.raw, self.raw["spec"]["replicas"])
            spec["strategy"] = {"rollingUpdate": {path[-1]: n for path, n in amounts.items()}}
        spec |= {"template": template, "paused": True}
        self._store(merge_patch(self.raw, {"metadata": {"annotations": notes}, "spec": spec}))


def started(replicas: int, surge: Any, down: Any, canary: str | None) -> Steered:
    one = Steered(replicas, surge, down, canary)
    one.edit(image="v1")
    one.settle()
    return one


def at_canary() -> Steered:
    one = started(10, 2, 1, "3")
    one.commit("v2")
    assert one.settle()[-1] == "7,3 paused"
    return one


ENDS: dict[str, tuple[int, Any, Any, str, str]] = {
    "CAN-44": (10, 2, 1, "3", "7,3 paused"),
    "CAN-45": (10, 0, 1, "3", "7,3 paused"),
    "CAN-46": (10, 2, 0, "3", "7,3 paused"),
    "CAN-51": (3, 1, 0, "90%", "1,2 paused"),
    "CAN-54": (100, "10%", "5%", "1%", "99,1 paused"),
    "CAN-57": (10, 2, 1, "0", "10,0 paused"),
    "CAN-58a": (10, 2, 1, "10", "0,10"),
    "CAN-58c": (10, 2, 1, "100%", "0,10"),
}


@pytest.mark.parametrize("row", ENDS.values(), ids=ENDS)
def test_both_come_to_rest_at_the_canary(row: tuple[int, Any, Any, str, str]) -> None:
    one = started(*row[:4])
    one.commit("v2")
    assert one.settle()[-1] == row[4]
    assert one.settle() == [row[4]]


def test_can_114_the_steps_are_those_of_the_real_availability() -> None:
    one = started(10, 2, 1, "3")
    one.available = lambda s: 0 if version_of(s) == "v2" else s["spec"]["replicas"]
    one.commit("v2")
    assert one.settle()[-1] == "9,3"
    one.available = lambda s: s["spec"]["replicas"]
    assert one.settle()[-1] == "7,3 paused"


def test_can_112_a_template_waits_while_gitkruise_is_stopped() -> None:
    one = started(10, 2, 1, "3")
    one.idle = True
    one.commit("v2")
    assert one.settle()[-1] == "10"
    one.idle = False
    assert one.settle()[-1] == "7,3 paused"


def test_a_pause_that_ends_moves_nothing_before_gitkruise_has_looked() -> None:
    one = at_canary()
    one.idle = True
    one.edit(paused=False)
    assert one.settle()[-1] == "7,3 paused".removesuffix(" paused")
    one.idle = False
    assert one.settle()[-1] == "0,10"
    assert lock_of(one.raw) is None
    assert one.raw["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 2, "maxUnavailable": 1}
    assert "minReadySeconds" not in one.raw["spec"]


def test_can_119_an_empty_canary_that_is_unpaused_takes_no_pod_that_must_serve() -> None:
    one = started(2, 1, 0, "0")
    one.commit("v2")
    assert one.settle()[-1] == "2,0 paused"
    one.idle = True
    one.edit(paused=False)
    assert one.settle()[-1] == "2,1"
    one.idle = False
    assert one.settle()[-1] == "0,2"


EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "CAN-69": ({"paused": False, "canary": "5"}, "5,5 paused"),
    "CAN-70": ({"paused": False, "canary": "2"}, "7,3 paused"),
    "CAN-71": ({"paused": False, "canary": None}, "0,10"),
    "CAN-72": ({"canary": "5"}, "7,3 paused"),
    "CAN-74": ({"image": "v3"}, "7,3 paused"),
    "CAN-79": ({"image": "v1", "paused": False}, "10,0"),
    "CAN-85": ({"replicas": 20}, "14,6 paused"),
    "CAN-121": ({"replicas": 4}, "3,1 paused"),
}


@pytest.mark.parametrize("row", EDITS.values(), ids=EDITS)
def test_edits_of_the_pause(row: tuple[dict[str, Any], str]) -> None:
    one = at_canary()
    one.edit(**row[0])
    assert one.settle()[-1] == row[1]


@pytest.mark.parametrize("steps", RESUMED.values(), ids=RESUMED)
def test_a_new_value_is_a_new_pause(steps: Any) -> None:
    at_canary().play(steps)


def test_can_28_a_value_that_was_approved_before_pauses_again_after_another_one() -> None:
    """The other value arrives between the approval and the end of the lock."""
    one = at_canary()
    one.edit(paused=False)
    assert one.steer()
    one.edit(canary="5")
    assert one.settle()[-1] == "5,5 paused"
    one.edit(canary="3", paused=False)
    assert one.settle()[-1] == "5,5 paused"
    one.edit(paused=False)
    assert one.settle()[-1] == "0,10"


def test_can_28_a_value_without_a_gate_ends_an_approval_as_well() -> None:
    one = at_canary()
    one.available = lambda s: min(3 if version_of(s) == "v2" else 10, s["spec"]["replicas"])
    one.edit(paused=False)
    assert one.settle()[-1] == "6,6"
    assert lock_of(one.raw) is None
    one.edit(canary="100%")
    one.settle()
    one.edit(canary="3")
    one.settle()
    one.available = lambda s: s["spec"]["replicas"]
    assert one.settle()[-1] == "4,6 paused"


def test_can_75_an_abandoned_canary_makes_room_for_the_next_one() -> None:
    one = at_canary()
    one.commit("v3")
    assert one.settle()[-1] == "7,0,3 paused"


def test_can_38_nothing_moves_while_git_pauses() -> None:
    one = at_canary()
    one.annotate({GIT_PAUSE: "true", LOCK: unbegun(one.raw).text})
    one.edit(image="v3")
    assert one.settle() == ["7,3 paused"]
    one.annotate({GIT_PAUSE: None})
    one.commit("v3")
    assert one.settle()[-1] == "7,0,3 paused"


def test_can_117_a_canary_that_lost_its_pods_gets_them_again() -> None:
    one = at_canary()
    one.edit(replicas=1)
    assert one.settle()[-1] == "1,0 paused"
    one.edit(replicas=10)
    assert one.settle()[-1] == "7,3 paused"
    one.edit(replicas=0)
    assert one.settle()[-1] == "0 paused"
    one.edit(replicas=5)
    assert one.settle()[-1] == "2,3 paused"


def test_can_113_a_template_that_came_and_went_costs_no_serving_pod() -> None:
    one = started(3, 1, 0, "1")
    one.commit("v2")
    assert one.settle()[-1] == "2,1 paused"
    one.idle = True
    one.commit("v1")
    one.settle()
    assert {s["spec"].get("minReadySeconds") for s in one.sets} == {NEVER_S}
    one.idle = False
    one.commit("v3")
    one.settle()
    v1 = next(s for s in one.sets if version_of(s) == "v1")
    assert v1["spec"]["minReadySeconds"] == 0
    assert one.line == "2,0,1 paused"


def test_can_116_a_value_that_changes_after_its_approval_locks_again() -> None:
    one = at_canary()
    one.available = lambda s: min(3 if version_of(s) == "v2" else 10, s["spec"]["replicas"])
    one.edit(paused=False)
    one.settle()
    one.edit(canary="8")
    one.settle()
    one.available = lambda s: s["spec"]["replicas"]
    assert one.settle()[-1] == "2,8 paused"


def test_can_111_a_lock_that_an_undo_brings_back_is_removed() -> None:
    one = at_canary()
    stale = one.raw["metadata"]["annotations"][LOCK]
    one.edit(paused=False)
    one.settle()
    one._store(merge_patch(one.raw, {"metadata": {"annotations": {LOCK: stale}}}))
    assert lock_of(one.raw) is None
    one.settle()
    assert LOCK not in one.raw["metadata"]["annotations"]


def test_a_deployment_without_canary_is_never_written() -> None:
    one = started(10, 2, 1, None)
    one.edit(image="v2")
    while one.sync():
        assert not one.steer()
        one.step_kubelets()
    assert one.line == "0,10"


def test_the_users_values_are_read_from_the_lock() -> None:
    one = at_canary()
    wished = unlocked(one.raw)
    assert wished["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 2, "maxUnavailable": 1}
    assert wished["spec"]["progressDeadlineSeconds"] == 600
    assert pending_lock(wished).values == unbegun(one.raw).values
    broken = merge_patch(one.raw, {"metadata": {"annotations": {LOCK: "{}"}}})
    assert lock_of(broken) is None


def test_can_118_a_pause_ends_where_all_pods_became_the_canarys() -> None:
    """The other controller did it while gitkruise was stopped, on the way over no pods."""
    one = started(2, 0, 1, "0")
    one.commit("v2")
    assert one.settle()[-1] == "2,0 paused"
    for raw in one.sets:
        size = 2 if version_of(raw) == "v2" else 0
        one._store({**raw, "spec": {**raw["spec"], "replicas": size}})
    assert one.settle()[-1] == "0,2"
    assert lock_of(one.raw) is None


# Writes that wait until the other controller has come to rest ------------------------------------


def with_sizes(one: Steered, **sizes: int) -> None:
    """Give ReplicaSets sizes and statuses by version, whatever the controllers would do."""
    for raw in one.sets:
        size = sizes.get(version_of(raw), raw["spec"]["replicas"])
        one._store({**raw, "spec": {**raw["spec"], "replicas": size}})
    one.step_kubelets()


def test_a_commit_on_the_way_to_a_canary_takes_no_pod_away() -> None:
    """The other controller may have all of the surge by then, whatever the lock says."""
    one = started(8, 2, 1, "3")
    one.available = lambda s: 0 if version_of(s) == "v2" else s["spec"]["replicas"]
    one.commit("v2")
    assert one.settle()[-1] == "7,3"
    with_sizes(one, v1=8, v2=2)
    one.edit(rolling={"maxSurge": 0, "maxUnavailable": 1})
    one.commit("v3")
    one.idle = True
    assert one.settle()[-1] == "8,2"
    one.idle = False
    assert one.settle()[-1] == "5,0,3 paused"


def test_a_commit_on_a_pause_costs_no_pod_where_none_may_be_unavailable() -> None:
    one = started(2, 1, 0, "1")
    one.commit("v2")
    assert one.settle()[-1] == "1,1 paused"
    one.idle = True
    one.commit("v1")
    one.edit(paused=False)
    lines = one.settle()
    assert all(sum(map(int, line.split(","))) >= 2 for line in lines)
    one.idle = False
    assert one.settle()[-1] == "2,0"


@pytest.mark.parametrize(("surge", "left", "end"), [(3, 6, "6,0,2 paused"), (0, 5, "5,1,2 paused")])
def test_can_112_commits_on_a_pause_cost_no_pod_where_the_canary_is_not_ready(
    surge: int, left: int, end: str
) -> None:
    """w237: two commits and the end of the pause took effect before gitkruise had looked.

    The first one made pods of v1 count as unavailable, so that one of them was taken. Without
    surge one is (CAN-128). The new version, which has a pod by then, is held at its canary.
    """
    one = started(8, surge, 2, "2")
    one.available = lambda s: 0 if version_of(s) == "v2" else s["spec"]["replicas"]
    one.commit("v2")
    assert one.settle()[-1] == "6,2 paused"
    one.idle = True
    one.commit("v1")
    one.settle()
    one.commit("v3")
    one.settle()
    one.edit(paused=False)
    one.settle()
    assert one.sizes["v1"] == left
    assert one.sizes["v3"] > 0
    one.idle = False
    one.available = lambda s: s["spec"]["replicas"]
    assert one.settle()[-1] == end


def test_can_116_a_rollout_that_someone_let_go_is_paused_before_it_is_locked() -> None:
    """The other controller may be creating pods at that instant."""
    one = started(8, 2, 1, "1")
    one.idle = True
    one.commit("v2")
    one.settle()
    one.edit(paused=False)
    assert one.steer()
    assert one.paused
    assert one.raw["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 2, "maxUnavailable": 1}
    assert not one.steer()  # the other controller has not seen the pause yet
    one.idle = False
    assert one.settle()[-1] == "7,1 paused"


def test_can_80_a_canary_that_comes_back_with_pods_is_locked() -> None:
    one = at_canary()
    one.available = lambda s: min(7, s["spec"]["replicas"]) if version_of(s) == "v1" else 3
    one.commit("v1")
    assert one.settle()[-1] == "10,2"
    one.available = lambda s: s["spec"]["replicas"]
    one.idle = True
    one.commit("v2")
    one.settle()
    one.idle = False
    assert one.settle()[-1] == "7,3 paused"


def test_can_119_an_empty_canary_waits_for_pods_that_may_go() -> None:
    """Pods of the rollout before it are there as well, and are not ready."""
    one = started(8, 1, 0, None)
    one.available = lambda s: 0 if version_of(s) == "v2" else s["spec"]["replicas"]
    one.edit(image="v2")
    assert one.settle()[-1] == "8,1"
    one.commit("v3", canary="0")
    assert one.settle()[-1] == "8,1,0"
    one.available = lambda s: s["spec"]["replicas"]
    assert one.settle()[-1] == "7,1,0 paused"


@pytest.mark.parametrize("changes", [{}, {"canary": "2"}, {"canary": "100%"}])
def test_can_127_no_step_follows_counts_of_pods_that_are_gone(changes: dict[str, Any]) -> None:
    """The other controller takes pods away by them: it would take those that must serve."""
    one = at_canary()
    before = {version_of(raw): dict(raw["status"]) for raw in one.sets}
    one.edit(replicas=4)
    one.idle = True
    one.settle()
    for raw in one.sets:
        status = {**raw["status"], **before[version_of(raw)]}
        status["observedGeneration"] = raw["metadata"]["generation"]
        one._store({**raw, "status": status}, status=True)
    one.edit(paused=False, **changes)
    for _ in range(4):
        one.steer()
    assert lock_of(one.raw) is not None
    assert one.raw["spec"]["minReadySeconds"] == NEVER_S
    assert one.raw["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    one.step_kubelets()
    one.idle = False
    assert one.settle()[-1] in {"0,4", "2,2 paused", "3,1 paused"}


def test_can_113_pods_count_as_available_again_before_a_lock_ends() -> None:
    one = at_canary()
    for raw in one.sets:
        if version_of(raw) == "v1":
            one._store({**raw, "spec": {**raw["spec"], "minReadySeconds": NEVER_S}})
    one.step_kubelets()
    one.idle = True
    one.edit(canary="100%", paused=False)
    assert one.steer()
    assert lock_of(one.raw) is not None
    v1 = next(s for s in one.sets if version_of(s) == "v1")
    assert v1["spec"]["minReadySeconds"] == 0


def test_can_114_no_step_is_chosen_before_the_replica_sets_are_scaled() -> None:
    """The old version would lose its last pods, 1,1 to 0,1, by a step for the size before."""
    one = started(5, "25%", "25%", "2")
    one.commit("v2")
    assert one.settle()[-1] == "3,2 paused"
    one.edit(replicas=2)
    one.edit(paused=False, canary="1")
    assert not one.steer()
    lines = one.settle()
    assert lines[-1] == "1,1 paused"
    assert "0,1" not in lines


def test_a_pause_that_is_scaled_in_and_ended_takes_no_pod_that_must_serve() -> None:
    """w37: the amounts of the pause were those of the size before, 1,1 went to 0,1."""
    one = started(8, "25%", "25%", "50%")
    one.commit("v2")
    assert one.settle()[-1] == "4,4 paused"
    one.idle = True
    one.edit(replicas=2)
    one.settle()
    one.edit(paused=False)
    assert one.settle()[-1] == "1,1"
