"""Health of OpenKruise's kinds that gitkruise does not drive itself, by what their controller
reports."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.planner.health.builtin import (
    condition_of,
    counts,
    daemon_set,
    first,
    from_condition,
    progress,
)
from gitkruise.planner.health.rollouts import UNREADABLE
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import UnreadableAmount, resolve_decimal

_ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


def advanced_daemon_set(obj: Obj, now: datetime | None) -> Health | None:
    """As a DaemonSet, which a partition, a pause or a selector of nodes may hold."""
    rolling = get(obj, *_ROLLING, default={})
    wanted, placed, updated, available, ready = counts(
        obj, "desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled",
        "numberAvailable", "numberReady",
    )  # fmt: skip
    on_delete = get(obj, "spec", "updateStrategy", "type") == "OnDelete"
    if on_delete or "observedGeneration" not in (obj.get("status") or {}) or updated >= wanted:
        return daemon_set(obj, now)
    try:
        kept = resolve_decimal(rolling.get("partition") or 0, wanted, round_up=True)
    except UnreadableAmount as error:
        return Health(Phase.FAILED, UNREADABLE, f"partition: {error}")
    share, asked = f"{updated} of {wanted} updated", max(wanted - kept, 0)
    if rolling.get("paused") and updated < asked:
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    selects = bool(rolling.get("selector"))
    missing = first(
        (
            (placed < wanted, "LessCurrent", f"current: {placed} of {wanted}"),
            (updated < asked and not selects, "LessUpdated", f"updated: {updated} of {asked}"),
            (available < wanted, "LessAvailable", f"available: {available} of {wanted}"),
            (ready < wanted, "LessReady", f"ready: {ready} of {wanted}"),
        )
    )
    why = "held by its selector" if updated < asked else f"{kept} kept"
    return missing or Health(Phase.HELD, "PartitionReached", f"{share}, {why}")


def united_deployment(obj: Obj, now: datetime | None) -> Health | None:
    del now
    if "observedGeneration" not in (obj.get("status") or {}):
        return progress("NoStatus", "the controller has not reported yet")
    failure = condition_of(obj, "SubsetFailure")
    if failure and failure.get("status") == "True":
        return from_condition(Phase.FAILED, failure)
    replicas, updated, ready = counts(obj, "replicas", "updatedReplicas", "readyReplicas")
    wanted = get(obj, "spec", "replicas")
    wanted = replicas if wanted is None else int(wanted)
    asked = max(wanted - _kept_in_subsets(obj), 0)
    checks = (
        (replicas != wanted, "Scaling", f"{replicas} of {wanted} pods exist"),
        (updated < asked, "LessUpdated", f"updated: {updated} of {asked}"),
        (ready < wanted, "LessReady", f"ready: {ready} of {wanted}"),
    )
    if found := first(checks):
        return found
    if updated < wanted:
        return Health(Phase.HELD, "PartitionReached", f"{updated} of {wanted} updated")
    return Health(Phase.CURRENT, "Updated", f"{ready} of {wanted} ready")


def _kept_in_subsets(obj: Obj) -> int:
    """Return how many pods the partitions of a UnitedDeployment keep: of each subset no more than
    it has, as far as its controller reports that, and of an unknown subset 0."""
    partitions = get(obj, "spec", "updateStrategy", "manualUpdate", "partitions", default={})
    sizes = get(obj, "status", "subsetReplicas", default=partitions)
    return sum(min(kept, sizes.get(subset, 0)) for subset, kept in partitions.items())


def broadcast_job(obj: Obj, now: datetime | None) -> Health | None:
    """A running one is Current, as a Job is; one with failed pods is Failed once it ended."""
    del now
    desired, succeeded, failed, active = counts(obj, "desired", "succeeded", "failed", "active")
    share = f"succeeded on {succeeded} of {desired} nodes, failed on {failed}"
    phase = get(obj, "status", "phase", default="")
    ended = [condition_of(obj, type_) for type_ in ("Failed", "Complete")]
    is_failed, is_complete = (bool(one and one.get("status") == "True") for one in ended)
    if is_failed or phase == "failed" or (failed and (is_complete or not active)):
        return Health(Phase.FAILED, "PodsFailed", share)
    if is_complete:
        return Health(Phase.CURRENT, "Complete", share)
    if get(obj, "spec", "paused") or phase == "paused":
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    if not phase:
        return progress("NoStatus", "the controller has not reported yet")
    return Health(Phase.CURRENT, "JobStarted", f"{share}, {active} running")


def ephemeral_job(obj: Obj, now: datetime | None) -> Health | None:
    """A running one is Current, as a Job is."""
    del now
    matched, succeeded, failed = counts(obj, "match", "succeeded", "failed")
    share = f"succeeded in {succeeded} of {matched} pods, failed in {failed}"
    phase = get(obj, "status", "phase", default="")
    if phase in {"Failed", "Error"}:
        return Health(Phase.FAILED, "ContainersFailed", share)
    if phase == "Succeeded":
        return Health(Phase.CURRENT, "Complete", share)
    if get(obj, "spec", "paused"):
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    if not phase:
        return progress("NoStatus", "the controller has not reported yet")
    return Health(Phase.CURRENT, "JobStarted", share)


def advanced_cron_job(obj: Obj, now: datetime | None) -> Health | None:
    """A paused one is Current, as a suspended CronJob is."""
    del now
    if get(obj, "spec", "paused"):
        return Health(Phase.CURRENT, "Paused", "the AdvancedCronJob is paused")
    return Health(Phase.CURRENT, "Scheduled")


def rollout(obj: Obj, now: datetime | None) -> Health | None:
    """A Rollout of OpenKruise's rollouts: Paused at a step that waits, as Argo's is."""
    del now
    status = obj.get("status") or {}
    phase, message = str(status.get("phase") or ""), str(status.get("message") or "")
    if not phase:
        return progress("NoStatus", "the controller has not reported yet")
    if phase in {"Healthy", "Disabled"}:
        return Health(Phase.CURRENT, phase, message)
    steps = status.get("canaryStatus") or status.get("blueGreenStatus") or {}
    state = str(steps.get("currentStepState") or "")
    at = f"step {steps.get('currentStepIndex') or 0}: {state}" if state else message or phase
    if get(obj, "spec", "strategy", "paused"):
        return Health(Phase.PAUSED, "Paused", f"{at}, paused")
    if state == "StepPaused":
        return Health(Phase.PAUSED, state, at)
    return progress(state or phase, at)


def resource_distribution(obj: Obj, now: datetime | None) -> Health | None:
    del now
    if "desired" not in (obj.get("status") or {}):
        return progress("NoStatus", "the controller has not reported yet")
    desired, succeeded, failed = counts(obj, "desired", "succeeded", "failed")
    share = f"in {succeeded} of {desired} namespaces"
    if failed:
        return Health(Phase.FAILED, "NotDistributed", f"{share}, failed in {failed}")
    if succeeded < desired:
        return progress("Distributing", share)
    return Health(Phase.CURRENT, "Distributed", share)
