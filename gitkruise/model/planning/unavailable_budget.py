"""PodUnavailableBudget: facts of the object, and of its pods the annotations that concern it.

Source: API policy.kruise.io of OpenKruise (PUB-1 to PUB-24).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from gitkruise.errors import BadRequest
from gitkruise.model.workloads.labels import PROTECT_OPERATIONS, TOTAL_REPLICAS
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.primitives.times import parse_times
from gitkruise.wire.values.intstr import IntOrString
from gitkruise.wire.values.selectors import NOTHING, Selector, label_selector

VERSION: Final = "v1beta1"  # the storage version
RELATED: Final = "pub.kruise.io/related-pub"
RELATED_LEGACY: Final = "kruise.io/related-pub"
NO_PROTECTION: Final = "pub.kruise.io/no-protect"
UNAVAILABLE_PREFIX: Final = "unavailable-pod.fluid.io/"  # of labels
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


class PodOperation(StrEnum):
    """Operations on a pod that a budget protects from."""

    DELETE = "DELETE"
    UPDATE = "UPDATE"
    EVICT = "EVICT"
    RESIZE = "RESIZE"


DEFAULT_OPERATIONS: Final = frozenset(
    {PodOperation.DELETE, PodOperation.UPDATE, PodOperation.EVICT}
)


class BudgetTarget(NamedTuple):
    """The workload that a budget protects, in the namespace of the budget."""

    group: str
    kind: str
    name: str

    def key(self, namespace: str) -> ObjectKey:
        return ObjectKey(self.group, self.kind, namespace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetFacts:
    """One PodUnavailableBudget. `selector` matches nothing where a target is given.

    `operations` are words as written; `total` replaces the number of pods that workloads ask for.
    `disrupted` and `unavailable` are the recorded pods with the times of their records.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    selector: Selector
    target: BudgetTarget | None
    max_unavailable: IntOrString | None
    min_available: IntOrString | None
    operations: frozenset[str]
    total: int | None
    ignored: Selector
    status: Obj
    allowed: int
    desired: int
    disrupted: Mapping[str, datetime]
    unavailable: Mapping[str, datetime]

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def counted(self) -> bool:
        """Return whether the status is of the present spec."""
        return (self.status.get("observedGeneration") or 0) >= self.generation

    def protects_from(self, operation: PodOperation) -> bool:
        """Return whether the operation is one of those that the budget names."""
        return operation in self.operations

    def recorded(self, pod: str) -> bool:
        """Return whether an operation on the pod was let pass and is not accounted for yet."""
        return pod in self.disrupted or pod in self.unavailable


def budget_facts(raw: Obj) -> BudgetFacts:
    """Facts of a stored budget, lenient: what cannot be read is as if it were not given."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    notes = meta.get("annotations") or {}
    return BudgetFacts(
        key=key_of(raw),
        uid=meta.get("uid") or "",
        resource_version=meta.get("resourceVersion") or "",
        generation=meta.get("generation") or 0,
        deleting=bool(meta.get("deletionTimestamp")),
        selector=NOTHING if spec.get("targetRef") else _selector(spec.get("selector")),
        target=_target(spec.get("targetRef")),
        max_unavailable=spec.get("maxUnavailable"),
        min_available=spec.get("minAvailable"),
        operations=protected_operations(spec, notes),
        total=expected_total(spec, notes),
        ignored=_selector(spec.get("ignoredPodSelector")),
        status=status,
        allowed=status.get("unavailableAllowed") or 0,
        desired=status.get("desiredAvailable") or 0,
        disrupted=parse_times(status.get("disruptedPods")),
        unavailable=parse_times(status.get("unavailablePods")),
    )


def protected_operations(spec: Obj, notes: Mapping[str, str]) -> frozenset[str]:
    """The operations that a budget protects from: field, annotation, or all but RESIZE."""
    named = spec.get("protectOperations") or notes.get(PROTECT_OPERATIONS, "").split(",")
    return frozenset(filter(None, named)) or DEFAULT_OPERATIONS


def expected_total(spec: Obj, notes: Mapping[str, str]) -> int | None:
    """The expected number of pods, where field or annotation give it."""
    given = spec.get("protectTotalReplicas")
    if given is not None:
        return int(given)
    return int_or_none(notes.get(TOTAL_REPLICAS), 32)


def related_budget(notes: Mapping[str, str]) -> str:
    """The name of the budget of a pod with these annotations, or ""."""
    return notes.get(RELATED) or notes.get(RELATED_LEGACY) or ""


def related_notes(budget: str) -> dict[str, str]:
    """The annotations of a pod that tie it to its budget."""
    return {RELATED: budget, RELATED_LEGACY: budget}


def is_unprotected(notes: Mapping[str, str]) -> bool:
    """Return whether a pod with these annotations is exempt from every budget."""
    return notes.get(NO_PROTECTION) in _TRUE


def _target(raw: Obj | None) -> BudgetTarget | None:
    if not raw:
        return None
    group, _ = split_api_version(raw.get("apiVersion") or "")
    return BudgetTarget(group, raw.get("kind") or "", raw.get("name") or "")


def _selector(raw: Obj | None) -> Selector:
    """An empty selector selects nothing here, nor does one that admission would refuse."""
    try:
        return label_selector(raw) or NOTHING
    except BadRequest:
        return NOTHING
