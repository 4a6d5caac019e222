"""Deployments on the model cluster: rollouts, pauses, scaling, history, conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.deployment import observe_deployment, plan_deployment
from gitkruise.wire.primitives.names import GroupKind, Obj, key_of
from gitkruise.wire.primitives.paths import get, put
from tests.traces import render_text
from tests.worlds import SPACE, Lab, container, deployment

SETS = GroupKind("apps", "ReplicaSet")


def image(name: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [container(image=name)]}}}}


def rolling(surge: int | str, down: int | str) -> dict[str, Any]:
    return {"strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": down}}}


def sizes(lab: Lab) -> list[int]:
    """Wanted sizes of the ReplicaSets, oldest first."""
    found = sorted(lab.world.objects(SETS, SPACE), key=revision)
    return [one["spec"]["replicas"] for one in found]


def revision(obj: Obj) -> int:
    return int(obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


def condition(lab: Lab, web: Obj, type_: str) -> Any:
    return next(c for c in lab.get(web)["status"]["conditions"] if c["type"] == type_)


def started(**spec: Any) -> tuple[Lab, Obj]:
    lab, web = Lab(), deployment(**spec)
    lab.apply(web)
    lab.run()
    return lab, web


def test_a_rollout(golden: Callable[[str, str], None]) -> None:
    lab, web = started(replicas=4, **rolling(1, 1))
    lab.patch(web, image("app:v2"))
    golden("deployment-rollout.txt", render_text(lab.run()))


def test_a_finished_rollout_says_so() -> None:
    lab, web = started()
    status = lab.get(web)["status"]
    assert (status["updatedReplicas"], status["availableReplicas"]) == (3, 3)
    assert condition(lab, web, "Progressing")["reason"] == "NewReplicaSetAvailable"
    assert condition(lab, web, "Available")["status"] == "True"
    assert lab.run().lines == ()


def test_a_bad_image_stops_within_its_bounds_and_times_out() -> None:
    lab, web = started(replicas=10, **rolling(2, 1))
    lab.patch(web, image("app:broken"))
    trace = lab.run(7200)
    assert trace.quiet
    assert sizes(lab) == [9, 3]
    assert condition(lab, web, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    assert lab.get(web)["status"]["availableReplicas"] == 9


def test_a_template_from_before_is_found_again_and_gets_the_next_number() -> None:
    lab, web = started()
    lab.patch(web, image("app:v2"))
    lab.run()
    lab.patch(web, image("app:v1"))
    lab.run()
    assert sizes(lab) == [0, 3]
    first = lab.world.objects(SETS, SPACE)
    assert sorted(revision(s) for s in first) == [2, 3]
    assert revision(lab.get(web)) == 3
    back = max(first, key=revision)
    assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"


def test_a_pause_holds_the_rollout_and_scaling_goes_on() -> None:
    lab, web = started(replicas=10, **rolling(2, 1))
    lab.patch(web, image("app:v2"))
    lab.run(0)
    lab.patch(web, {"spec": {"paused": True}})
    lab.run()
    assert sum(sizes(lab)) == 12
    assert condition(lab, web, "Progressing")["reason"] == "DeploymentPaused"
    lab.patch(web, {"spec": {"replicas": 20}})
    lab.run()
    assert sum(sizes(lab)) == 22
    lab.patch(web, {"spec": {"paused": False}})
    lab.run()
    assert sizes(lab) == [0, 20]


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    lab, web = started(strategy={"type": "Recreate"})
    lab.patch(web, image("app:v2"))
    trace = lab.run()
    last_gone = max(i for i, line in enumerate(trace.lines) if line.what == "gone")
    first_new = min(i for i, line in enumerate(trace.lines) if line.what == "CreatePod")
    assert last_gone < first_new
    assert sizes(lab) == [0, 3]


def test_history_beyond_its_limit_is_deleted() -> None:
    lab, web = started(revisionHistoryLimit=1)
    for version in range(2, 6):
        lab.patch(web, image(f"app:v{version}"))
        lab.run()
    assert sizes(lab) == [0, 3]


def test_quirk_a_scale_down_in_the_middle_of_a_rollout_never_hangs() -> None:
    """kubernetes #102551: one active ReplicaSet already has the wanted size; refresh its note."""
    lab, web = started(replicas=5, **rolling(0, 1))
    lab.patch(web, image("app:v2"))
    lab.run(0)
    lab.patch(web, {"spec": {"replicas": 4}})
    lab.run()
    assert sizes(lab) == [0, 4]


def test_a_deleted_deployment_takes_everything_with_it() -> None:
    lab, web = started()
    lab.delete(web, propagationPolicy="Background")
    lab.run()
    assert lab.pods() == []
    assert lab.world.objects(SETS, SPACE) == []


def test_pods_count_as_available_after_min_ready_seconds() -> None:
    lab = Lab()
    web = deployment(minReadySeconds=30)
    lab.apply(web)
    lab.run(20)
    assert get(lab.get(web), "status", "availableReplicas") is None
    lab.run()
    assert lab.get(web)["status"]["availableReplicas"] == 3
    assert 30 < (lab.now - Lab().now).total_seconds() < 35


def test_a_strategy_that_does_not_parse_moves_nothing_and_is_the_problem() -> None:
    lab, web = started()
    raw = put(lab.get(web), ("spec", "strategy"), rolling("oops", 0)["strategy"])
    seen = observe_deployment(lab.world, key_of(raw), lab.now)
    assert seen is not None
    plan = plan_deployment(replace(seen, raw=raw), Gates())
    assert (plan.actions, plan.status) == ((), None)
    assert "oops" in str(plan.problem)


def canaried(canary: str, **spec: Any) -> tuple[Lab, Obj]:
    lab, web = Lab(), deployment(replicas=10, **rolling(2, 1), **spec)
    lab.apply({**web, "metadata": {"name": "web", "annotations": {"gitkruise.io/canary": canary}}})
    lab.run()
    return lab, web


def test_can_27_min_ready_seconds_delay_the_pause() -> None:
    lab, web = canaried("3", minReadySeconds=30)
    lab.patch(web, image("app:v2"))
    lab.run(25)
    assert (sizes(lab), get(lab.get(web), "spec", "paused")) == ([9, 3], None)
    lab.run()
    assert (sizes(lab), get(lab.get(web), "spec", "paused")) == ([7, 3], True)
    assert lab.get(web)["status"]["availableReplicas"] == 10
    assert lab.run().lines == ()


def test_can_64_a_canary_that_cannot_start_times_out_and_the_next_one_goes_on() -> None:
    lab, web = canaried("3")
    lab.patch(web, image("app:broken"))
    lab.run(7200)
    assert sizes(lab) == [9, 3]
    assert condition(lab, web, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    lab.patch(web, image("app:v2"))
    lab.run()
    assert sizes(lab) == [7, 0, 3]
    assert lab.events("web").count("CanaryPaused") == 1
    lab.patch(web, {"spec": {"paused": False}})
    lab.run()
    assert sizes(lab) == [0, 0, 10]
