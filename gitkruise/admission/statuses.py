"""What the status of a built-in workload or disruption budget may count: Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gitkruise.admission.request import AdmissionRequest
from gitkruise.admission.rules import not_negative
from gitkruise.admission.words import invalid
from gitkruise.errors import Problem
from gitkruise.model.settings import Gates
from gitkruise.wire.names import GroupKind


@dataclass(frozen=True, slots=True)
class _Counts:
    """Fields that are not negative, those of them that are part of `replicas`, and what is said
    of more available replicas than ready ones."""

    counted: tuple[str, ...]
    parts: tuple[str, ...] = ()
    ready: str = ""


_RULES: Final[Mapping[GroupKind, _Counts]] = {
    GroupKind("apps", "Deployment"): _Counts(
        (
            *("observedGeneration", "replicas", "updatedReplicas", "readyReplicas"),
            *("availableReplicas", "unavailableReplicas", "terminatingReplicas", "collisionCount"),
        ),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas",
    ),
    GroupKind("apps", "ReplicaSet"): _Counts(
        (
            *("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
            *("observedGeneration", "terminatingReplicas"),
        ),
        ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas",
    ),
    GroupKind("apps", "StatefulSet"): _Counts(
        (
            *("replicas", "readyReplicas", "currentReplicas", "updatedReplicas"),
            *("availableReplicas", "observedGeneration", "collisionCount"),
        ),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        "status.readyReplicas",
    ),
    GroupKind("policy", "PodDisruptionBudget"): _Counts(
        ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    ),
}
KINDS: Final = frozenset(_RULES)


def status_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateDeploymentStatus and its like, for a write of the status of one of KINDS."""
    assert request.obj is not None
    status, rules = request.obj.get("status") or {}, _RULES[request.key.group_kind]
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
