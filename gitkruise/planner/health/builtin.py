"""Health of Kubernetes' own kinds (source: kstatus of cli-utils)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.model.planning.canary import pause_of
from gitkruise.model.workloads.conditions import find
from gitkruise.planner.progress.failing_pods import BROKEN
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

UNSCHEDULABLE_GRACE_S: Final = 15.0
_ARGO_PHASES: Final = {
    "Healthy": Phase.CURRENT,
    "Degraded": Phase.FAILED,
    "Paused": Phase.PAUSED,
}


def condition_of(obj: Obj, type_: str) -> Obj | None:
    """The condition of that type, if the object has it.

    A status of a foreign kind may be of any form: some have conditions by name, or as words.
    """
    listed = get(obj, "status", "conditions")
    conditions = listed if isinstance(listed, list | tuple) else ()
    return find([one for one in conditions if isinstance(one, Mapping)], type_)


def from_condition(phase: Phase, condition: Obj) -> Health:
    reason, message = condition.get("reason") or condition["type"], condition.get("message") or ""
    return Health(phase, str(reason), str(message))


def progress(reason: str, message: str) -> Health:
    return Health(Phase.IN_PROGRESS, reason, message)


def counts(obj: Obj, *names: str) -> tuple[int, ...]:
    status = obj.get("status") or {}
    return tuple(int(status.get(name) or 0) for name in names)


def _wanted(obj: Obj) -> int:
    return int(get(obj, "spec", "replicas", default=1))


def deployment(obj: Obj, now: datetime | None) -> Health | None:
    del now
    wanted = _wanted(obj)
    replicas, updated, ready, available = counts(
        obj, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"
    )
    progressing = condition_of(obj, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return from_condition(Phase.FAILED, progressing)
    pause = pause_of(get(obj, "metadata", "annotations"))
    if get(obj, "spec", "paused") and updated < wanted:
        if pause is not None:
            missing = (available < wanted, "LessAvailable", f"available: {available} of {wanted}")
            share = f"{updated} of {wanted} updated, held by canary {pause.value}"
            return first((missing,)) or Health(Phase.HELD, "CanaryReached", share)
        return Health(Phase.PAUSED, "Paused", f"paused at {updated} of {wanted} updated")
    if "status" not in obj:
        return progress("NoStatus", "the controller has not reported yet")
    available_condition = condition_of(obj, "Available")
    checks = (
        (updated < wanted, "LessUpdated", f"updated: {updated} of {wanted}"),
        (replicas > updated, "ExtraPods", f"waiting for {replicas - updated} old pods to go"),
        (available < updated, "LessAvailable", f"available: {available} of {updated}"),
        (ready < wanted, "LessReady", f"ready: {ready} of {wanted}"),
        (
            available_condition is not None and available_condition.get("status") != "True",
            "NotAvailable",
            "the Deployment is not available",
        ),
    )
    return first(checks) or Health(Phase.CURRENT, "Available", f"{available} of {wanted} available")


def first(checks: tuple[tuple[bool, str, str], ...]) -> Health | None:
    return next((progress(reason, text) for bad, reason, text in checks if bad), None)


def replica_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    wanted = _wanted(obj)
    replicas, labeled, ready, available = counts(
        obj, "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"
    )
    failure = condition_of(obj, "ReplicaFailure")
    if failure and failure.get("status") == "True":
        return from_condition(Phase.IN_PROGRESS, failure)
    checks = (
        (labeled < wanted, "LessLabelled", f"labelled: {labeled} of {wanted}"),
        (available < wanted, "LessAvailable", f"available: {available} of {wanted}"),
        (ready < wanted, "LessReady", f"ready: {ready} of {wanted}"),
        (replicas > wanted, "ExtraPods", f"waiting for {replicas - wanted} pods to go"),
    )
    return first(checks) or Health(Phase.CURRENT, "Available", f"{available} of {wanted} available")


def stateful_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    wanted, spec = _wanted(obj), obj.get("spec") or {}
    replicas, ready, current, updated = counts(
        obj, "replicas", "readyReplicas", "currentReplicas", "updatedReplicas"
    )
    if get(spec, "updateStrategy", "type") == "OnDelete":
        held = _on_delete(updated, wanted) if replicas == ready == wanted else None
        return held or Health(Phase.CURRENT, "OnDelete", "pods are updated when they are deleted")
    checks = (
        (replicas < wanted, "LessReplicas", f"replicas: {replicas} of {wanted}"),
        (ready < wanted, "LessReady", f"ready: {ready} of {wanted}"),
        (replicas > wanted, "ExtraPods", f"waiting for {replicas - wanted} pods to go"),
    )
    if found := first(checks):
        return found
    kept = min(wanted, get(spec, "updateStrategy", "rollingUpdate", "partition", default=0))
    status = obj.get("status") or {}
    moving = status.get("currentRevision") != status.get("updateRevision")
    if kept:
        if updated < wanted - kept:
            return progress("PartitionRollout", f"updated: {updated} of {wanted - kept}")
        if moving:
            return Health(
                Phase.HELD, "PartitionReached", f"{updated} of {wanted} updated, {kept} kept"
            )
    elif moving or current < wanted:
        return progress("LessCurrent", f"updated: {updated} of {wanted}")
    return Health(Phase.CURRENT, "Ready", f"{ready} of {wanted} ready")


def _on_delete(updated: int, wanted: int) -> Health | None:
    """Held while pods wait to be deleted. (kstatus: Current, a DaemonSet InProgress for ever.)"""
    if updated >= wanted:
        return None
    return Health(Phase.HELD, "OnDelete", f"{updated} of {wanted} updated")


def daemon_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    if "observedGeneration" not in (obj.get("status") or {}):
        return progress("NoObservedGeneration", "the controller has not reported yet")
    wanted, placed, updated, available, ready = counts(
        obj,
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberReady",
    )
    on_delete = get(obj, "spec", "updateStrategy", "type") == "OnDelete"
    checks = (
        (placed < wanted, "LessCurrent", f"current: {placed} of {wanted}"),
        (updated < wanted and not on_delete, "LessUpdated", f"updated: {updated} of {wanted}"),
        (available < wanted, "LessAvailable", f"available: {available} of {wanted}"),
        (ready < wanted, "LessReady", f"ready: {ready} of {wanted}"),
    )
    held = _on_delete(updated, wanted) if on_delete else None
    current = Health(Phase.CURRENT, "Ready", f"{ready} of {wanted} ready")
    return first(checks) or held or current


def job(obj: Obj, now: datetime | None) -> Health | None:
    """A running Job is Current, as in kstatus: a batch that takes a night is no broken sync.

    It runs when one of its pods does, as far as its controller counts those (Kubernetes 1.24).
    """
    del now
    for type_, phase in (("Complete", Phase.CURRENT), ("Failed", Phase.FAILED)):
        condition = condition_of(obj, type_)
        if condition and condition.get("status") == "True":
            return from_condition(phase, condition)
    if get(obj, "spec", "suspend"):
        return Health(Phase.PAUSED, "Suspended", "the Job is suspended")
    if not get(obj, "status", "startTime"):
        return progress("JobNotStarted", "the Job has not started")
    succeeded, active, failed, ready = counts(obj, "succeeded", "active", "failed", "ready")
    if not succeeded and failed:
        return progress("PodsFailed", f"0 succeeded, {failed} failed, {active} tried")
    if not succeeded and not ready and get(obj, "status", "ready") is not None:
        return progress("NoPodReady", f"0 of {active} pods run")
    return Health(Phase.CURRENT, "JobStarted", f"{succeeded} succeeded, {active} running")


def cron_job(obj: Obj, now: datetime | None) -> Health | None:
    """A suspended one is Current: nothing is under way, and a unit with it is complete."""
    del now
    if get(obj, "spec", "suspend"):
        return Health(Phase.CURRENT, "Suspended", "the CronJob is suspended")
    status = obj.get("status") or {}
    begun, ended = (parse_time(status.get(f"last{n}Time")) for n in ("Schedule", "Successful"))
    if begun and not status.get("active") and (ended is None or ended < begun):
        return Health(Phase.FAILED, "JobFailed", "its last Job did not succeed")
    return Health(Phase.CURRENT, "Scheduled")


def pod(obj: Obj, now: datetime | None) -> Health | None:
    phase = get(obj, "status", "phase", default="")
    ready = condition_of(obj, "Ready")
    if phase == "Succeeded":
        return Health(Phase.CURRENT, "PodCompleted", "the pod completed")
    if phase == "Failed":
        return Health(Phase.FAILED, "PodFailed", get(obj, "status", "message", default=""))
    if broken := _broken_container(obj):
        return broken
    if phase == "Running" and ready and ready.get("status") == "True":
        return Health(Phase.CURRENT, "PodReady")
    if found := _unschedulable(obj, now):
        return found
    reason = "PodRunningNotReady" if phase == "Running" else "PodPending"
    return progress(reason, (ready or {}).get("message", ""))


def _broken_container(obj: Obj) -> Health | None:
    status = obj.get("status") or {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(field) or ():
            waiting = get(entry, "state", "waiting", default={})
            exit_code = get(entry, "lastState", "terminated", "exitCode")
            paused = waiting.get("reason") == "CrashLoopBackOff" and exit_code == 0
            if waiting.get("reason") in BROKEN and not paused:
                return Health(
                    Phase.FAILED,
                    waiting["reason"],
                    f"container {entry['name']}: {waiting.get('message') or waiting['reason']}",
                )
    return None


def _unschedulable(obj: Obj, now: datetime | None) -> Health | None:
    condition = condition_of(obj, "PodScheduled")
    if not condition or condition.get("reason") != "Unschedulable":
        return None
    since = parse_time(condition.get("lastTransitionTime"))
    if now and since and now - since < timedelta(seconds=UNSCHEDULABLE_GRACE_S):
        return from_condition(Phase.IN_PROGRESS, condition)
    return from_condition(Phase.FAILED, condition)


def claim(obj: Obj, now: datetime | None) -> Health | None:
    del now
    phase = get(obj, "status", "phase", default="")
    if phase == "Bound":
        return Health(Phase.CURRENT, "Bound")
    if phase == "Lost":
        return Health(Phase.FAILED, "Lost", "the volume behind the claim is gone")
    return progress("NotBound", f"phase is {phase or 'not set'}, not Bound")


def service(obj: Obj, now: datetime | None) -> Health | None:
    del now
    if get(obj, "spec", "type") == "LoadBalancer" and not get(
        obj, "status", "loadBalancer", "ingress"
    ):
        return progress("NoIPAssigned", "the load balancer has no address yet")
    return Health(Phase.CURRENT)


def namespace(obj: Obj, now: datetime | None) -> Health | None:
    del now
    phase = get(obj, "status", "phase", default="Active")
    if phase == "Terminating":
        return Health(Phase.TERMINATING, "Terminating", "the namespace is being deleted")
    return Health(Phase.CURRENT, str(phase))


def argo_rollout(obj: Obj, now: datetime | None) -> Health | None:
    """A Rollout has no condition Ready; its controller sums its state up in a phase."""
    del now
    phase, message = (str(get(obj, "status", one, default="")) for one in ("phase", "message"))
    if phase in _ARGO_PHASES:
        return Health(_ARGO_PHASES[phase], phase, message)
    return progress(phase or "NotObserved", message or "its controller has not reported a phase")


def definition(obj: Obj, now: datetime | None) -> Health | None:
    del now
    names, served = condition_of(obj, "NamesAccepted"), condition_of(obj, "Established")
    if names and names.get("status") == "False":
        return from_condition(Phase.FAILED, names)
    if served and served.get("status") == "True":
        return Health(Phase.CURRENT, "Established")
    if served and served.get("reason") not in {"Installing", None}:
        return from_condition(Phase.FAILED, served)
    return progress("Installing", "the definition is not served yet")
