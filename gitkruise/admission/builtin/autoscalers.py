"""HorizontalPodAutoscalers at admission: Kubernetes' defaults and rules, in either version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.conversion.hpa import CPU_PERCENT, METRICS, autoscaler, cpu
from gitkruise.admission.rules.engine import one_of
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, required, unsupported
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.quantity import parse_quantity

KINDS: Final = frozenset({GroupKind("autoscaling", "HorizontalPodAutoscaler")})
_PERIOD_S: Final = 15
_WAYS: Final[dict[str, dict[str, Any]]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": _PERIOD_S},
            {"type": "Percent", "value": 100, "periodSeconds": _PERIOD_S},
        ],
    },
    "scaleDown": {
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": _PERIOD_S}],
    },
}
_SOURCES: Final = {  # in the order in which a server looks at them
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_NAMED: Final = frozenset({"Object", "Pods", "External"})
_NEEDS: Final = {  # type: (the field that is missed, why) unless one of two amounts is there
    "Object": ("averageValue", "must set either a target value or averageValue"),
    "Pods": ("averageValue", "must specify a positive target averageValue"),
    "Resource": (
        "averageUtilization",
        "must set either a target raw value or a target utilization",
    ),
    "ContainerResource": (
        "averageUtilization",
        "must set either a target raw value or a target utilization",
    ),
    "External": ("averageValue", "must set either a target value for metric or a per-pod target"),
}
_AMOUNTS: Final = {
    "Object": ("value", "averageValue"),
    "Pods": ("averageValue",),
    "Resource": ("averageUtilization", "averageValue"),
    "ContainerResource": ("averageUtilization", "averageValue"),
    "External": ("value", "averageValue"),
}
_TO_ZERO: Final = (
    "must specify at least one Object or External metric to support scaling to zero replicas"
)
_ONE_OF_BOTH: Final = "may not set both a target raw value and a target utilization"
_EITHER: Final = {  # type: what is too much where both amounts are there, and why
    "Resource": ("averageValue", _ONE_OF_BOTH),
    "ContainerResource": ("averageValue", _ONE_OF_BOTH),
    "External": ("value", "may not set both a target value for metric and a per-pod target"),
}
_TARGETS: Final = ("AverageValue", "Utilization", "Value")
_MISSING: Final = "must populate information for the given metric source"
_WINDOW_MAX_S, _PERIOD_MAX_S = 3600, 1800


def default_autoscaler(request: AdmissionRequest, _gates: Gates) -> Obj:
    """At least one replica; 80 % of the CPU where no metric is named; both ways of a behavior."""
    spec: dict[str, Any] = {"minReplicas": 1, **(request.new.get("spec") or {})}
    status = {"desiredReplicas": 0, **(request.new.get("status") or {})}
    if request.kind.version == "v1":
        noted = get(request.new, "metadata", "annotations", METRICS)
        if spec.get("targetCPUUtilizationPercentage") is None and not noted:
            spec["targetCPUUtilizationPercentage"] = CPU_PERCENT
        return {**request.new, "spec": spec, "status": {"currentReplicas": 0, **status}}
    spec["metrics"] = spec.get("metrics") or [cpu(CPU_PERCENT)]
    if spec.get("behavior") is not None:
        given = spec["behavior"]
        spec["behavior"] = {
            way: {**rules, **{k: v for k, v in (given.get(way) or {}).items() if v is not None}}
            for way, rules in _WAYS.items()
        }
    status["currentMetrics"] = status.get("currentMetrics")
    return {**request.new, "spec": spec, "status": status}


def autoscaler_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateHorizontalPodAutoscaler, which looks at the fields of v2."""
    obj: Any = request.obj
    if request.kind.version == "v1":
        obj = autoscaler(obj, "v1", "v2")
    spec: Obj = obj.get("spec") or {}
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < 1:
        yield invalid(("spec", "minReplicas"), low, "must be greater than or equal to 1")
    if high < 1:
        yield invalid(("spec", "maxReplicas"), high, "must be greater than 0")
    if low is not None and high < low:
        text = "must be greater than or equal to `minReplicas`"
        yield invalid(("spec", "maxReplicas"), high, text)
    target: Path = ("spec", "scaleTargetRef")
    yield from _reference(spec.get("scaleTargetRef") or {}, target, grouped=request.old is None)
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric, ("spec", "metrics", index))
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if low == 0 and not kinds & {"Object", "External"}:
        yield forbidden(("spec", "metrics"), _TO_ZERO)
    for way, rules in (spec.get("behavior") or {}).items():
        yield from _ways(rules, ("spec", "behavior", way))


