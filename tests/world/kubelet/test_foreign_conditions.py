"""Conditions that other controllers write are as incomplete as the API lets them be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.worlds import START, Lab, pod

OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def conditions(lab: Lab) -> dict[str, Any]:
    return {c["type"]: c for c in lab.get(pod())["status"]["conditions"]}


@pytest.mark.parametrize("type_", OWNED)
@pytest.mark.parametrize("status", ["True", "False", "Unknown", ""])
def test_a_condition_without_a_time_gets_one(type_: str, status: str) -> None:
    lab = Lab()
    lab.apply(pod())
    lab.patch(pod(), {"status": {"conditions": [{"type": type_, "status": status}]}},
              subresource="status")  # fmt: skip
    lab.run()
    assert conditions(lab)["Ready"]["status"] == "True"
    assert all(c["lastTransitionTime"] for c in conditions(lab).values())


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{}]},
        {"conditions": None, "containerStatuses": [{"name": "app"}]},
        {"containerStatuses": [{}], "initContainerStatuses": [{"name": "none"}]},
        {"containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 1}}}]},
        {"containerStatuses": [{"name": "app", "ready": True, "restartCount": 5}]},
    ],
)
def test_a_status_of_another_controller_does_not_stop_a_pod(status: Obj) -> None:
    lab = Lab()
    lab.apply(pod())
    lab.apply(pod("q"))
    lab.patch(pod(), {"status": status}, subresource="status")
    lab.run()
    assert conditions(lab)["Ready"]["status"] == "True"
    assert lab.get(pod("q"))["status"]["phase"] == "Running"


def test_a_pod_that_cannot_be_scheduled_keeps_no_time_that_is_not_there() -> None:
    lab = Lab(nodes=0)
    lab.apply(pod())
    missing = [{"type": "PodScheduled", "status": "False"}]
    lab.patch(pod(), {"status": {"conditions": missing}}, subresource="status")
    lab.run(1)
    found = conditions(lab)["PodScheduled"]
    assert (found["reason"], found["lastTransitionTime"]) == ("Unschedulable", format_time(START))


def test_a_namespace_with_a_condition_without_a_time_goes() -> None:
    lab = Lab()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old", "namespace": ""}}
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "held", "namespace": "old", "finalizers": ["example.com/hold"]}}  # fmt: skip
    lab.apply(space)
    lab.apply(held)
    status = [{"type": "NamespaceContentRemaining", "status": "True"}]
    lab.patch(space, {"status": {"conditions": status}}, subresource="status")
    lab.delete(space)
    lab.run(10)
    lab.patch(held, {"metadata": {"finalizers": None}})
    lab.run(timedelta(minutes=5).total_seconds())
    assert lab.get(space) is None
