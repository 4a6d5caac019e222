"""Rollouts of sidecars reconcile by reconcile: SIDE-58 to SIDE-62."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.model.planning.plan import Patch, Plan
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import COLD, injected, moved, plan, running, sidecarset

OLD: Final = sidecarset({**COLD, "image": "side:1"})
NEW: Final = sidecarset({**COLD, "image": "side:2"})


def counters(made: Plan) -> tuple[int, ...]:
    """matched, updated, ready, updated and ready."""
    status = made.status or {}
    names = ("matchedPods", "updatedPods", "readyPods", "updatedReadyPods")
    return tuple(status.get(name, 0) for name in names)


def written(pods: list[dict[str, Any]], made: Plan) -> list[dict[str, Any]]:
    """The pods after the patches of a round, before their node did anything."""
    bodies = {a.key.name: a.steps[0].body for a in made.actions if isinstance(a, Patch)}
    return [_patched(pod, bodies.get(pod["metadata"]["name"])) for pod in pods]


def _patched(pod: dict[str, Any], body: Obj | None) -> dict[str, Any]:
    if body is None or "spec" not in body:
        return pod
    images = {c["name"]: c["image"] for c in body["spec"]["containers"]}
    containers = [{**c, "image": images.get(c["name"], c["image"])} for c in _containers(pod)]
    notes = {**pod["metadata"]["annotations"], **body["metadata"]["annotations"]}
    meta = {**pod["metadata"], "annotations": notes}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "containers": containers}}


def _containers(pod: Obj) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod["spec"]["containers"]
    return found


def restarted(pod: dict[str, Any], *, ready: bool = True) -> dict[str, Any]:
    """The node runs (or cannot run) what the spec says."""
    shown = _containers(pod) if ready else []
    old = pod["status"]["containerStatuses"]
    statuses = [running(c) for c in shown] or [{**s, "ready": s["name"] == "main"} for s in old]
    condition = {**pod["status"]["conditions"][0], "status": str(ready)}
    status = {**pod["status"], "containerStatuses": statuses, "conditions": [condition]}
    return {**pod, "status": status}


def test_side_58_two_pods_one_at_a_time() -> None:
    pods = [injected(OLD, "pod-1", age_s=1), injected(OLD, "pod-2", age_s=2)]
    seen = []
    for round_ in range(6):
        made = plan(NEW, pods, old=[OLD])
        seen.append((counters(made), moved(made)))
        pods = written(pods, made)
        if round_ in {1, 3}:  # the nodes have caught up
            pods = [restarted(pod) for pod in pods]
    assert seen == [
        ((2, 0, 2, 0), ["pod-1"]),
        ((2, 1, 1, 0), []),
        ((2, 1, 2, 1), ["pod-2"]),
        ((2, 2, 1, 1), []),
        ((2, 2, 2, 2), []),
        ((2, 2, 2, 2), []),
    ]


def test_side_60_an_image_that_cannot_be_pulled_is_replaced_by_a_good_one() -> None:
    bad = sidecarset({**COLD, "image": "side:bad"})
    pods = [injected(OLD, "pod-1", age_s=1), injected(OLD, "pod-2", age_s=2)]
    pods = written(pods, plan(bad, pods, old=[OLD]))
    pods = [restarted(pods[0], ready=False), pods[1]]
    stuck = plan(bad, pods, old=[OLD])
    assert (counters(stuck), moved(stuck)) == ((2, 1, 1, 0), [])

    seen = []
    for _ in range(4):
        made = plan(NEW, pods, old=[OLD, bad])
        seen.append(moved(made))
        pods = [restarted(pod) for pod in written(pods, made)]
    assert seen == [["pod-1", "pod-2"], [], [], []], "the stuck one is down and costs nothing"
    assert counters(plan(NEW, pods, old=[OLD, bad])) == (2, 2, 2, 2)
