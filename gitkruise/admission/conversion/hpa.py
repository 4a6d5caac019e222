"""HorizontalPodAutoscaler conversion between v1 and v2; annotations hold what v1 has no field for.

Source: pkg/apis/autoscaling/v1/conversion.go (1.34), its losses included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put

PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT = PREFIX + "metrics", PREFIX + "current-metrics"
BEHAVIOR, CONDITIONS = PREFIX + "behavior", PREFIX + "conditions"
ANNOTATIONS: Final = frozenset({METRICS, CURRENT, BEHAVIOR, CONDITIONS})
CPU_PERCENT: Final = 80
_REFERENCE: Final = ("kind", "name", "apiVersion")
_CONDITION: Final = ("type", "status", "lastTransitionTime", "reason", "message")
_COUNTS: Final = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_BOUNDS: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_KINDS: Final = ("object", "pods", "resource", "containerResource", "external")

# Field of v1 and its path in v2, of one kind of source, in the order of Go's fields.
Fields: TypeAlias = Sequence[tuple[str, tuple[str, ...]]]
_NAME: Final = ("metric", "name")
_SELECTOR: Final = ("metric", "selector")


def _fields(target: bool) -> Mapping[str, Fields]:
    """The fields of a source, or of what was measured."""
    prefix = "target" if target else "current"
    value, average = (prefix, "value"), (prefix, "averageValue")
    resource: Fields = (
        ("name", ("name",)),
        (f"{prefix}AverageUtilization", (prefix, "averageUtilization")),
        (f"{prefix}AverageValue", average),
    )
    return {
        "object": (
            ("target", ("describedObject",)),
            ("metricName", _NAME),
            (f"{prefix}Value", value),
            ("selector", _SELECTOR),
            ("averageValue", average),
        ),
        "pods": (
            ("metricName", _NAME),
            (f"{prefix}AverageValue", average),
            ("selector", _SELECTOR),
        ),
        "resource": resource,
        "containerResource": (*resource, ("container", ("container",))),
        "external": (
            ("metricName", _NAME),
            ("metricSelector", _SELECTOR),
            (f"{prefix}Value", value),
            (f"{prefix}AverageValue", average),
        ),
    }


_TARGETS, _MEASURED = _fields(target=True), _fields(target=False)
_ALWAYS: Final = frozenset(  # amounts that are no pointers in v1
    {
        *(("object", name) for name in ("targetValue", "currentValue")),
        *(("pods", name) for name in ("targetAverageValue", "currentAverageValue")),
        ("resource", "currentAverageValue"),
        ("containerResource", "currentAverageValue"),
        ("external", "currentValue"),
    }
)


def autoscaler(obj: Obj, version: str, to_version: str) -> Obj:
    """See gitkruise.admission.conversion.registry.Conversion."""
    changes = {("v1", "v2"): _to_v2, ("v2", "v1"): _to_v1}
    return changes[version, to_version](obj)


def _to_v1(obj: Obj) -> Obj:
    spec: Obj = obj.get("spec") or {}
    status: Obj = obj.get("status") or {}
    metrics, measured = spec.get("metrics") or (), status.get("currentMetrics") or ()
    percents = [one for one in metrics if _percent(one) is not None]
    kept: dict[str, Any] = {name: spec[name] for name in _BOUNDS if name in spec}
    if percents:
        kept["targetCPUUtilizationPercentage"] = _percent(percents[0])
    others = [_metric(one, _TARGETS, _v1_source) for one in metrics if one not in percents]
    notes: dict[str, str] = {}
    if others:
        notes[METRICS] = _text(others)
    if measured:
        notes[CURRENT] = _text([_metric(one, _MEASURED, _v1_source) for one in measured])
    if spec.get("behavior") is not None:
        notes[BEHAVIOR] = _text(_rules(spec["behavior"]))
    if status.get("conditions"):
        rows = ({n: one[n] for n in _CONDITION if n in one} for one in status["conditions"])
        notes[CONDITIONS] = _text(list(rows))
    counts: dict[str, Any] = {name: status[name] for name in _COUNTS if name in status}
    counts.setdefault("currentReplicas", 0)
    for one in measured:
        used = get(one, "resource", "current", "averageUtilization")
        if get(one, "resource", "name") == "cpu" and used is not None:
            counts["currentCPUUtilizationPercentage"] = used
    return _made(obj, notes, kept, counts)


def _percent(metric: Obj) -> int | None:
    """The share of the CPU a metric aims at; None for any other metric."""
    if metric.get("type") != "Resource" or get(metric, "resource", "name") != "cpu":
        return None
    percent: int | None = get(metric, "resource", "target", "averageUtilization")
    return percent


def _to_v2(obj: Obj) -> Obj:
    spec: Obj = obj.get("spec") or {}
    status: Obj = obj.get("status") or {}
    notes = _read(get(obj, "metadata", "annotations") or {})
    kept: dict[str, Any] = {name: spec[name] for name in _BOUNDS if name in spec}
    metrics = [_metric(one, _TARGETS, _v2_source) for one in notes.get(METRICS) or ()]
    percent = spec.get("targetCPUUtilizationPercentage")
    if percent is not None or not metrics:
        metrics.append(cpu(CPU_PERCENT if percent is None else percent))
    kept["metrics"] = metrics
    if notes.get(BEHAVIOR):
        kept["behavior"] = _without_capitals(notes[BEHAVIOR])
    counts: dict[str, Any] = {name: status[name] for name in _COUNTS if status.get(name)}
    counts |= {"desiredReplicas": status.get("desiredReplicas", 0), "currentMetrics": None}
    used = status.get("currentCPUUtilizationPercentage")
    if notes.get(CURRENT) is not None:
        counts["currentMetrics"] = [_metric(one, _MEASURED, _v2_source) for one in notes[CURRENT]]
    elif used is not None:
        resource = {"name": "cpu", "current": {"averageUtilization": used}}
        counts["currentMetrics"] = [{"type": "Resource", "resource": resource}]
    if notes.get(CONDITIONS) is not None:
        counts["conditions"] = notes[CONDITIONS]
    return _made(obj, {}, kept, counts)


def cpu(percent: int) -> dict[str, Any]:
    """A metric of v2: the share of the CPU that is aimed at."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _made(obj: Obj, notes: dict[str, str], spec: Obj, status: Obj) -> Obj:
    """`obj` with these in place of its own annotations, spec and status."""
    out: Obj = {**obj, "spec": spec}
    if "status" in obj:
        out = {**out, "status": status}
    known = get(obj, "metadata", "annotations") or {}
    kept = {key: text for key, text in known.items() if key not in ANNOTATIONS} | notes
    if kept == known:
        return out
    if kept:
        return put(out, ("metadata", "annotations"), kept)  # type: ignore[no-any-return]  # an object
    meta = {key: value for key, value in out["metadata"].items() if key != "annotations"}
    return {**out, "metadata": meta}


