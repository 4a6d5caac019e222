"""The controller of requests to recreate containers: CRR-30 to CRR-36, RECREATE-17, RECREATE-18."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.model.node.recreate_request import recreate_request
from gitkruise.model.planning.plan import Delete, Patch, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.node.recreate_controller import RecreateSnapshot, plan_request
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from tests.planner.node.requests import request
from tests.pods import NOW

GATE = "KruisePodReady"
KEY = '[{"userAgent":"ContainerRecreateRequest","key":"shop/again"}]'


def after(seconds: float) -> Any:
    return NOW + timedelta(seconds=seconds)


def pod(
    *ids: str, uid: str = "pod-uid", phase: str = "Running", gate: bool = False, key: str = "[]",
    started: float = 1, **meta: Any,
) -> PodFacts:  # fmt: skip
    """Ready running containers: `app-1` is the container app after one restart."""
    statuses = []
    for id_ in ids:
        name, _, restarts = id_.rpartition("-")
        running = {"running": {"startedAt": format_time(after(started))}}
        counts = {"restartCount": int(restarts), "containerID": f"containerd://{id_}"}
        statuses.append({"name": name, "ready": True, "state": running, **counts})
    condition = {"type": GATE, "status": "True" if key == "[]" else "False", "message": key}
    return pod_facts(
        {
            "metadata": {"name": "web-0", "namespace": "shop", "uid": uid, "resourceVersion": "9"}
            | meta,
            "spec": {
                "containers": [{"name": "app"}],
                "readinessGates": [{"conditionType": GATE}] if gate else [],
            },
            "status": {
                "phase": phase,
                "containerStatuses": statuses,
                "conditions": [condition] if gate else [],
            },
        }
    )


def plan(raw: Obj, found: PodFacts | None, seconds: float = 0) -> Plan:
    snapshot = RecreateSnapshot(request=recreate_request(raw), pod=found, now=after(seconds))
    return plan_request(snapshot, Gates())


def bodies(made: Plan) -> list[Any]:
    """Each write: the body of its only step, or `delete`."""
    found: list[Any] = []
    for action in made.actions:
        match action:
            case Patch(steps=(step,)):
                found.append(step.body)
            case Delete():
                found.append("delete")
            case _:
                raise AssertionError(f"no such action is expected: {action}")
    return found


def ended(message: str, seconds: float) -> list[Any]:
    status = {
        "phase": "Completed",
        "completionTime": format_time(after(seconds)),
        "message": message,
    }
    return [{"status": status}]


GONE = "pod has gone"
ENDS: dict[str, tuple[Obj, PodFacts | None, float, list[Any]]] = {
    "RECREATE-17: no pod": (request("app"), None, 5, ended(GONE, 5)),
    "CRR-32: replaced": (request("app"), pod("app-0", uid="other"), 5, ended(GONE, 5)),
    "CRR-32: terminating": (
        request("app"),
        pod("app-0", deletionTimestamp=format_time(NOW)),
        5,
        ended(GONE, 5),
    ),
    "finished": (request("app"), pod(phase="Succeeded"), 5, ended("pod has finished", 5)),
    "finished, its sidecar still runs": (request("app"), pod("app-0", phase="Failed"), 5, []),
    "CRR-33: an agent may take a minute": (request("app", phase=""), pod("app-0"), 59, []),
    "CRR-33: it did not answer": (
        request("app", phase=""),
        pod("app-0"),
        60,
        ended("daemon has not responded for a long time", 60),
    ),
    "CRR-46: pending has no limit": (request("app", phase="Pending"), pod("app-0"), 6000, []),
    "CRR-34: deadline": (
        request("app", activeDeadlineSeconds=3),
        pod("app-0"),
        3,
        ended("recreating has exceeded the activeDeadlineSeconds", 3),
    ),
    "nothing happened yet": (request("app"), pod("app-0"), 2, []),
}


@pytest.mark.parametrize("row", ENDS)
def test_a_request_ends_without_its_agent(row: str) -> None:
    raw, found, seconds, expected = ENDS[row]
    assert bodies(plan(raw, found, seconds)) == expected


def test_the_next_limit_wakes() -> None:
    assert plan(request("app", phase=""), pod("app-0")).wake_at == after(60)
    raw = request("app", phase="", activeDeadlineSeconds=9)
    assert plan(raw, pod("app-0")).wake_at == after(9)
    assert plan(request("app"), pod("app-0")).wake_at is None


def entry(name: str, restarts: int) -> Obj:
    id_ = f"containerd://{name}-{restarts}"
    return {"name": name, "ready": True, "restartCount": restarts, "containerID": id_}


SNAPSHOTS: dict[str, tuple[PodFacts, list[Obj], list[Obj] | None]] = {
    "CRR-35: restarted": (pod("app-1", "side-0"), [], [entry("app", 1)]),
    "in the order of the request": (
        pod("side-1", "app-1"), [], [entry("app", 1), entry("side", 1)],
    ),
    "known": (pod("app-1"), [entry("app", 1)], None),
    "again": (pod("app-2"), [entry("app", 1)], [entry("app", 2)]),
    "an empty one keeps the old": (pod("app-0"), [entry("app", 1)], None),
    "RECREATE-18: the node's clock is behind": (pod("app-1", started=-2), [], [entry("app", 1)]),
}  # fmt: skip


@pytest.mark.parametrize("row", SNAPSHOTS)
def test_the_agent_reads_a_snapshot(row: str) -> None:
    found, known, expected = SNAPSHOTS[row]
    raw = request("app", "side", status={"containerStatusSnapshot": known})
    wanted = [] if expected is None else [{"status": {"containerStatusSnapshot": expected}}]
    assert bodies(plan(raw, found)) == wanted


DRAIN = {
    "type": "PreRecreateGrace",
    "status": "True",
    "reason": "PreRecreateGrace",
    "message": "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain",
    "lastTransitionTime": format_time(NOW),
}
FINALIZER = "crr.apps.kruise.io/unready-acquired"


def test_recreate_13_a_pod_with_the_gate_leaves_service() -> None:
    raw = request("app", unreadyGracePeriodSeconds=1)
    assert bodies(plan(raw, pod("app-0", gate=True))) == [{"metadata": {"finalizers": [FINALIZER]}}]
    raw["metadata"]["finalizers"] = [FINALIZER]
    leave, drain = bodies(plan(raw, pod("app-0", gate=True)))
    (condition,) = leave["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == (GATE, "False", KEY)
    assert drain == {"status": {"conditions": [DRAIN]}}
    raw["status"]["conditions"] = [DRAIN]
    assert bodies(plan(raw, pod("app-0", gate=True, key=KEY), 2)) == []


def test_recreate_13_a_pod_without_the_gate_only_waits() -> None:
    raw = request("app", unreadyGracePeriodSeconds=0)
    assert bodies(plan(raw, pod("app-0"))) == [{"status": {"conditions": [DRAIN]}}]


def completed(**more: Any) -> dict[str, Any]:
    over = {"completionTime": format_time(NOW)}
    return request("app", phase="Completed", status=over, **more)


def test_crr_30_the_pod_is_back_in_service_before_the_finalizer_goes() -> None:
    raw = completed()
    raw["metadata"]["finalizers"] = [FINALIZER, "other"]
    back, rest = bodies(plan(raw, pod("app-1", gate=True, key=KEY)))
    (condition,) = back["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("True", "[]")
    assert rest == {"metadata": {"finalizers": ["other"]}}
    assert bodies(plan(raw, None)) == [rest]


def test_crr_31_completed_requests_lose_their_label_and_expire() -> None:
    raw = completed(ttlSecondsAfterFinished=10)
    label = {"crr.apps.kruise.io/active": None}
    assert bodies(plan(raw, None)) == [{"metadata": {"labels": label}}]
    del raw["metadata"]["labels"]["crr.apps.kruise.io/active"]
    assert plan(raw, None, 4) == Plan(wake_at=after(10))
    assert bodies(plan(raw, None, 10)) == ["delete"]
    del raw["spec"]["ttlSecondsAfterFinished"]
    assert plan(raw, None, 6000) == Plan()


def test_without_an_agent_nothing_is_done() -> None:
    snapshot = RecreateSnapshot(request=recreate_request(request("app")), pod=None, now=NOW)
    assert plan_request(snapshot, Gates(kruise_daemon=False)) == Plan()
