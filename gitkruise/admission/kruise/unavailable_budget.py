"""Admission of PodUnavailableBudgets, and the annotation that ties a new pod to its budget.

Source: PUB-1 to PUB-9, PUB-23.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gitkruise.admission.rules.engine import at_most_all, count_or_percent
from gitkruise.admission.rules.field_errors import Path, invalid, required, unsupported
from gitkruise.admission.rules.labels import is_empty, selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.admission.rules.selector_overlap import overlap
from gitkruise.errors import Forbidden, MapKey, Problem
from gitkruise.model.planning.budget_matching import budget_of_new_pod
from gitkruise.model.planning.unavailable_budget import PodOperation, budget_facts, related_notes
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET, PROTECT_OPERATIONS, TOTAL_REPLICAS
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

_SPEC: Final[Path] = ("spec",)
_NOTES: Final[Path] = ("metadata", "annotations")
_GATES_OFF: Final = (
    "feature PodUnavailableBudget is invalid, please open via feature-gate"
    "(PodUnavailableBudgetDeleteGate, PodUnavailableBudgetUpdateGate)"
)
_TARGET: Final = ("apiVersion", "kind", "name")


def name_budget(request: AdmissionRequest, gates: Gates) -> Obj:
    """The new pod with the name of its budget, if it has one."""
    pod = request.new
    if not gates.budgets_pods or not request.view.objects(BUDGET, request.key.namespace):
        return pod
    name = budget_of_new_pod(request.view, pod, request.key.namespace)
    if not name:
        return pod
    notes = {**get(pod, "metadata", "annotations", default={}), **related_notes(name)}
    return {**pod, "metadata": {**pod["metadata"], "annotations": notes}}


def budget_problems(request: AdmissionRequest, _gates: Gates) -> Iterable[Problem]:
    """Validate a budget without reading other objects."""
    if not request.is_typed:
        return
    new, old = request.new, request.old
    spec: Obj = new.get("spec") or {}
    yield from _annotation_problems(new, spec)
    yield from _subject_problems(spec)
    yield from _amount_problems(spec)
    for index, word in enumerate(spec.get("protectOperations") or ()):
        if word not in set(PodOperation):
            yield unsupported(("spec", "protectOperations", index), word, list(PodOperation))
    ignored, at = spec.get("ignoredPodSelector"), ("spec", "ignoredPodSelector")
    if ignored is not None:
        yield from selector_problems(ignored, at)
        if is_empty(ignored):
            yield invalid(at, ignored, "empty ignoredPodSelector would ignore every pod")
    if old is not None and _moves(new, old):
        yield required(("spec", "selector, targetRef"), "selector and targetRef cannot be modified")


def neighbour_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Return the conflicts with other budgets of the namespace. Raises Forbidden: gates off."""
    if not gates.budgets_pods:
        raise Forbidden(_GATES_OFF)
    if not request.is_typed:
        return ()
    mine = budget_facts(request.new)
    spec: Obj = request.new.get("spec") or {}
    for raw in request.view.objects(BUDGET, request.key.namespace):
        other = budget_facts(raw)
        if other.name == request.key.name:
            continue
        message = f"in conflict with other PodUnavailableBudget {other.name}"
        if mine.target is not None and mine.target == other.target:
            return (invalid(("spec", "targetRef"), spec.get("targetRef"), message),)
        if overlap(mine.selector, other.selector):
            return (invalid(("spec", "selector"), spec.get("selector"), message),)
    return ()


def _annotation_problems(new: Obj, spec: Obj) -> Iterator[Problem]:
    notes = get(new, *_NOTES, default={})
    named = notes.get(PROTECT_OPERATIONS)
    for word in named.split(",") if named else ():
        if word not in set(PodOperation):
            yield unsupported((*_NOTES, MapKey(PROTECT_OPERATIONS)), word, list(PodOperation))
    text = notes.get(TOTAL_REPLICAS)
    if text is None:
        return
    at, total = (*_NOTES, MapKey(TOTAL_REPLICAS)), spec.get("protectTotalReplicas")
    if int_or_none(text, 32) is None:
        yield invalid(at, text, "must be a valid int32")
    elif total is not None and int_or_none(text) != total:
        yield invalid(at, text, "must match spec.protectTotalReplicas when both are set")


def _subject_problems(spec: Obj) -> Iterator[Problem]:
    """The pods: a selector or a target."""
    selector, target = spec.get("selector"), spec.get("targetRef")
    both = ("spec", "selector, targetRef")
    if selector is None and target is None:
        yield required(both, "no selector or targetRef defined in PodUnavailableBudget")
    elif selector is not None and target is not None:
        yield required(both, "selector and targetRef are mutually exclusive")
    elif target is not None:
        if not all(target.get(field) for field in _TARGET):
            yield invalid(("spec", "targetRef"), target, "apiVersion, kind and name are needed")
    else:
        yield from selector_problems(selector, ("spec", "selector"))
        if is_empty(selector):
            message = "empty selector is not valid for PodUnavailableBudget."
            yield invalid(("spec", "selector"), selector, message)


def _amount_problems(spec: Obj) -> Iterator[Problem]:
    given = [f for f in ("maxUnavailable", "minAvailable") if spec.get(f) is not None]
    both = ("spec", "maxUnavailable, minAvailable")
    if not given:
        message = "no maxUnavailable or minAvailable defined in PodUnavailableBudget"
        yield required(both, message)
    elif len(given) == 2:
        yield required(both, "maxUnavailable and minAvailable are mutually exclusive")
    else:
        at, amount = (*_SPEC, given[0]), spec[given[0]]
        yield from count_or_percent(amount, at)
        yield from at_most_all(amount, at)


def _moves(new: Obj, old: Obj) -> bool:
    """Return whether an update changes which pods are meant."""
    return any(get(new, "spec", f) != get(old, "spec", f) for f in ("selector", "targetRef"))
