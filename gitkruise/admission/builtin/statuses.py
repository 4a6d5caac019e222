"""Status counts of built-in workloads and disruption budgets: Kubernetes' validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gitkruise.admission.rules.engine import not_negative
from gitkruise.admission.rules.field_errors import invalid
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind


@dataclass(frozen=True, slots=True)
class _CountFields:
    """Fields that are not negative, those of them that are part of `replicas`, and what is said
    of more available replicas than ready ones."""

    counted: tuple[str, ...]
    parts: tuple[str, ...] = ()
    ready: str = ""


_RULES: Final[Mapping[GroupKind, _CountFields]] = {
    GroupKind("apps", "Deployment"): _CountFields(
        (
            *("observedGeneration", "replicas", "updatedReplicas", "readyReplicas"),
            *("availableReplicas", "unavailableReplicas", "terminatingReplicas", "collisionCount"),
        ),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas",
    ),
    GroupKind("apps", "ReplicaSet"): _CountFields(
        (
            *("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
            *("observedGeneration", "terminatingReplicas"),
        ),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas",
    ),
    GroupKind("apps", "StatefulSet"): _CountFields(
        (
            *("replicas", "readyReplicas", "currentReplicas", "updatedReplicas"),
            *("availableReplicas", "observedGeneration", "collisionCount"),
        ),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        "status.readyReplicas",
    ),
    GroupKind("policy", "PodDisruptionBudget"): _CountFields(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    ),
}
KINDS: Final = frozenset(_RULES)


def status_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateDeploymentStatus and its like, for a write of the status of one of KINDS."""
    status, rules = request.new.get("status") or {}, _RULES[request.key.group_kind]
    for name in rules.counted:
        yield from not_negative(status.get(name), ("status", name))
    for name in rules.parts:
        count = status.get(name) or 0
        if count > (status.get("replicas") or 0):
            yield invalid(("status", name), count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas") or 0
    if rules.ready and available > (status.get("readyReplicas") or 0):
        why = f"cannot be greater than {rules.ready}"
        yield invalid(("status", "availableReplicas"), available, why)