_Source: TypeAlias = Callable[[str, Obj, Fields], dict[str, Any]]


def _metric(one: Obj, table: Mapping[str, Fields], made: _Source) -> dict[str, Any]:
    sources = {kind: made(kind, one[kind], table[kind]) for kind in _KINDS if one.get(kind)}
    return {"type": one.get("type", ""), **sources}


def _v1_source(kind: str, source: Obj, fields: Fields) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, path in fields:
        value = get(source, *path)
        if isinstance(value, Mapping) and path == ("describedObject",):
            value = {part: value[part] for part in _REFERENCE if part in value}
        if value is None and (kind, name) in _ALWAYS:
            value = "0"
        if value is not None:
            out[name] = value
    return out


def _v2_source(kind: str, source: Obj, fields: Fields) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, path in fields:
        if source.get(name) is not None:
            out = put(out, path, source[name])
    return _typed(kind, out) if fields is _TARGETS[kind] else out


def _typed(kind: str, source: dict[str, Any]) -> dict[str, Any]:
    """A source with the type of its target, which v1 does not name."""
    target: Obj = source.get("target") or {}
    named = {
        "external": "Value" if "value" in target else "AverageValue",
        "object": "AverageValue" if "averageValue" in target else "Value",
        "pods": "AverageValue",
    }
    share = "Utilization" if "averageUtilization" in target else "AverageValue"
    return {**source, "target": {"type": named.get(kind, share), **target}}


def _rules(behavior: Obj) -> dict[str, Any]:
    """A behavior as Go prints its internal type: with capitals, and with null for nothing."""
    out: dict[str, Any] = {}
    for way in ("scaleUp", "scaleDown"):
        rules = behavior.get(way)
        out[_capital(way)] = rules and {
            "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
            "SelectPolicy": rules.get("selectPolicy"),
            "Policies": [
                {_capital(name): policy.get(name) for name in ("type", "value", "periodSeconds")}
                for policy in rules.get("policies") or ()
            ],
            "Tolerance": rules.get("tolerance"),
        }
    return out


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _without_capitals(value: Any) -> Any:
    if isinstance(value, dict):
        rows = value.items()
        return {k[:1].lower() + k[1:]: _without_capitals(v) for k, v in rows if v is not None}
    return [_without_capitals(one) for one in value] if isinstance(value, list) else value


def _read(annotations: Obj) -> dict[str, Any]:
    """Parse the conversion annotations; one that is not JSON of the right shape is ignored."""
    found: dict[str, Any] = {}
    for key in ANNOTATIONS & annotations.keys():
        try:
            value = read_json(annotations[key])
        except ValueError:
            continue
        wanted = dict if key == BEHAVIOR else list
        if isinstance(value, wanted) and all(isinstance(v, dict) or v is None for v in _of(value)):
            found[key] = value
    return found


def _of(value: Any) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
