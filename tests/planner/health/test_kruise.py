"""Health of OpenKruise's kinds that gitkruise does not drive: one row per state."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.planner.health.health import Phase, health
from tests.planner.health.test_health import obj, says

DAEMON: Final = "apps.kruise.io/v1alpha1/DaemonSet"
UNITED: Final = "apps.kruise.io/v1alpha1/UnitedDeployment"
BROADCAST: Final = "apps.kruise.io/v1alpha1/BroadcastJob"
EPHEMERAL: Final = "apps.kruise.io/v1alpha1/EphemeralJob"
CRON: Final = "apps.kruise.io/v1alpha1/AdvancedCronJob"
SPREAD: Final = "apps.kruise.io/v1alpha1/ResourceDistribution"
ROLLOUT: Final = "rollouts.kruise.io/v1beta1/Rollout"
STATEFUL: Final = "apps.kruise.io/v1beta1/StatefulSet"


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}}


def nodes(updated: int, ready: int = 4) -> dict[str, Any]:
    """The status of a DaemonSet on four nodes."""
    return {
        "observedGeneration": 2, "desiredNumberScheduled": 4, "currentNumberScheduled": 4,
        "updatedNumberScheduled": updated, "numberAvailable": ready, "numberReady": ready,
    }  # fmt: skip


def pods(updated: int, ready: int = 4, **more: Any) -> dict[str, Any]:
    """The status of a UnitedDeployment with four pods."""
    return {
        "observedGeneration": 2, "replicas": 4, "updatedReplicas": updated,
        "readyReplicas": ready, **more,
    }  # fmt: skip


def partitions(**kept: int) -> dict[str, Any]:
    """The strategy of a UnitedDeployment that keeps pods in subsets."""
    return {"updateStrategy": {"type": "Manual", "manualUpdate": {"partitions": kept}}}


MANUAL: Final = {"replicas": 4, **partitions(a=1, b=1)}
OVER: Final = {"replicas": 4, **partitions(a=100)}
SUBSETS: Final[dict[str, Any]] = {"subsetReplicas": {"a": 2, "b": 2}}


def step(state: str, number: int = 2) -> dict[str, Any]:
    """The status of a Rollout at a step."""
    canary = {"currentStepIndex": number, "currentStepState": state}
    return {"observedGeneration": 2, "phase": "Progressing", "canaryStatus": canary}


ROWS: dict[str, tuple[Any, Phase, str]] = {
    "daemon set without a status": (obj(DAEMON), Phase.IN_PROGRESS, "NoObservedGeneration"),
    "daemon set rolls": (obj(DAEMON, rolling(), nodes(1)), Phase.IN_PROGRESS, "LessUpdated"),
    "daemon set done": (obj(DAEMON, rolling(), nodes(4)), Phase.CURRENT, "Ready"),
    "daemon set done with a partition":
        (obj(DAEMON, rolling(partition=3), nodes(4)), Phase.CURRENT, "Ready"),
    "daemon set rolls to its partition":
        (obj(DAEMON, rolling(partition=2), nodes(1)), Phase.IN_PROGRESS, "LessUpdated"),
    "daemon set at its partition":
        (obj(DAEMON, rolling(partition=3), nodes(1)), Phase.HELD, "PartitionReached"),
    "daemon set at its percentage":
        (obj(DAEMON, rolling(partition="75%"), nodes(1)), Phase.HELD, "PartitionReached"),
    "daemon set at its partition, not ready":
        (obj(DAEMON, rolling(partition=3), nodes(1, 3)), Phase.IN_PROGRESS, "LessAvailable"),
    "daemon set paused": (obj(DAEMON, rolling(paused=True), nodes(1)), Phase.PAUSED, "Paused"),
    "daemon set on some nodes":
        (obj(DAEMON, rolling(selector={"matchLabels": {"a": "b"}}), nodes(1)), Phase.HELD,
         "PartitionReached"),
    "daemon set of no amount":
        (obj(DAEMON, rolling(partition="most"), nodes(1)), Phase.FAILED, "UnreadableAmount"),
    "daemon set on delete":
        (obj(DAEMON, {"updateStrategy": {"type": "OnDelete"}}, nodes(1)), Phase.HELD, "OnDelete"),
    "united without a status": (obj(UNITED, {"replicas": 4}), Phase.IN_PROGRESS, "NoStatus"),
    "united scales": (obj(UNITED, {"replicas": 5}, pods(4)), Phase.IN_PROGRESS, "Scaling"),
    "united rolls": (obj(UNITED, {"replicas": 4}, pods(1)), Phase.IN_PROGRESS, "LessUpdated"),
    "united not ready": (obj(UNITED, {"replicas": 4}, pods(4, 3)), Phase.IN_PROGRESS, "LessReady"),
    "united at its partitions": (obj(UNITED, MANUAL, pods(2)), Phase.HELD, "PartitionReached"),
    "united rolls below a partition that exceeds its subset":
        (obj(UNITED, OVER, pods(0, **SUBSETS)), Phase.IN_PROGRESS, "LessUpdated"),
    "united at a partition that exceeds its subset":
        (obj(UNITED, OVER, pods(2, **SUBSETS)), Phase.HELD, "PartitionReached"),
    "united with a partition of no subset":
        (obj(UNITED, {"replicas": 4, **partitions(c=4)}, pods(0, **SUBSETS)), Phase.IN_PROGRESS,
         "LessUpdated"),
    "united done": (obj(UNITED, {"replicas": 4}, pods(4)), Phase.CURRENT, "Updated"),
    "united of no size": (obj(UNITED, {}, pods(4)), Phase.CURRENT, "Updated"),
    "united failed":
        (obj(UNITED, {"replicas": 4}, pods(4, **says("SubsetFailure", reason="Bad"))),
         Phase.FAILED, "Bad"),
    "broadcast job without a status": (obj(BROADCAST), Phase.IN_PROGRESS, "NoStatus"),
    "broadcast job runs":
        (obj(BROADCAST, {}, {"phase": "running", "desired": 3, "active": 2, "succeeded": 1}),
         Phase.CURRENT, "JobStarted"),
    "broadcast job paused":
        (obj(BROADCAST, {"paused": True}, {"phase": "running", "desired": 3, "active": 2}),
         Phase.PAUSED, "Paused"),
    "broadcast job complete":
        (obj(BROADCAST, {}, {"phase": "completed", "desired": 3, "succeeded": 3,
                             **says("Complete")}), Phase.CURRENT, "Complete"),
    "broadcast job complete with failures":
        (obj(BROADCAST, {}, {"phase": "completed", "desired": 3, "succeeded": 2, "failed": 1,
                             **says("Complete")}), Phase.FAILED, "PodsFailed"),
    "broadcast job failed":
        (obj(BROADCAST, {}, {"phase": "failed", "desired": 3, **says("Failed")}), Phase.FAILED,
         "PodsFailed"),
    "ephemeral job without a status": (obj(EPHEMERAL), Phase.IN_PROGRESS, "NoStatus"),
    "ephemeral job that runs":
        (obj(EPHEMERAL, {}, {"phase": "Running", "match": 3, "running": 3}), Phase.CURRENT,
         "JobStarted"),
    "ephemeral job paused":
        (obj(EPHEMERAL, {"paused": True}, {"phase": "Paused", "match": 3}), Phase.PAUSED,
         "Paused"),
    "ephemeral job failed":
        (obj(EPHEMERAL, {}, {"phase": "Failed", "match": 3, "succeeded": 2, "failed": 1}),
         Phase.FAILED, "ContainersFailed"),
    "ephemeral job that cannot run":
        (obj(EPHEMERAL, {}, {"phase": "Error", "match": 3}), Phase.FAILED, "ContainersFailed"),
    "ephemeral job complete":
        (obj(EPHEMERAL, {}, {"phase": "Succeeded", "match": 3, "succeeded": 3}), Phase.CURRENT,
         "Complete"),
    "cron job": (obj(CRON, {}, {}), Phase.CURRENT, "Scheduled"),
    "cron job paused": (obj(CRON, {"paused": True}), Phase.CURRENT, "Paused"),
    "stateful set, a pod refused":
        (obj(STATEFUL, {}, {"observedGeneration": 2, **says("FailedCreatePod", reason="Quota")}),
         Phase.IN_PROGRESS, "Quota"),
    "stateful set, a claim that differs":
        (obj(STATEFUL, {}, {"observedGeneration": 2, **says("FailedUpdatePod", reason="Claim")}),
         Phase.FAILED, "Claim"),
    "rollout without a status": (obj(ROLLOUT), Phase.IN_PROGRESS, "NoStatus"),
    "rollout of an earlier generation":
        (obj(ROLLOUT, {}, {"observedGeneration": 1, "phase": "Healthy"}), Phase.IN_PROGRESS,
         "LatestGenerationNotObserved"),
    "rollout that looks for its workload":
        (obj(ROLLOUT, {}, {"observedGeneration": 2, "phase": "Initial"}), Phase.IN_PROGRESS,
         "Initial"),
    "rollout that updates pods":
        (obj(ROLLOUT, {}, step("StepUpgrade")), Phase.IN_PROGRESS, "StepUpgrade"),
    "rollout that waits for a person":
        (obj(ROLLOUT, {}, step("StepPaused")), Phase.PAUSED, "StepPaused"),
    "rollout that waits between blue and green":
        (obj(ROLLOUT, {}, {**step(""), "canaryStatus": None,
                           "blueGreenStatus": {"currentStepState": "StepPaused"}}), Phase.PAUSED,
         "StepPaused"),
    "rollout that is paused":
        (obj(ROLLOUT, {"strategy": {"paused": True}}, step("StepUpgrade")), Phase.PAUSED,
         "Paused"),
    "rollout done":
        (obj(ROLLOUT, {}, {"observedGeneration": 2, "phase": "Healthy"}), Phase.CURRENT,
         "Healthy"),
    "rollout turned off":
        (obj(ROLLOUT, {"disabled": True}, {"observedGeneration": 2, "phase": "Disabled"}),
         Phase.CURRENT, "Disabled"),
    "distribution without a status": (obj(SPREAD), Phase.IN_PROGRESS, "NoStatus"),
    "distribution under way":
        (obj(SPREAD, {}, {"desired": 2, "succeeded": 1}), Phase.IN_PROGRESS, "Distributing"),
    "distribution failed":
        (obj(SPREAD, {}, {"desired": 2, "succeeded": 1, "failed": 1}), Phase.FAILED,
         "NotDistributed"),
    "distribution done":
        (obj(SPREAD, {}, {"desired": 2, "succeeded": 2}), Phase.CURRENT, "Distributed"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_health(name: str) -> None:
    raw, phase, reason = ROWS[name]
    found = health(raw)
    assert (found.phase, found.reason) == (phase, reason)
