"""Forecast of StatefulSets of OpenKruise and Kubernetes: pods by name, step by step, and where
the rollout stops."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.simulation.forecast import predict
from tests.planner.statefulset.build import GATE, IN_PLACE, StatefulLab
from tests.worlds import SPACE, Lab, container, template

SETS = ResourceRef("apps.kruise.io", "v1beta1", "statefulsets")


def forecast(lab: Lab, sets: ResourceRef = SETS, **spec: Any) -> RolloutForecast:
    write = ApiRequest(
        verb="patch",
        resource=sets,
        namespace=SPACE,
        name="db",
        body={"spec": spec},
        content_type=MERGE_PATCH,
    )
    (found,) = predict(lab.world, [write], lab.now, profile=FAST).rollouts
    return found


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [container(image=name)]}}}


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"rollingUpdate": fields}}


def moves(found: RolloutForecast) -> list[list[tuple[str, str]]]:
    return [[(move.pod, move.how) for move in step.moves] for step in found.steps]


def test_pods_are_recreated_from_the_highest_down() -> None:
    found = forecast(StatefulLab(replicas=4), **image("app:v2"), **rolling(partition=2))
    assert moves(found) == [[("db-3", "recreate")], [("db-2", "recreate")]]
    assert (found.partition, found.max_unavailable, found.max_surge) == (2, 1, 0)
    assert (found.updated_before, found.updated_after, found.hold) == (0, 2, "PartitionReached")
    assert dict(found.held) == {"db-0": "PartitionReached", "db-1": "PartitionReached"}


def test_pods_that_are_updated_in_place_move_within_max_unavailable() -> None:
    lab = StatefulLab(
        replicas=4,
        pod=GATE,
        rolling={**IN_PLACE, "maxUnavailable": 2},
        podManagementPolicy="Parallel",
    )
    found = forecast(lab, **image("app:v2"))
    assert moves(found) == [
        [("db-3", "in-place"), ("db-2", "in-place")],
        [("db-1", "in-place"), ("db-0", "in-place")],
    ]
    assert (found.hold, found.updated_after) == ("", 4)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"replicas": 5}, ["db-3 create", "db-4 create"]),
        ({"replicas": 1}, ["db-2 delete", "db-1 delete"]),
        ({"reserveOrdinals": [0]}, ["db-3 create", "db-0 delete"]),
    ],
    ids=["out", "in", "reserved"],
)
def test_scaling(spec: dict[str, Any], expected: list[str]) -> None:
    found = forecast(StatefulLab(), **spec)
    assert [f"{pod} {how}" for step in moves(found) for pod, how in step] == expected


def test_a_bad_image_gets_stuck_at_the_first_pod() -> None:
    found = forecast(StatefulLab(), **image("app:bad"))
    assert (found.hold, found.updated_after) == ("Stuck", 1)
    assert moves(found) == [[("db-2", "recreate")]]
    assert found.message.startswith("1 updated pod cannot start: image app:bad cannot be pulled")


def test_a_pause_and_on_delete_hold_everything() -> None:
    paused = forecast(StatefulLab(), **image("app:v2"), **rolling(paused=True))
    assert (paused.hold, moves(paused)) == ("Paused", [])
    free = forecast(StatefulLab(updateStrategy={"type": "OnDelete"}), **image("app:v2"))
    assert (free.hold, moves(free)) == ("OnDelete", [])


BUILTIN = ResourceRef("apps", "v1", "statefulsets")


def builtin(**spec: Any) -> RolloutForecast:
    """The forecast of a StatefulSet of Kubernetes with four pods."""
    lab = Lab()
    labels, pod = {"matchLabels": {"app": "db"}}, template(app="db")
    made = {"replicas": 4, "serviceName": "db", "selector": labels, "template": pod}
    lab.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
               "spec": made})  # fmt: skip
    lab.run()
    return forecast(lab, BUILTIN, **spec)


def test_kubernetes_replaces_one_pod_after_the_other_down_to_the_partition() -> None:
    found = builtin(**image("app:v2"), **rolling(partition=2, maxUnavailable=3))
    assert moves(found) == [[("db-3", "recreate")], [("db-2", "recreate")]]
    assert (found.partition, found.max_unavailable, found.max_surge) == (2, 1, 0)
    assert (found.updated_before, found.updated_after, found.hold) == (0, 2, "PartitionReached")
    assert dict(found.held) == {"db-0": "PartitionReached", "db-1": "PartitionReached"}


def test_a_lower_partition_of_kubernetes_lets_the_next_ones_through() -> None:
    found = builtin(**image("app:v2"), **rolling(partition=0))
    assert [len(step) for step in moves(found)] == [1, 1, 1, 1]
    assert (found.hold, found.updated_after, found.held) == ("", 4, ())


def test_kubernetes_waits_for_a_bad_pod_and_for_users_who_delete() -> None:
    stuck = builtin(**image("app:bad"))
    assert (stuck.hold, moves(stuck)) == ("Stuck", [[("db-3", "recreate")]])
    free = builtin(**image("app:v2"), updateStrategy={"type": "OnDelete", "rollingUpdate": None})
    assert (free.hold, moves(free)) == ("OnDelete", [])
    assert set(dict(free.held).values()) == {"OnDelete"}
