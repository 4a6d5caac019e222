"""ReplicaSet and ReplicationController: as many pods as asked for; which ones go when too many.

Source: replicaset controller of Kubernetes 1.34, which serves both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.plan import Create, Delete, Plan
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.builtin.pod_owner import (
    Controlled,
    delete_pod,
    new_pods,
    pod_from,
    workload_of_pods,
)
from gitkruise.wire.primitives.names import GroupKind, Obj

BURST: Final = 500
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def plan_replica_set(s: Controlled, gates: Gates) -> Plan:
    """Claim pods, create what is missing, delete what is too many, report."""
    del gates
    if s.claims:
        return Plan(actions=s.claims)
    active = [p for p in s.pods if p.active]
    wanted = s.raw["spec"].get("replicas", 1)
    actions: list[Create | Delete] = []
    if not s.raw["metadata"].get("deletionTimestamp"):
        actions += _create(s, wanted - len(active))
        actions += [delete_pod(p) for p in victims(active, len(active) - wanted, s.now)]
    status, wake_at = _status(s, active)
    same = status == s.raw.get("status")
    return Plan(actions=tuple(actions), status=None if same else status, wake_at=wake_at)


def _create(s: Controlled, missing: int) -> list[Create]:
    count, template = min(max(0, missing), BURST), s.raw["spec"]["template"]
    return new_pods(s.raw, s.pods, s.seed, count, lambda _, name: pod_from(s.raw, template, name))


def victims(active: Sequence[PodFacts], count: int, now: datetime) -> list[PodFacts]:
    """The `count` pods to delete: first those whose loss hurts least."""
    if count <= 0:
        return []
    crowd = Counter(p.node for p in active if p.node)
    return sorted(active, key=lambda pod: _hurt(pod, crowd[pod.node], now))[:count]


def _hurt(pod: PodFacts, beside: int, now: datetime) -> tuple[Any, ...]:
    created = pod.created or now
    return (
        bool(pod.node),
        _PHASES.get(pod.phase, 0),
        pod.ready,
        pod.deletion_cost,
        -beside,
        _log_age(pod.ready_since if pod.ready else None, now),
        -pod.restarts,
        _log_age(created, now),
        pod.uid,
    )


def _log_age(since: datetime | None, now: datetime) -> int:
    """Ages compare by powers of two, so that pods of one generation are picked by uid."""
    if since is None:
        return -1
    age = (now - since).total_seconds() * 1e9
    return int(math.log2(age)) if age >= 1 else -1


def _status(s: Controlled, active: Sequence[PodFacts]) -> tuple[Obj, datetime | None]:
    spec, meta = s.raw["spec"], s.raw["metadata"]
    least = timedelta(seconds=spec.get("minReadySeconds") or 0)
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    ready = [p for p in active if p.ready]
    due = [(p.ready_since or s.now) + least for p in ready]
    available = sum(1 for at in due if not least or at < s.now)
    later = [at for at in due if least and at >= s.now]
    numbers = {
        "fullyLabeledReplicas": sum(labels.items() <= p.labels.items() for p in active),
        "readyReplicas": len(ready),
        "availableReplicas": available,
        "observedGeneration": meta.get("generation") or 0,
    }
    kept = {
        key: value
        for key, value in (s.raw.get("status") or {}).items()
        if key == "conditions" and value
    }
    status = {"replicas": len(active), **{k: v for k, v in numbers.items() if v}, **kept}
    return status, min(later) + timedelta(milliseconds=1) if later else None


_CONTROLLER: Final = GroupKind("", "ReplicationController")

REPLICASET: Final = workload_of_pods(wire.REPLICASET, plan_replica_set)
REPLICATION_CONTROLLER: Final = workload_of_pods(
    _CONTROLLER, plan_replica_set, speaker="replication-controller"
)
