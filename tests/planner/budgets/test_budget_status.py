"""Status of PodUnavailableBudgets on a cluster that runs, and the records in it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.model.planning.unavailable_budget import RELATED, RELATED_LEGACY
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.worlds import Lab, budget, cloneset, deployment, pod, template

COUNTS: Final = ("totalReplicas", "desiredAvailable", "currentAvailable", "unavailableAllowed")


def counts(lab: Lab, name: str = "keep") -> tuple[int, ...]:
    """T, D, C, A."""
    status = lab.get(budget(name))["status"]
    return tuple(status[field] for field in COUNTS)


def bare(name: str, app: str = "web") -> Obj:
    made = pod(name)
    return {**made, "metadata": {"name": name, "labels": {"app": app}}}


def ready(one: Obj) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"]["conditions"])


def lab_with(*objects: Obj, seconds: float = 60) -> Lab:
    lab = Lab()
    for obj in objects:
        lab.apply(obj)
    lab.run(seconds)
    return lab


def warm(lab: Lab, name: str) -> None:
    """Meet the readiness gate of a pod."""
    known = lab.get(pod(name))["status"]["conditions"]
    body = {"status": {"conditions": [*known, {"type": "warm", "status": "True"}]}}
    lab.patch(pod(name), body, subresource="status")


def record(lab: Lab, name: str, field: str, ago_s: float) -> None:
    """Record a pod in the budget's status as if the webhook had, so long ago."""
    at = format_time(lab.now - timedelta(seconds=ago_s))
    lab.patch(budget(), {"status": {field: {name: at}}}, subresource="status")


SELECTS: Final[dict[str, Any]] = {"selector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("replicas", "spec", "expected"),
    [
        pytest.param(10, {"maxUnavailable": "30%"}, (10, 7, 10, 3), id="BUDGET-1"),
        pytest.param(3, {"maxUnavailable": "50%"}, (3, 1, 3, 2), id="BUDGET-3"),
        pytest.param(3, {"maxUnavailable": 5}, (3, 0, 3, 3), id="BUDGET-4"),
        pytest.param(10, {"minAvailable": "80%"}, (10, 8, 10, 2), id="BUDGET-5"),
        pytest.param(0, {"minAvailable": 1}, (0, 1, 0, 0), id="nothing wanted"),
    ],
)
def test_pub_30_to_33_counts(replicas: int, spec: Obj, expected: tuple[int, ...]) -> None:
    lab = lab_with(cloneset(replicas=replicas), budget(**spec))
    assert counts(lab) == expected
    assert lab.get(budget())["status"]["observedGeneration"] == 1


def test_budget_2_pods_that_are_not_ready() -> None:
    gated = cloneset(replicas=10)
    gated["spec"]["template"] = template(readinessGates=[{"conditionType": "warm"}])
    lab = lab_with(gated, budget(maxUnavailable=3), seconds=30)
    for one in lab.pods()[2:]:
        warm(lab, one["metadata"]["name"])
    lab.run(30)
    assert counts(lab) == (10, 7, 8, 1)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minAvailable": 2}, (0, 2, 3, 1), id="BUDGET-6"),
        pytest.param({"maxUnavailable": 1}, (0, 0, 3, 3), id="BUDGET-7"),
        pytest.param({"maxUnavailable": 1, "protectTotalReplicas": 3}, (3, 2, 3, 1), id="BUDGET-8"),
    ],
)
def test_bare_pods(spec: Any, expected: tuple[int, ...]) -> None:
    lab = lab_with(*map(bare, "abc"), budget(**SELECTS, **spec))
    assert counts(lab) == expected


@pytest.mark.parametrize(
    ("field", "ago_s", "expected", "kept"),
    [
        pytest.param("disruptedPods", 5, (10, 7, 9, 2), True, id="BUDGET-9"),
        pytest.param("disruptedPods", 21, (10, 7, 10, 3), False, id="BUDGET-10"),
        pytest.param("unavailablePods", 11, (10, 7, 10, 3), False, id="BUDGET-11"),
        pytest.param("unavailablePods", 9, (10, 7, 9, 2), True, id="young"),
    ],
)
def test_pub_34_35_records(field: str, ago_s: float, expected: tuple[int, ...], kept: bool) -> None:
    lab = lab_with(cloneset(replicas=10), budget(maxUnavailable="30%"))
    name = lab.pods()[0]["metadata"]["name"]
    record(lab, name, field, ago_s)
    lab.run(0)
    assert counts(lab) == expected
    assert (field in lab.get(budget())["status"]) == kept
    assert ("NotDeleted" in lab.events("keep")) == (field == "disruptedPods" and not kept)


def test_records_end_by_themselves() -> None:
    lab = lab_with(cloneset(replicas=10), budget(maxUnavailable="30%"))
    record(lab, lab.pods()[0]["metadata"]["name"], "disruptedPods", 0)
    lab.run(19)
    assert counts(lab) == (10, 7, 9, 2)
    lab.run(3)
    assert counts(lab) == (10, 7, 10, 3)


def test_budget_12_a_selector_over_two_workloads() -> None:
    lab = lab_with(
        cloneset(replicas=3),
        deployment("api", replicas=5),
        budget(
            selector={
                "matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]
            },
            maxUnavailable=1,
        ),
    )
    assert counts(lab) == (8, 7, 8, 1)


def test_budget_13_a_deployment_with_two_replica_sets() -> None:
    lab = lab_with(deployment(replicas=4), budget(kind="Deployment", maxUnavailable=1))
    assert counts(lab) == (4, 3, 4, 1)
    image = {"containers": [{"name": "app", "image": "nowhere.invalid/app:v2"}]}
    lab.patch(deployment(), {"spec": {"template": {"spec": image}}})
    lab.run(20)
    sets = {one["metadata"]["ownerReferences"][0]["name"] for one in lab.pods()}
    assert len(sets) == 2
    total, desired, current, _ = counts(lab)
    assert (total, desired, current) == (4, 3, sum(map(ready, lab.pods())))


def test_budget_14_a_target_that_is_gone() -> None:
    lab = lab_with(budget(maxUnavailable=1))
    assert counts(lab) == (0, 0, 0, 0)
    assert "NoPods" in lab.events("keep")


def test_pub_22_a_kind_whose_pods_cannot_be_counted() -> None:
    lab = lab_with(budget(kind="Game", maxUnavailable=1))
    assert counts(lab) == (0, 0, 0, 0)
    assert "CalculateExpectedPodCountFailed" in lab.events("keep")


def test_pub_23_pods_carry_the_name_of_their_budget() -> None:
    lab = lab_with(cloneset(replicas=1))
    lab.apply(budget(maxUnavailable=1))
    lab.run(5)  # written by the controller
    lab.patch(cloneset(), {"spec": {"replicas": 2}})
    lab.run(30)  # written by the webhook
    notes = [one["metadata"]["annotations"] for one in lab.pods()]
    assert [(n[RELATED], n[RELATED_LEGACY]) for n in notes] == [("keep", "keep")] * 2


def test_pub_24_the_next_budget_takes_the_place_of_one_that_is_gone() -> None:
    lab = lab_with(cloneset(replicas=1), budget("old", maxUnavailable=1))
    lab.delete(budget("old"))
    lab.apply(budget("new", maxUnavailable=1))
    lab.run(5)
    assert lab.pods()[0]["metadata"]["annotations"][RELATED] == "new"
