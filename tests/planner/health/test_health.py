"""Health of objects: one row per kind and state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitkruise.planner.health.health import Phase, health

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def obj(kind: str, spec: Any = None, status: Any = None, **meta: Any) -> dict[str, Any]:
    """`apps/v1/Deployment` with a spec and a status; a status of None is left out."""
    api_version, _, word = kind.rpartition("/")
    made = {
        "apiVersion": api_version,
        "kind": word,
        "metadata": {"name": "x", "namespace": "n", "generation": 2, **meta},
        "spec": spec or {},
    }
    return made if status is None else {**made, "status": status}


def says(type_: str, status: str = "True", reason: str = "", **more: Any) -> dict[str, Any]:
    pairs = {"type": type_, "status": status, "reason": reason, **more}
    return {"conditions": [{key: value for key, value in pairs.items() if value}]}


DEPLOY, SET = "apps/v1/Deployment", "apps/v1/ReplicaSet"
STATEFUL, DAEMON = "apps/v1/StatefulSet", "apps/v1/DaemonSet"
JOB, CRON, CRD = (
    "batch/v1/Job",
    "batch/v1/CronJob",
    "apiextensions.k8s.io/v1/CustomResourceDefinition",
)
CLAIM, SERVICE, SPACE = "v1/PersistentVolumeClaim", "v1/Service", "v1/Namespace"
ALPHA, BETA = "apps.kruise.io/v1alpha1/CloneSet", "apps.kruise.io/v1beta1/CloneSet"
SIDECARS = ("apps.kruise.io/v1alpha1/SidecarSet", "apps.kruise.io/v1beta1/SidecarSet")

AT, LATER = "2026-11-21T09:00:00Z", "2026-11-21T09:00:07Z"
FULL = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
LATE = says("Progressing", "False", "ProgressDeadlineExceeded")
WAITING = {"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
UNSCHEDULABLE = says(
    "PodScheduled", "False", "Unschedulable", lastTransitionTime="2026-11-21T09:59:50Z"
)

ROWS: dict[str, tuple[Any, Phase, str]] = {
    "deleted": (obj(DEPLOY, deletionTimestamp="x"), Phase.TERMINATING, "Terminating"),
    "newest spec not seen": (
        obj(DEPLOY, {"replicas": 3}, {**FULL, "observedGeneration": 1}),
        Phase.IN_PROGRESS,
        "LatestGenerationNotObserved",
    ),
    "stalled": (obj("x.io/v1/Thing", {}, says("Stalled", reason="Bad")), Phase.FAILED, "Bad"),
    "a unit, which reports for itself": (
        obj("gitkruise.io/v1alpha1/Unit", {}, {**says("Ready", "False"), "observedGeneration": 1}),
        Phase.CURRENT,
        "",
    ),
    "reconciling": (
        obj("x.io/v1/Thing", {}, says("Reconciling", reason="Busy")),
        Phase.IN_PROGRESS,
        "Busy",
    ),
    "not ready": (
        obj("x.io/v1/Thing", {}, says("Ready", "False", "Waits")),
        Phase.IN_PROGRESS,
        "Waits",
    ),
    "generation as text, not seen": (
        obj("argoproj.io/v1alpha1/Rollout", {}, {"observedGeneration": "1"}),
        Phase.IN_PROGRESS,
        "LatestGenerationNotObserved",
    ),
    "Argo Rollout without a phase": (
        obj("argoproj.io/v1alpha1/Rollout"),
        Phase.IN_PROGRESS,
        "NotObserved",
    ),
    "Argo Rollout that goes on": (
        obj("argoproj.io/v1alpha1/Rollout", {}, {"phase": "Progressing"}),
        Phase.IN_PROGRESS,
        "Progressing",
    ),
    "Argo Rollout at a step that waits": (
        obj("argoproj.io/v1alpha1/Rollout", {}, {"phase": "Paused"}),
        Phase.PAUSED,
        "Paused",
    ),
    "Argo Rollout that fails": (
        obj("argoproj.io/v1alpha1/Rollout", {}, {"phase": "Degraded"}),
        Phase.FAILED,
        "Degraded",
    ),
    "Argo Rollout that is complete": (
        obj("argoproj.io/v1alpha1/Rollout", {}, {"phase": "Healthy"}),
        Phase.CURRENT,
        "Healthy",
    ),
    "generation as text, seen": (
        obj("x.io/v1/Thing", {}, {"observedGeneration": "2"}),
        Phase.CURRENT,
        "",
    ),
    "a hash for a generation": (
        obj("x.io/v1/Thing", {}, {"observedGeneration": "7d9f8c"}),
        Phase.CURRENT,
        "",
    ),
    "ready in an earlier generation": (
        obj("cert-manager.io/v1/Certificate", {}, says("Ready", observedGeneration=1)),
        Phase.IN_PROGRESS,
        "LatestGenerationNotObserved",
    ),
    "ready in this generation": (
        obj("cert-manager.io/v1/Certificate", {}, says("Ready", observedGeneration=2)),
        Phase.CURRENT,
        "",
    ),
    "stalled in an earlier generation": (
        obj("x.io/v1/Thing", {}, says("Stalled", reason="Bad", observedGeneration=1)),
        Phase.IN_PROGRESS,
        "LatestGenerationNotObserved",
    ),
    "generation of the status, which goes first": (
        obj("x.io/v1/Thing", {}, {**says("Ready", observedGeneration=1), "observedGeneration": 2}),
        Phase.CURRENT,
        "",
    ),
    "conditions by name": (
        obj("x.io/v1/Thing", {}, {"conditions": {"Ready": "True"}}),
        Phase.CURRENT,
        "",
    ),
    "conditions as words": (obj("x.io/v1/Thing", {}, {"conditions": ["Ready"]}), Phase.CURRENT, ""),
    "conditions as a number": (obj("x.io/v1/Thing", {}, {"conditions": 3}), Phase.CURRENT, ""),
    "nothing to tell": (obj("v1/ConfigMap"), Phase.CURRENT, ""),
    "deployment complete": (obj(DEPLOY, {"replicas": 3}, FULL), Phase.CURRENT, "Available"),
    "deployment too late": (
        obj(DEPLOY, {"replicas": 3}, {**FULL, **LATE}),
        Phase.FAILED,
        "ProgressDeadlineExceeded",
    ),
    "deployment paused": (
        obj(DEPLOY, {"replicas": 3, "paused": True}, {**FULL, "updatedReplicas": 1}),
        Phase.PAUSED,
        "Paused",
    ),
    "CAN-32 deployment held by its canary": (
        obj(
            DEPLOY,
            {"replicas": 3, "paused": True},
            {**FULL, "updatedReplicas": 1},
            annotations={"gitkruise.io/canary-paused": "b/1/a"},
        ),
        Phase.HELD,
        "CanaryReached",
    ),
    "CAN-32 deployment held, not available": (
        obj(
            DEPLOY,
            {"replicas": 3, "paused": True},
            {**FULL, "updatedReplicas": 1, "availableReplicas": 2},
            annotations={"gitkruise.io/canary-paused": "b/1/a"},
        ),
        Phase.IN_PROGRESS,
        "LessAvailable",
    ),
    "deployment old pods": (
        obj(DEPLOY, {"replicas": 3}, {**FULL, "replicas": 4}),
        Phase.IN_PROGRESS,
        "ExtraPods",
    ),
    "deployment not available": (
        obj(DEPLOY, {"replicas": 3}, {**FULL, "availableReplicas": 2}),
        Phase.IN_PROGRESS,
        "LessAvailable",
    ),
    "deployment without status": (obj(DEPLOY, {"replicas": 0}), Phase.IN_PROGRESS, "NoStatus"),
    "replica set": (
        obj(SET, {"replicas": 3}, {**FULL, "fullyLabeledReplicas": 3}),
        Phase.CURRENT,
        "Available",
    ),
    "replica set short": (
        obj(SET, {"replicas": 3}, {"replicas": 1, "fullyLabeledReplicas": 1}),
        Phase.IN_PROGRESS,
        "LessLabelled",
    ),
    "stateful set": (
        obj(STATEFUL, {"replicas": 3}, {**FULL, "currentReplicas": 3}),
        Phase.CURRENT,
        "Ready",
    ),
    "stateful set held": (
        obj(
            STATEFUL,
            {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            {**FULL, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
        ),
        Phase.HELD,
        "PartitionReached",
    ),
    "stateful set rolling": (
        obj(
            STATEFUL,
            {"replicas": 3},
            {**FULL, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
        ),
        Phase.IN_PROGRESS,
        "LessCurrent",
    ),
    "stateful set on delete": (
        obj(
            STATEFUL,
            {"replicas": 3, "updateStrategy": {"type": "OnDelete"}},
            {**FULL, "updatedReplicas": 1},
        ),
        Phase.HELD,
        "OnDelete",
    ),
    "stateful set on delete, all deleted": (
        obj(STATEFUL, {"replicas": 3, "updateStrategy": {"type": "OnDelete"}}, FULL),
        Phase.CURRENT,
        "OnDelete",
    ),
    "daemon set on delete": (
        obj(
            DAEMON,
            {"updateStrategy": {"type": "OnDelete"}},
            {
                "observedGeneration": 2,
                "desiredNumberScheduled": 2,
                "currentNumberScheduled": 2,
                "updatedNumberScheduled": 1,
                "numberAvailable": 2,
                "numberReady": 2,
            },
        ),
        Phase.HELD,
        "OnDelete",
    ),
    "daemon set": (
        obj(
            DAEMON,
            {},
            {
                "observedGeneration": 2,
                "desiredNumberScheduled": 2,
                "currentNumberScheduled": 2,
                "updatedNumberScheduled": 1,
            },
        ),
        Phase.IN_PROGRESS,
        "LessUpdated",
    ),
    "job runs": (obj(JOB, {}, {"startTime": "x", "active": 1}), Phase.CURRENT, "JobStarted"),
    "no pod of a job runs yet": (
        obj(JOB, {}, {"startTime": "x", "active": 1, "ready": 0}),
        Phase.IN_PROGRESS,
        "NoPodReady",
    ),
    "every pod of a job failed": (
        obj(JOB, {}, {"startTime": "x", "active": 1, "ready": 1, "failed": 2}),
        Phase.IN_PROGRESS,
        "PodsFailed",
    ),
    "job goes on": (
        obj(JOB, {}, {"startTime": "x", "active": 0, "ready": 0, "succeeded": 1, "failed": 1}),
        Phase.CURRENT,
        "JobStarted",
    ),
    "job not started": (obj(JOB, {}, {}), Phase.IN_PROGRESS, "JobNotStarted"),
    "job failed": (
        obj(JOB, {}, says("Failed", reason="BackoffLimitExceeded")),
        Phase.FAILED,
        "BackoffLimitExceeded",
    ),
    "job complete": (obj(JOB, {}, says("Complete")), Phase.CURRENT, "Complete"),
    "job suspended": (obj(JOB, {"suspend": True}, {}), Phase.PAUSED, "Suspended"),
    "cron job": (obj(CRON, {}, {}), Phase.CURRENT, "Scheduled"),
    "cron job that runs": (
        obj(CRON, {}, {"lastScheduleTime": AT, "active": [{"name": "x-1"}]}),
        Phase.CURRENT,
        "Scheduled",
    ),
    "cron job that succeeded": (
        obj(CRON, {}, {"lastScheduleTime": AT, "lastSuccessfulTime": LATER}),
        Phase.CURRENT,
        "Scheduled",
    ),
    "cron job that never succeeded": (
        obj(CRON, {}, {"lastScheduleTime": AT}),
        Phase.FAILED,
        "JobFailed",
    ),
    "cron job whose last Job failed": (
        obj(CRON, {}, {"lastScheduleTime": LATER, "lastSuccessfulTime": AT}),
        Phase.FAILED,
        "JobFailed",
    ),
    "cron job suspended": (obj(CRON, {"suspend": True}), Phase.CURRENT, "Suspended"),
    "pod ready": (
        obj("v1/Pod", {}, {"phase": "Running", **says("Ready")}),
        Phase.CURRENT,
        "PodReady",
    ),
    "pod not ready": (
        obj("v1/Pod", {}, {"phase": "Running", **says("Ready", "False")}),
        Phase.IN_PROGRESS,
        "PodRunningNotReady",
    ),
    "pod cannot pull": (
        obj("v1/Pod", {}, {"phase": "Pending", "containerStatuses": [WAITING]}),
        Phase.FAILED,
        "ImagePullBackOff",
    ),
    "pod completed": (obj("v1/Pod", {}, {"phase": "Succeeded"}), Phase.CURRENT, "PodCompleted"),
    "pod failed": (obj("v1/Pod", {}, {"phase": "Failed"}), Phase.FAILED, "PodFailed"),
    "pod unschedulable for 10 s": (
        obj("v1/Pod", {}, {"phase": "Pending", **UNSCHEDULABLE}),
        Phase.IN_PROGRESS,
        "Unschedulable",
    ),
    "claim bound": (obj(CLAIM, {}, {"phase": "Bound"}), Phase.CURRENT, "Bound"),
    "claim pending": (obj(CLAIM, {}, {"phase": "Pending"}), Phase.IN_PROGRESS, "NotBound"),
    "claim lost": (obj(CLAIM, {}, {"phase": "Lost"}), Phase.FAILED, "Lost"),
    "service": (obj(SERVICE, {"type": "ClusterIP"}), Phase.CURRENT, ""),
    "service waits": (obj(SERVICE, {"type": "LoadBalancer"}), Phase.IN_PROGRESS, "NoIPAssigned"),
    "namespace": (obj(SPACE, {}, {"phase": "Active"}), Phase.CURRENT, "Active"),
    "crd served": (obj(CRD, {}, says("Established")), Phase.CURRENT, "Established"),
    "crd refused": (obj(CRD, {}, says("NamesAccepted", "False", "Taken")), Phase.FAILED, "Taken"),
    "crd installing": (obj(CRD, {}, {}), Phase.IN_PROGRESS, "Installing"),
}

TEN = {"replicas": 10, "readyReplicas": 10, "availableReplicas": 10, "observedGeneration": 2}
FOUR = {**TEN, "updatedReplicas": 4, "updatedReadyReplicas": 4, "updatedAvailableReplicas": 4}
ALL = {**TEN, "updatedReplicas": 10, "updatedReadyReplicas": 10, "updatedAvailableReplicas": 10}

CLONESETS: dict[str, tuple[Any, Any, Phase, str]] = {
    "held": ({"partition": "60%"}, FOUR, Phase.HELD, "PartitionReached"),
    "rolling": ({"partition": "50%"}, FOUR, Phase.IN_PROGRESS, "RollingUpdate"),
    "updated pods not available": (
        {"partition": 6},
        {**FOUR, "updatedAvailableReplicas": 3},
        Phase.IN_PROGRESS,
        "LessAvailable",
    ),
    "paused": ({"partition": 0, "paused": True}, FOUR, Phase.PAUSED, "Paused"),
    "all updated": ({}, ALL, Phase.CURRENT, "Updated"),
    "an updated pod is down": (
        {},
        {**ALL, "availableReplicas": 9},
        Phase.IN_PROGRESS,
        "LessAvailable",
    ),
    "scaling": ({}, {**ALL, "replicas": 9}, Phase.IN_PROGRESS, "Scaling"),
    "too late": ({}, {**FOUR, **LATE}, Phase.FAILED, "ProgressDeadlineExceeded"),
    "partition unreadable": ({"partition": "lots"}, FOUR, Phase.FAILED, "UnreadableAmount"),
    "budget unreadable": ({"maxUnavailable": "12.5%"}, ALL, Phase.FAILED, "UnreadableAmount"),
    "not reported": ({}, {}, Phase.IN_PROGRESS, "NoStatus"),
}

SIDECAR_ROWS: dict[str, tuple[Any, dict[str, int], Phase]] = {
    "updated": ({}, {"updatedPods": 5, "updatedReadyPods": 5}, Phase.CURRENT),
    "held": ({"partition": "40%"}, {"updatedPods": 3, "updatedReadyPods": 3}, Phase.HELD),
    "rolling": ({"partition": "20%"}, {"updatedPods": 3, "updatedReadyPods": 3}, Phase.IN_PROGRESS),
    "paused": ({"paused": True}, {"updatedPods": 3, "updatedReadyPods": 3}, Phase.PAUSED),
    "not ready": ({"partition": 2}, {"updatedPods": 3, "updatedReadyPods": 2}, Phase.IN_PROGRESS),
    "unreadable": ({"partition": "lots"}, {"updatedPods": 3, "updatedReadyPods": 3}, Phase.FAILED),
    "budget unreadable": ({"maxUnavailable": "x"}, {"updatedPods": 5}, Phase.FAILED),
    "never updates": ({"type": "NotUpdate"}, {"updatedPods": 0}, Phase.CURRENT),
}


@pytest.mark.parametrize(("raw", "phase", "reason"), ROWS.values(), ids=ROWS)
def test_kinds_of_kubernetes(raw: Any, phase: Phase, reason: str) -> None:
    found = health(raw, now=NOW)
    assert (found.phase, found.reason) == (phase, reason)


@pytest.mark.parametrize("kind", [ALPHA, BETA], ids=["v1alpha1", "v1beta1"])
@pytest.mark.parametrize(
    ("strategy", "status", "phase", "reason"), CLONESETS.values(), ids=CLONESETS
)
def test_clonesets(kind: str, strategy: Any, status: Any, phase: Phase, reason: str) -> None:
    spelled = {"rollingUpdate": strategy} if kind == BETA else strategy
    found = health(obj(kind, {"replicas": 10, "updateStrategy": spelled}, status))
    assert (found.phase, found.reason) == (phase, reason)


def test_an_on_delete_cloneset_with_old_pods_is_held() -> None:
    found = health(obj(BETA, {"replicas": 10, "updateStrategy": {"type": "OnDelete"}}, FOUR))
    assert (found.phase, found.reason) == (Phase.HELD, "OnDelete")


def test_an_updated_pod_of_an_on_delete_cloneset_that_is_not_available_is_awaited() -> None:
    down = {**FOUR, "updatedAvailableReplicas": 3}
    found = health(obj(BETA, {"replicas": 10, "updateStrategy": {"type": "OnDelete"}}, down))
    assert (found.phase, found.message) == (Phase.IN_PROGRESS, "3 of 4 ready")


@pytest.mark.parametrize("kind", SIDECARS)
@pytest.mark.parametrize(("strategy", "counts", "phase"), SIDECAR_ROWS.values(), ids=SIDECAR_ROWS)
def test_sidecarsets(kind: str, strategy: Any, counts: dict[str, int], phase: Phase) -> None:
    status = {"observedGeneration": 2, "matchedPods": 5, **counts}
    assert health(obj(kind, {"updateStrategy": strategy}, status)).phase is phase


def test_what_does_not_exist_is_not_found() -> None:
    assert health(None).phase is Phase.NOT_FOUND


def test_a_pod_that_cannot_be_placed_fails_after_its_grace() -> None:
    raw = obj("v1/Pod", {}, {"phase": "Pending", **UNSCHEDULABLE})
    assert health(raw, now=NOW.replace(second=5)).phase is Phase.FAILED
    assert health(raw).phase is Phase.FAILED


def test_what_is_being_deleted_names_what_keeps_it() -> None:
    kept = obj(
        "v1/Namespace",
        status=says("NamespaceContentRemaining", message="widgets.example.com has 1 instance"),
        deletionTimestamp="x",
        finalizers=["example.com/a", "example.com/b"],
    )
    assert health(kept).message == (
        "the object is being deleted; finalizers: example.com/a, example.com/b;"
        " widgets.example.com has 1 instance"
    )
