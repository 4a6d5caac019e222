"""Status and conditions of a Deployment, from the statuses of its ReplicaSets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gitkruise.model.workloads import conditions
from gitkruise.planner.builtin.replicasets import SetFacts, created_at
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import parse_time

NO_DEADLINE, DEADLINE_S = 2**31 - 1, 600  # the default is apps/v1's
_DONE, _LATE = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutCounts:
    """Counts of a rollout: all ReplicaSets, and the new one among them (None: not created yet)."""

    wanted: int
    unavailable_max: int
    new: SetFacts | None
    sets: tuple[SetFacts, ...]
    collisions: int
    scaling: bool

    @property
    def replicas(self) -> int:
        return sum(one.size.observed for one in self.sets)

    @property
    def available(self) -> int:
        return sum(one.size.available for one in self.sets)

    @property
    def ready(self) -> int:
        return sum(one.ready for one in self.sets)

    @property
    def updated(self) -> int:
        return self.new.size.observed if self.new else 0

    @property
    def complete(self) -> bool:
        counts = {self.updated, self.replicas, self.available}
        return self.new is not None and counts == {self.wanted}


def deployment_status(
    raw: Obj, counts: RolloutCounts, now: datetime
) -> tuple[Obj, datetime | None]:
    """(the whole status, when the progress deadline must be looked at)."""
    old: Obj = raw.get("status") or {}
    missing = sum(one.size.replicas for one in counts.sets) - counts.available
    numbers = {
        "observedGeneration": raw["metadata"].get("generation") or 0,
        "replicas": counts.replicas,
        "updatedReplicas": counts.updated,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "unavailableReplicas": max(0, missing),
        "collisionCount": counts.collisions,
    }
    progress, wake_at = _progressing(raw, old, counts, now)
    found = tuple(old.get("conditions") or ())
    found = conditions.put(found, _available(counts), now)
    if progress is None:
        found = conditions.drop(found, "Progressing")
    else:
        renew = _moved(old, counts) and progress["reason"] == "ReplicaSetUpdated"
        found = conditions.put(found, progress, now, renew=renew)
    status = {name: number for name, number in numbers.items() if number}
    return {**status, "conditions": list(found)}, wake_at


def _available(counts: RolloutCounts) -> Obj:
    if counts.available >= counts.wanted - counts.unavailable_max:
        return conditions.condition(
            "Available",
            "True",
            reason="MinimumReplicasAvailable",
            message="Deployment has minimum availability.",
        )
    return conditions.condition(
        "Available",
        "False",
        reason="MinimumReplicasUnavailable",
        message="Deployment does not have minimum availability.",
    )


def _moved(old: Mapping[str, Any], counts: RolloutCounts) -> bool:
    """Progress since the last status: more updated, fewer old, more ready or more available."""
    updated, replicas = old.get("updatedReplicas") or 0, old.get("replicas") or 0
    return (
        counts.updated > updated
        or counts.replicas - counts.updated < replicas - updated
        or counts.ready > (old.get("readyReplicas") or 0)
        or counts.available > (old.get("availableReplicas") or 0)
    )


def _progressing(
    raw: Obj, old: Obj, counts: RolloutCounts, now: datetime
) -> tuple[Obj | None, datetime | None]:
    spec = raw["spec"]
    deadline = spec.get("progressDeadlineSeconds", DEADLINE_S)
    if deadline == NO_DEADLINE:
        return None, None
    before = conditions.find(old.get("conditions") or (), "Progressing")
    reason = (before or {}).get("reason", "")
    if spec.get("paused"):
        if reason == _LATE:
            return before, None
        return _says("Unknown", "DeploymentPaused", "Deployment is paused"), None
    if reason == "DeploymentPaused":
        return _says("Unknown", "DeploymentResumed", "Deployment is resumed"), None
    if counts.new is None:
        return before, None
    return _timed(before, old, counts, now, timedelta(seconds=deadline))


def _timed(
    before: Obj | None, old: Obj, counts: RolloutCounts, now: datetime, deadline: timedelta
) -> tuple[Obj | None, datetime | None]:
    """The condition of a rollout that is neither paused nor waiting for its ReplicaSet."""
    assert counts.new is not None
    name, reason = counts.new.name, (before or {}).get("reason", "")
    since = parse_time((before or {}).get("lastUpdateTime"))
    later = now + deadline + timedelta(seconds=1)
    if counts.complete and not counts.scaling:
        return _says("True", _DONE, f'ReplicaSet "{name}" has successfully progressed.'), None
    known = reason == "DeploymentResumed" or f'"{name}"' in str((before or {}).get("message"))
    if before is None or since is None or not known:
        return _begun(counts, since), later
    ended = reason == _DONE and counts.replicas == counts.updated
    if _moved(old, counts) and not ended:
        return _says("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'), later
    if ended or reason == _LATE:  # a pod lost after the rollout ended is no news of the rollout
        return before, None
    if now >= since + deadline:
        return _says("False", _LATE, f'ReplicaSet "{name}" has timed out progressing.'), None
    return before, since + deadline + timedelta(seconds=1)


def _begun(counts: RolloutCounts, since: datetime | None) -> Obj:
    """The new ReplicaSet was made for this rollout, or had its template from an earlier one."""
    assert counts.new is not None
    name, born = counts.new.name, created_at(counts.new)
    if since is None or born is None or born >= since:
        return _says("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
    return _says("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')


def _says(status: str, reason: str, message: str) -> Obj:
    return conditions.condition("Progressing", status, reason=reason, message=message)
