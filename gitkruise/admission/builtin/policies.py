"""Roles, disruption budgets, leases and revisions at admission: Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.rules.engine import at_most_all, count_or_percent
from gitkruise.admission.rules.field_errors import IMMUTABLE, Path, invalid, required, shown
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj

_RBAC: Final = "rbac.authorization.k8s.io"
ROLES: Final = frozenset({GroupKind(_RBAC, "Role"), GroupKind(_RBAC, "ClusterRole")})
PRIORITIES: Final = frozenset({GroupKind("scheduling.k8s.io", "PriorityClass")})
_BOTH: Final = "minAvailable and maxUnavailable cannot be both set"
_POSITIVE: Final = "must be greater than 0"
_RESOURCE_RULES: Final = (
    ("apiGroups", "resource rules must supply at least one api group"),
    ("resources", "resource rules must supply at least one resource"),
)


def default_role(request: AdmissionRequest, _gates: Gates) -> Obj:
    """A role without rules says so: the Go type always writes the field."""
    return {**request.new, "rules": request.new.get("rules") or None}


def default_priority(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Pods of a class put lower ones out unless it says otherwise (SetDefaults_PriorityClass)."""
    return {"preemptionPolicy": "PreemptLowerPriority", **request.new}


def _role(obj: Obj, _old: Obj | None) -> Iterator[Problem]:
    """ValidatePolicyRule for each rule."""
    for index, rule in enumerate(obj.get("rules") or ()):
        at: Path = ("rules", index)
        if not rule.get("verbs"):
            yield required((*at, "verbs"), "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            continue
        yield from (required((*at, n), why) for n, why in _RESOURCE_RULES if not rule.get(n))


def _budget(obj: Obj, _old: Obj | None) -> Iterator[Problem]:
    """ValidatePodDisruptionBudgetSpec: one of the two bounds at most."""
    spec: Obj = obj.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        fields = (f'"{name[0].upper()}{name[1:]}":{shown(spec.get(name))}' for name in names)
        yield Problem(
            ("spec",), "FieldValueInvalid", f"Invalid value: {{{','.join(fields)}}}: {_BOTH}"
        )
    for name in ("minAvailable", "maxUnavailable"):
        yield from count_or_percent(spec.get(name), ("spec", name))
        yield from at_most_all(spec.get(name), ("spec", name))


def _lease(obj: Obj, _old: Obj | None) -> Iterator[Problem]:
    """ValidateLeaseSpec: a duration is positive, transitions are not negative."""
    spec: Obj = obj.get("spec") or {}
    duration, turns = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield invalid(("spec", "leaseDurationSeconds"), duration, _POSITIVE)
    if turns is not None and turns < 0:
        why = "must be greater than or equal to 0"
        yield invalid(("spec", "leaseTransitions"), turns, why)


def _revision(obj: Obj, old: Obj | None) -> Iterator[Problem]:
    """ValidateControllerRevision and -Update: a revision holds something, always the same."""
    if obj.get("data") is None:
        yield required(("data",), "data is mandatory")
    if old is not None and obj.get("data") != old.get("data"):
        yield invalid(("data",), obj.get("data"), IMMUTABLE)


_RULES: Final[Mapping[GroupKind, Callable[[Obj, Obj | None], Iterator[Problem]]]] = {
    **dict.fromkeys(ROLES, _role),
    GroupKind("policy", "PodDisruptionBudget"): _budget,
    GroupKind("coordination.k8s.io", "Lease"): _lease,
    GroupKind("apps", "ControllerRevision"): _revision,
}
KINDS: Final = frozenset(_RULES)


def policy_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Validate an object of one of KINDS."""
    obj: Any = request.obj
    return _RULES[request.key.group_kind](obj, request.old)
