"""NodeImages: IMG-30, IMG-32, IMG-33."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.model.node.node_image import node_image
from gitkruise.model.planning.plan import Delete, Patch, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.node.node_image import (
    NodeImageSnapshot,
    NodeSnapshot,
    plan_node,
    plan_node_image,
)
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.planner.node.images import JOB, node_image_of, tag
from tests.pods import NOW

GATES = Gates(image_pull_job_gate=True)
JOBS = {("shop", "job"): "job-uid"}


def after(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


def node(ready: str = "True", **labels: str) -> Obj:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": format_time(NOW)}
    return {"metadata": {"name": "n1", "labels": labels}, "status": {"conditions": [condition]}}


CREATED = {
    "IMG-30: ready long enough": (node(), False, 30, True),
    "not long enough": (node(), False, 29, False),
    "not ready": (node("False"), False, 30, False),
    "virtual": (node(type="virtual-kubelet"), False, 30, False),
    "exists": (node(), True, 30, False),
}


@pytest.mark.parametrize("row", CREATED)
def test_a_node_gets_its_image(row: str) -> None:
    raw, exists, seconds, expected = CREATED[row]
    made = plan_node(NodeSnapshot(node=raw, exists=exists, now=after(seconds)), GATES)
    assert bool(made.actions) is expected
    if row == "not long enough":
        assert made.wake_at == after(30)


def snapshot(raw: Obj, *, on: Obj | None = None, seconds: float = 0) -> NodeImageSnapshot:
    return NodeImageSnapshot(
        image=node_image(raw), raw=raw, node=on or node(), jobs=JOBS, now=after(seconds)
    )


def cleaned(made: Plan) -> Any:
    """The images that are written; None when nothing is."""
    for action in made.actions:
        assert isinstance(action, Patch)
        return action.steps[0].body["spec"]["images"]
    return None


FINISHED = {"tag": "1", "phase": "Succeeded", "completionTime": format_time(NOW)}
REBORN = tag("1", owners=())
REBORN["ownerReferences"] = [{**JOB, "uid": "older-uid"}]
OTHER = tag("1", owners=())
OTHER["ownerReferences"] = [{"kind": "Deployment", "name": "x", "uid": "d"}]
BOTH = tag("1")
BOTH["ownerReferences"] += REBORN["ownerReferences"]
TTL: dict[str, Any] = {"pullPolicy": {"ttlSecondsAfterFinished": 60}}
GONE = {"nginx": None}
CLEANED: dict[str, tuple[Obj, list[Obj], float, Any]] = {
    # tag, statuses, seconds → images that are written
    "its job exists": (tag("1"), [], 0, None),
    "without a time": (tag("1", createdAt=None), [], 0, GONE),
    "of another kind": (OTHER, [], 0, None),
    "of a job that was created again": (REBORN, [], 0, GONE),
    "of two jobs, one of them gone": (BOTH, [], 0, {"nginx": {"tags": [tag("1")]}}),
    "finished for less than its time to live": (tag("1", **TTL), [FINISHED], 59, None),
    "IMG-32: finished long enough": (tag("1", **TTL), [FINISHED], 60, GONE),
    "the status is of an older version": (tag("1", version=1, **TTL), [FINISHED], 60, None),
}


@pytest.mark.parametrize("row", CLEANED)
def test_tags_that_are_done_with_go(row: str) -> None:
    wanted, statuses, seconds, expected = CLEANED[row]
    raw = node_image_of({"nginx": [wanted]}, {"nginx": statuses} if statuses else {})
    assert cleaned(plan_node_image(snapshot(raw, seconds=seconds), GATES)) == expected


def test_labels_follow_those_of_the_node() -> None:
    raw = node_image_of(labels={"old": "x", "zone": "a"})
    (action,) = plan_node_image(snapshot(raw, on=node(zone="b")), GATES).actions
    assert isinstance(action, Patch)
    assert action.steps[0].body["metadata"]["labels"] == {"old": None, "zone": "b"}


def test_a_node_that_is_gone_takes_its_image_along() -> None:
    raw = node_image_of()
    gone = {**node(), "metadata": {"name": "n1", "deletionTimestamp": format_time(NOW)}}
    (action,) = plan_node_image(snapshot(raw, on=gone), GATES).actions
    assert isinstance(action, Delete)
    raw["metadata"]["labels"] = {"apps.kruise.io/fake-nodeimage": "true"}
    assert plan_node_image(snapshot(raw, on=gone), GATES) == Plan()


SILENT = "node has not responded for a long time"
DEADLINE = "pulling exceeds the activeDeadlineSeconds"
LIMITED: dict[str, Any] = {"pullPolicy": {"activeDeadlineSeconds": 30}}
PULLING = {"tag": "1", "phase": "Pulling"}
JUDGED: dict[str, tuple[Obj, list[Obj], float, str]] = {
    # tag, statuses, seconds → message of the failure
    "IMG-33: no report": (tag("1"), [], 600, SILENT),
    "an agent may take ten minutes": (tag("1"), [], 599, ""),
    "a report of an older version": (tag("1", version=1), [FINISHED], 600, SILENT),
    "it pulls": (tag("1"), [PULLING], 6000, ""),
    "IMG-33: it pulls for too long": (tag("1", **LIMITED), [PULLING], 630, DEADLINE),
    "it has finished": (tag("1", **LIMITED), [FINISHED], 6000, ""),
}


@pytest.mark.parametrize("row", JUDGED)
def test_an_agent_that_is_silent_fails_its_tags(row: str) -> None:
    wanted, statuses, seconds, message = JUDGED[row]
    raw = node_image_of({"nginx": [wanted]}, {"nginx": statuses} if statuses else {})
    made = plan_node_image(snapshot(raw, seconds=seconds), GATES)
    if not message:
        assert made.status is None
        return
    assert made.status is not None
    (status,) = made.status["imageStatuses"]["nginx"]["tags"]
    assert (status["phase"], status["message"]) == ("Failed", message)
    assert made.status["failed"] == 1
    (event,) = made.events
    assert event.message == f"Failed to pull image nginx:1 on node n1 for {message}"