def _reference(ref: Obj, at: Path, *, grouped: bool) -> Iterator[Problem]:
    """Require a kind and a name of a reference, and a group when `grouped`."""
    yield from (required((*at, name)) for name in ("kind", "name") if not ref.get(name))
    version = ref.get("apiVersion") or ""
    if grouped and "/" not in version:
        yield invalid((*at, "apiVersion"), version, "apiVersion must specify API group")


def _metric(metric: Obj, at: Path) -> Iterator[Problem]:
    kind = metric.get("type") or ""
    if not kind:
        yield required((*at, "type"), "must specify a metric source type")
    if kind not in _SOURCES:
        yield unsupported((*at, "type"), kind, _SOURCES)
    given = [one for one, name in _SOURCES.items() if metric.get(name) is not None]
    for one in given[:1]:
        name = _SOURCES[one]
        yield from _source(one, metric[name], (*at, name))
    if kind in _SOURCES and kind not in given:
        yield required((*at, _SOURCES[kind]), _MISSING)
    for one in given if len(given) > 1 else ():
        if one != kind:
            yield forbidden((*at, _SOURCES[one]), "must populate the given metric source only")


def _source(kind: str, source: Obj, at: Path) -> Iterator[Problem]:
    target: Obj = source.get("target") or {}
    here: Path = (*at, "target")
    if kind == "Object":
        described = source.get("describedObject") or {}
        yield from _reference(described, (*at, "describedObject"), grouped=False)
    if kind in _NAMED:
        if not get(source, "metric", "name"):
            yield required((*at, "metric", "name"), "must specify a metric name")
    elif not source.get("name"):
        yield required((*at, "name"), "must specify a resource name")
    if kind == "ContainerResource" and not source.get("container"):
        yield required((*at, "container"), "must specify a container")
    if not target.get("type"):
        yield required((*here, "type"), "must specify a metric target type")
    if target.get("type") not in _TARGETS:
        text = "must be either Utilization, Value, or AverageValue"
        yield invalid((*here, "type"), target.get("type") or "", text)
    yield from _amounts(kind, target, here)


def _amounts(kind: str, target: Obj, at: Path) -> Iterator[Problem]:
    """Amounts are positive; one of those that a kind of metric can aim at is there."""
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and parse_quantity(amount).value <= 0:
            yield invalid((*at, name), amount, "must be positive")
    used = target.get("averageUtilization")
    if used is not None and used < 1:
        yield invalid((*at, "averageUtilization"), used, "must be greater than 0")
    given = [name for name in _AMOUNTS[kind] if target.get(name) is not None]
    field, why = _NEEDS[kind]
    if not given:
        yield required((*at, field), why)
    if len(given) > 1 and kind in _EITHER:
        name, why = _EITHER[kind]
        yield forbidden((*at, name), why)


def _ways(rules: Obj, at: Path) -> Iterator[Problem]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _WINDOW_MAX_S:
        bound = (
            f"less than or equal to {_WINDOW_MAX_S}"
            if window > 0
            else "greater than or equal to zero"
        )
        yield invalid((*at, "stabilizationWindowSeconds"), window, f"must be {bound}")
    yield from one_of("Disabled", "Max", "Min")(rules.get("selectPolicy"), (*at, "selectPolicy"))
    if not rules.get("policies"):
        yield required((*at, "policies"), "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        here: Path = (*at, "policies", index)
        if policy.get("type") not in ("Pods", "Percent"):
            yield unsupported((*here, "type"), policy.get("type") or "", ("Percent", "Pods"))
        for name in ("value", "periodSeconds"):
            if (policy.get(name) or 0) <= 0:
                yield invalid((*here, name), policy.get(name) or 0, "must be greater than zero")
        if (policy.get("periodSeconds") or 0) > _PERIOD_MAX_S:
            text = f"must be less than or equal to {_PERIOD_MAX_S}"
            yield invalid((*here, "periodSeconds"), policy["periodSeconds"], text)
