"""Validation of WorkloadSpreads.

Source: WS-1 to WS-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gitkruise.admission.pods.scheduling import (
    preference_problems,
    selector_term_problems,
    toleration_problems,
)
from gitkruise.admission.rules.engine import count_or_percent, each, unique
from gitkruise.admission.rules.field_errors import Path, invalid, required
from gitkruise.admission.rules.labels import selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Forbidden, Problem
from gitkruise.model.planning.workload_spread import ADAPTIVE, TARGETS, spread_facts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SPREAD
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get

_GATE_OFF: Final = "feature WorkloadSpread is invalid, please open via feature-gate(WorkloadSpread)"
_SUBSETS: Final[Path] = ("spec", "subsets")
_TARGET: Final[Path] = ("spec", "targetRef")
_STRATEGY: Final[Path] = ("spec", "scheduleStrategy")
_UNSCHEDULABLE_S: Final = 295  # a subset is tried again after 300 s
_REQUIRED: Final = ("requiredNodeSelector", "requiredNodeSelectorTerm")
_PREFERRED: Final = ("preferredNodeSelector", "preferredNodeSelectorTerms")


def spread_problems(request: AdmissionRequest, _gates: Gates) -> Iterable[Problem]:
    """Validate a WorkloadSpread without reading other objects."""
    if not request.is_typed:
        return
    spec: Obj = request.new.get("spec") or {}
    yield from _target_problems(spec.get("targetRef"), get(request.old, *_TARGET))
    selector = get(spec, "targetFilter", "selector")
    if selector is not None:
        yield from selector_problems(selector, ("spec", "targetFilter", "selector"))
    subsets: Sequence[Obj] = spec.get("subsets") or ()
    if not subsets:
        yield required(_SUBSETS, "subsets number must >= 1 in WorkloadSpread")
        return
    yield from unique(subsets, _SUBSETS, "name")
    yield from each(subsets, _SUBSETS, _subset_problems)
    yield from _limit_problems(subsets)
    yield from _strategy_problems(spec.get("scheduleStrategy") or {}, subsets)


def neighbour_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Return the conflicts with others of the namespace. Raises Forbidden: the gate is off."""
    if not gates.workload_spread:
        raise Forbidden(_GATE_OFF)
    if not request.is_typed:
        return ()
    mine = spread_facts({**request.new, "metadata": _named(request)})
    for raw in request.view.objects(SPREAD, request.key.namespace):
        other = spread_facts(raw)
        if other.name != request.key.name and other.target == mine.target:
            message = f"ws.spec.targetRef is in conflict with other WorkloadSpread {other.name}"
            return (invalid(_TARGET, get(request.new, *_TARGET), message),)
    return ()


def _named(request: AdmissionRequest) -> Obj:
    meta = request.new["metadata"]
    return {**meta, "name": request.key.name, "namespace": request.key.namespace}


def _target_problems(target: Any, old: Any) -> Iterator[Problem]:
    if target is None:
        yield required(_TARGET, "no targetRef defined in WorkloadSpread")
        return
    if not all(target.get(field) for field in ("apiVersion", "kind", "name")):
        message = "empty TargetReference is not valid for WorkloadSpread."
        yield invalid(_TARGET, target, message)
    elif _meant(target)[0] not in TARGETS:
        kinds = ", ".join(f"{kind.kind} ({kind.group})" for kind in TARGETS)
        message = f"TargetReference's GroupKind is not permitted: gitkruise spreads {kinds}"
        yield invalid(_TARGET, target, message)
    if old is not None and _meant(old) != _meant(target):
        message = "change TargetReference is not permitted for WorkloadSpread"
        yield invalid(_TARGET, target, message)


def _meant(target: Obj) -> tuple[GroupKind, str]:
    """The workload that a reference names, whatever the version."""
    group, _ = split_api_version(target.get("apiVersion") or "")
    return GroupKind(group, target.get("kind") or ""), target.get("name") or ""


def _subset_problems(subset: Obj, at: Path) -> Iterator[Problem]:
    if not subset.get("name"):
        yield required((*at, "name"))
    for field in _REQUIRED:
        if subset.get(field) is not None:
            yield from selector_term_problems(subset[field], (*at, field))
    for field in _PREFERRED:
        yield from each(subset.get(field), (*at, field), preference_problems)
    yield from each(subset.get("tolerations"), (*at, "tolerations"), toleration_problems)
    if subset.get("maxReplicas") is not None:
        yield from count_or_percent(subset["maxReplicas"], (*at, "maxReplicas"))
    patch = subset.get("patch")
    if patch is not None and not isinstance(patch, Mapping):
        yield invalid((*at, "patch"), patch, "must be an object")


def _limit_problems(subsets: Sequence[Obj]) -> Iterator[Problem]:
    """Limits are all numbers, or percentages that do not add up to more than everything."""
    given = [(at, one["maxReplicas"]) for at, one in enumerate(subsets) if _limited(one)]
    texts = [isinstance(limit, str) for _, limit in given]
    for index, limit in given:
        if isinstance(limit, str) != texts[0]:
            message = "the maxReplicas type of all subsets must be the same"
            yield invalid((*_SUBSETS, index, "maxReplicas"), limit, message)
            return
    if not given or not texts[0] or not all(_is_percent(limit) for _, limit in given):
        return
    total = 0
    for index, limit in given:
        total += int(limit[:-1])
        if total > 100:
            message = "the sum of all subset's maxReplicas exceeds 100% is no permitted"
            yield invalid((*_SUBSETS, index, "maxReplicas"), limit, message)
            return
    if total < 100 and _limited(subsets[-1]):
        message = "maxReplicas sum of all subsets must equal 100% when type is specified as percent"
        yield invalid((*_SUBSETS, 0, "maxReplicas"), subsets[0].get("maxReplicas"), message)


def _limited(subset: Obj) -> bool:
    return subset.get("maxReplicas") is not None


def _is_percent(limit: str) -> bool:
    return not list(count_or_percent(limit, ()))


def _strategy_problems(strategy: Obj, subsets: Sequence[Obj]) -> Iterator[Problem]:
    adaptive = strategy.get("adaptive")
    if adaptive is None:
        return
    at = (*_STRATEGY, "adaptive")
    if strategy.get("type") != ADAPTIVE:
        message = (
            "the scheduleStrategy's type must be adaptive when using adaptive scheduleStrategy"
        )
        yield invalid((*_STRATEGY, "type"), strategy.get("type") or "", message)
    if len(subsets) > 1 and _limited(subsets[-1]):
        message = "the last subset must be not specified when using adaptive scheduleStrategy"
        yield invalid(at, adaptive, message)
    wait, most = adaptive.get("rescheduleCriticalSeconds"), 2**31 - 1
    if len(subsets) > 1:
        most = _UNSCHEDULABLE_S // (len(subsets) - 1)
    if wait is not None and not 0 <= wait <= most:
        field = "rescheduleCriticalSeconds"
        message = f"{field} < 0 or {field} > {most} is not permitted"
        yield invalid((*at, field), wait, message)
