"""Priorities, disruption budgets, leases and revisions at admission: Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.rules.engine import at_most_all, count_or_percent
from gitkruise.admission.rules.field_errors import IMMUTABLE, forbidden, invalid, required, shown
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj

PRIORITIES: Final = frozenset({GroupKind("scheduling.k8s.io", "PriorityClass")})
_BOTH: Final = "minAvailable and maxUnavailable cannot be both set"
_HIGHEST: Final = 1_000_000_000  # of a class that is not Kubernetes' own
_POSITIVE: Final = "must be greater than 0"


def default_priority(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Pods of a class put lower ones out unless it says otherwise (SetDefaults_PriorityClass)."""
    return {"preemptionPolicy": "PreemptLowerPriority", **request.new}


def _priority(obj: Obj, old: Obj | None) -> Iterator[Problem]:
    """ValidatePriorityClass and -Update: a class keeps its value and its policy."""
    value, policy = obj.get("value") or 0, obj.get("preemptionPolicy")
    if old is None:
        if value > _HIGHEST and not obj["metadata"]["name"].startswith("system-"):
            why = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            yield forbidden(("value",), why)
        return
    if value != (old.get("value") or 0):
        yield forbidden(("value",), "may not be changed in an update.")
    if policy != old.get("preemptionPolicy"):
        yield invalid(("preemptionPolicy",), policy, IMMUTABLE)


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
    **dict.fromkeys(PRIORITIES, _priority),
    GroupKind("policy", "PodDisruptionBudget"): _budget,
    GroupKind("coordination.k8s.io", "Lease"): _lease,
    GroupKind("apps", "ControllerRevision"): _revision,
}
KINDS: Final = frozenset(_RULES)


def policy_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Validate an object of one of KINDS."""
    obj: Any = request.obj
    return _RULES[request.key.group_kind](obj, request.old)
