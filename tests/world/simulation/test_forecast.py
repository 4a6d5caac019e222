"""Forecast of CloneSet rollouts: steps by pod, and the state at the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.errors import InvalidObject
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.simulation.forecast import Forecast, predict
from tests.worlds import SPACE, Lab, cloneset, container, create

CLONESETS = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")


def change(name: str = "web", **spec: Any) -> ApiRequest:
    return ApiRequest(
        verb="patch",
        resource=CLONESETS,
        namespace=SPACE,
        name=name,
        body={"spec": spec},
        content_type=MERGE_PATCH,
    )


def image(name: str, **container_fields: Any) -> dict[str, Any]:
    fields = container(image=name, **container_fields)
    return {"template": {"spec": {"containers": [fields]}}}


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"rollingUpdate": fields}}


def running(obj: Obj) -> Lab:
    lab = Lab()
    lab.apply(obj)
    lab.run()
    return lab


def forecast(lab: Lab, *writes: ApiRequest) -> Forecast:
    return predict(lab.world, writes, lab.now, profile=FAST)


def test_an_in_place_canary_is_forecast_pod_by_pod_and_step_by_step() -> None:
    lab = running(cloneset(replicas=10, maxUnavailable="20%"))
    write = change(**image("app:v2"), **rolling(partition="60%"))
    (found,) = forecast(lab, write).rollouts
    assert [[move.how for move in step.moves] for step in found.steps] == [["in-place"] * 2] * 2
    assert len({move.pod for step in found.steps for move in step.moves}) == 4
    assert (found.partition, found.max_unavailable, found.max_surge) == (6, 2, 0)
    assert (found.updated_before, found.updated_after) == (0, 4)
    assert (found.hold, found.message) == ("PartitionReached", "4/10 updated")
    assert found.previous != found.revision
    assert found.steps[0].starts == timedelta(0)
    assert found.lasts >= found.steps[1].starts > timedelta(0)


HOOK = {"labelsHandler": {"guard": "on"}, "finalizersHandler": ["example.com/drain"]}


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (change(**image("app:v2")), "in-place"),
        (change(**image("app:v1", env=[{"name": "A", "value": "b"}])), "recreate"),
    ],
)
def test_the_controllers_of_lifecycle_hooks_let_pods_go_on(write: ApiRequest, how: str) -> None:
    obj = cloneset(replicas=3, maxUnavailable=1)
    hooks = {"preNormal": HOOK, "inPlaceUpdate": HOOK, "preDelete": HOOK}
    lab = running({**obj, "spec": {**obj["spec"], "lifecycle": hooks}})
    (found,) = forecast(lab, write).rollouts
    assert (found.count(how), found.updated_after, found.hold, found.held) == (3, 3, "", ())


def test_a_change_beyond_images_recreates_pods_and_says_so() -> None:
    lab = running(cloneset(replicas=3, maxUnavailable=1))
    write = change(**image("app:v1", env=[{"name": "A", "value": "b"}]))
    (found,) = forecast(lab, write).rollouts
    assert (found.count("recreate"), found.count("in-place"), found.count("create")) == (3, 0, 0)
    assert [len(step.moves) for step in found.steps] == [1, 1, 1]
    assert found.hold == ""


HUGE = {"requests": {"cpu": "1000"}}


def test_scaling_is_creation_or_removal() -> None:
    lab = running(cloneset(replicas=3))
    (out,) = forecast(lab, change(replicas=5)).rollouts
    (back,) = forecast(lab, change(replicas=1)).rollouts
    assert (out.count("create"), out.count("recreate")) == (2, 0)
    assert (back.count("delete"), back.count("recreate")) == (2, 0)


def test_a_bad_image_is_seen_to_get_stuck_within_its_budget() -> None:
    lab = running(cloneset(replicas=5, maxUnavailable=2))
    (found,) = forecast(lab, change(**image("app:bad"))).rollouts
    assert found.hold == "Stuck"
    assert [len(step.moves) for step in found.steps] == [2]
    assert {why for _, why in found.held if "Budget" in why or "Ready" in why} != set()
    assert found.message == (
        "2 updated pods cannot start: image app:bad cannot be pulled; 3 of 5 keep serving"
    )


def test_pods_that_no_node_takes_are_named_as_the_cause() -> None:
    lab = running(cloneset(replicas=2))
    (found,) = forecast(lab, change(**image("app:v1", resources=HUGE))).rollouts
    assert found.hold == "Stuck"
    assert found.message.startswith("1/2 updated, 2 asked; no node takes it: 0/3 nodes")


def test_pods_that_the_server_refuses_are_the_cause() -> None:
    lab = Lab()
    obj = cloneset("l" * 63, replicas=2)  # with the hash of its revision too long for a label
    obj["metadata"]["namespace"] = SPACE
    (found,) = forecast(lab, create(lab.world, obj)).rollouts
    assert (found.hold, found.steps) == ("Stuck", ())
    assert "metadata.labels: Invalid value" in found.message
    assert "since" not in found.message


def test_a_paused_cloneset_moves_nothing() -> None:
    lab = running(cloneset(replicas=3))
    (found,) = forecast(lab, change(**image("app:v2"), **rolling(paused=True))).rollouts
    assert (found.steps, found.hold) == ((), "Paused")


def test_a_new_cloneset_is_predicted_from_nothing() -> None:
    lab = Lab()
    obj = cloneset("api", replicas=2)
    obj["metadata"]["namespace"] = SPACE
    (found,) = forecast(lab, create(lab.world, obj)).rollouts
    assert (found.previous, found.count("create"), found.hold) == ("", 2, "")


def test_pods_of_several_revisions_stay() -> None:
    lab = running(cloneset(replicas=6))
    lab.world.handle(change(**image("app:v2"), **rolling(partition=4)), lab.now)
    lab.run()
    (found,) = forecast(lab, change(**image("app:v3"), **rolling(partition=5))).rollouts
    assert sorted(number for _, number in found.staying) == [1, 4]


def test_the_real_cluster_stays_as_it_was() -> None:
    lab = running(cloneset(replicas=3))
    version, pods = lab.world.version, lab.pods()
    forecasted = forecast(lab, change(**image("app:v2")))
    assert (lab.world.version, lab.pods()) == (version, pods)
    assert forecasted.world.version > version


def test_the_forecast_is_what_then_happens() -> None:
    lab = running(cloneset(replicas=6, maxUnavailable=2))
    write = change(**image("app:v2"), **rolling(partition=2))
    (found,) = forecast(lab, write).rollouts
    lab.world.handle(write, lab.now)
    moved = [line.object for line in lab.run().only("in-place")]
    assert sorted(moved) == sorted(move.pod for step in found.steps for move in step.moves)


def test_unchanged_clonesets_are_not_mentioned() -> None:
    lab = running(cloneset(replicas=1))
    assert forecast(lab).rollouts == ()


def test_a_refused_write_is_raised() -> None:
    lab = running(cloneset(replicas=1))
    with pytest.raises(InvalidObject):
        forecast(lab, change(replicas=-1))


def test_a_workload_without_end_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitkruise.world.simulation.simulation.ROUNDS_MAX", 50)
    lab, leaving = Lab(), cloneset("leaving", 2)
    leaving["spec"]["template"]["metadata"]["labels"]["apps.kruise.io/specified-delete"] = "true"
    writes = [
        replace(create(lab.world, obj), namespace=SPACE) for obj in (leaving, cloneset("web", 2))
    ]
    found = forecast(lab, *writes)
    outcomes = {p.key.name: (p.hold, p.message) for p in found.rollouts}
    assert outcomes == {
        "leaving": ("Stuck", "its pods are created and deleted without end"),
        "web": ("", "2/2 updated"),
    }  # fmt: skip
