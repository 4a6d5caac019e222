"""Job: run pods until enough of them succeeded, or too many failed.

Source: job controller of Kubernetes 1.34, without indexes, pod failure policies and tracking
finalizers: a finished pod that is deleted before the job ends is counted by the status.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.plan import Create, Delete, Event, Plan, expired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.pod_owner import (
    Controlled,
    delete_pod,
    new_pods,
    pod_from,
    workload_of_pods,
)
from gitkruise.wire.primitives.backoff import backoff
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.times import format_time, parse_time

KIND: Final = GroupKind("batch", "Job")
BACKOFF_FIRST_S, BACKOFF_MAX_S = 10.0, 600.0
FINISHED: Final = frozenset({"Complete", "Failed"})


def plan_job(s: Controlled, gates: Gates) -> Plan:
    """Create, delete and count pods; a finished Job is only looked at again to be removed."""
    del gates
    if s.raw["metadata"].get("deletionTimestamp"):
        return Plan()
    if s.claims:
        return Plan(actions=s.claims)
    if _finished(s.raw):
        return _expire(s)
    count = _JobPods(s)
    verdict = count.verdict()
    actions: list[Create | Delete] = []
    events: tuple[Event, ...] = ()
    if verdict is not None or count.suspended:
        actions += [delete_pod(pod) for pod in count.active]
    else:
        actions += _create(s, count)
    if verdict is not None:
        type_, reason, message = verdict
        kind = "Normal" if type_ == "Complete" else "Warning"
        word = "Completed" if type_ == "Complete" else reason
        events = (Event(kind, word, message or "Job completed"),)
    status = _status(s, count, verdict)
    same = status == s.raw.get("status")
    return Plan(
        actions=tuple(actions),
        events=events,
        status=None if same else status,
        wake_at=None if verdict else count.wake_at(),
    )


class _JobPods:
    """The pods of one Job, counted, and what the spec asks."""

    def __init__(self, s: Controlled) -> None:
        spec, old = s.raw["spec"], s.raw.get("status") or {}
        self.now = s.now
        self.parallelism: int = spec.get("parallelism", 1)
        self.completions: int | None = spec.get("completions")
        self.backoff_limit: int = spec.get("backoffLimit", 6)
        self.suspended = bool(spec.get("suspend"))
        self.active = [p for p in s.pods if p.active]
        self.failed_pods = [p for p in s.pods if p.phase == "Failed" and not p.deleting]
        succeeded = sum(p.phase == "Succeeded" for p in s.pods)
        self.succeeded = max(succeeded, old.get("succeeded") or 0)
        self.failed = max(len(self.failed_pods), old.get("failed") or 0)
        self.restarts = sum(p.restarts for p in self.active)
        self.started = parse_time(old.get("startTime"))
        self.deadline: int | None = spec.get("activeDeadlineSeconds")

    def verdict(self) -> tuple[str, str, str] | None:
        """(condition, reason, message) of a Job that ends now."""
        if self.completions is None:
            enough = self.succeeded > 0 and not self.active
        else:
            enough = self.succeeded >= self.completions
        if enough:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if self.failed + self.restarts > self.backoff_limit:
            message = "Job has reached the specified backoff limit"
            return "Failed", "BackoffLimitExceeded", message
        if (at := self._deadline_at()) and self.now >= at:
            message = "Job was active longer than specified deadline"
            return "Failed", "DeadlineExceeded", message
        return None

    def _deadline_at(self) -> datetime | None:
        if self.deadline is None or self.started is None:
            return None
        return self.started + timedelta(seconds=self.deadline)

    def resume_at(self) -> datetime | None:
        """Time from which a pod may be created after the last failure; None: immediately."""
        if not self.failed_pods:
            return None
        last = max(p.ready_since or p.created or self.now for p in self.failed_pods)
        pause = backoff(len(self.failed_pods), first=BACKOFF_FIRST_S, cap=BACKOFF_MAX_S)
        return last + timedelta(seconds=pause)

    def missing(self) -> int:
        """The number of pods to create."""
        if self.completions is None:
            wanted = 0 if self.succeeded else self.parallelism
        else:
            wanted = min(self.parallelism, self.completions - self.succeeded)
        resume = self.resume_at()
        waits = resume is not None and self.now < resume
        return 0 if waits else max(0, wanted - len(self.active))

    def wake_at(self) -> datetime | None:
        resume = self.resume_at()
        times = [self._deadline_at(), resume if resume and resume > self.now else None]
        return min(filter(None, times), default=None)


def _create(s: Controlled, count: _JobPods) -> list[Create]:
    missing = count.missing()
    name, uid = s.raw["metadata"]["name"], s.raw["metadata"]["uid"]
    template = s.raw["spec"]["template"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    has = (template.get("metadata") or {}).get("labels") or {}
    template = put(template, ("metadata", "labels"), {**has, **labels})
    return new_pods(s.raw, s.pods, s.seed, missing, lambda _, name: pod_from(s.raw, template, name))


def _status(s: Controlled, count: _JobPods, verdict: tuple[str, str, str] | None) -> Obj:
    old: Obj = s.raw.get("status") or {}
    found = [c for c in old.get("conditions") or () if c["type"] != "Suspended"]
    was = next((c for c in old.get("conditions") or () if c["type"] == "Suspended"), None)
    if count.suspended and verdict is None:
        found.append(was or _condition("Suspended", "JobSuspended", "Job suspended", s.now))
    if verdict is not None:
        type_, reason, message = verdict
        first = "SuccessCriteriaMet" if type_ == "Complete" else "FailureTarget"
        found += [_condition(t, reason, message, s.now) for t in (first, type_)]
    ended = verdict is not None
    numbers = {
        "active": 0 if ended or count.suspended else len(count.active),
        "succeeded": count.succeeded,
        "failed": count.failed,
    }
    status: dict[str, Any] = {key: value for key, value in numbers.items() if value}
    if not ended:
        status["ready"] = sum(p.ready for p in count.active)
    else:
        status |= {"ready": 0, "terminating": 0}
    start = old.get("startTime") or (None if count.suspended else format_time(s.now))
    if start:
        status["startTime"] = start
    if verdict is not None and verdict[0] == "Complete":
        status["completionTime"] = format_time(s.now)
    if found:
        status["conditions"] = found
    return status


def _condition(type_: str, reason: str, message: str, now: datetime) -> Obj:
    stamp = format_time(now)
    return {
        "type": type_,
        "status": "True",
        "lastProbeTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }


def _finished(raw: Obj) -> Obj | None:
    found: Sequence[Obj] = (raw.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] in FINISHED and c["status"] == "True"), None)


def _expire(s: Controlled) -> Plan:
    """Delete a finished Job after spec.ttlSecondsAfterFinished, its pods with it."""
    seconds, ended = s.raw["spec"].get("ttlSecondsAfterFinished"), _finished(s.raw)
    since = parse_time(ended.get("lastTransitionTime")) if ended else None
    return expired(Delete.of(s.raw, propagation="Background"), since, seconds, s.now)


JOB: Final = workload_of_pods(KIND, plan_job)
