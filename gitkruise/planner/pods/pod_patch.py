"""Writes on one pod: a change collected from several rules becomes one patch in ordered steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gitkruise.model.planning.plan import Event, Patch, PatchStep
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.pods.inplace_batches import InPlaceBatch
from gitkruise.planner.pods.lifecycle import StateChange
from gitkruise.planner.pods.readiness import kruise_condition, with_ready
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, STRATEGIC_PATCH

_MAPS = ("labels", "annotations")


def metadata_patch(pod: PodFacts, metadata: Mapping[str, Any]) -> Patch:
    """One strategic patch of a pod's metadata."""
    return patch_with(pod, (PatchStep(body={"metadata": metadata}, content_type=STRATEGIC_PATCH),))


@dataclass(slots=True)
class PodChange:
    """The changes of one round to one pod. Empty when there is nothing to do.

    `metadata` and `containers` belong to one patch of the pod, `conditions` to its status, which is
    written first: a pod leaves service before its containers change. Labels and annotations of a
    change without containers are written with the status, but not with conditions that are new to
    the pod: those are created by server-side apply (`model.preconditions`). `report` are conditions
    about the change, written after it.
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    containers: Sequence[Obj] = ()
    conditions: list[Obj] = field(default_factory=list)
    resize: Obj | None = None
    report: Sequence[Obj] = ()

    def merge(self, metadata: Mapping[str, Any]) -> None:
        """Add metadata: maps merge, the rest is set."""
        for key, value in metadata.items():
            self.metadata[key] = {**self.metadata.get(key, {}), **value} if key in _MAPS else value

    def enter(self, pod: PodFacts, change: StateChange, now: datetime) -> None:
        """Add a lifecycle state change with its readiness keys."""
        self.merge({"labels": change.labels, "annotations": change.annotations})
        added = [name for name in change.finalizers if name not in pod.finalizers]
        if added:
            self.metadata["finalizers"] = added
        condition = kruise_condition(pod, change.ready_keys, now)
        if condition is not None:
            kept = [c for c in self.conditions if c["type"] != wire.KRUISE_READY]
            self.conditions = [*kept, condition]

    def apply(self, batch: InPlaceBatch) -> None:
        """Add one batch of an in-place update (its state annotation is the caller's)."""
        self.merge(batch.metadata)
        self.containers = batch.containers
        self.resize = batch.resize

    def __bool__(self) -> bool:
        parts = (self.metadata, self.containers, self.conditions, self.resize, self.report)
        return any(parts)


def patch_of(
    pod: PodFacts,
    change: PodChange,
    now: datetime,
    *,
    spends: bool = False,
    done: Event | None = None,
    failed: Event | None = None,
) -> Patch:
    """The patch that brings `change` about."""
    return patch_with(pod, steps_of(pod, change, now), spends=spends, done=done, failed=failed)


def patch_with(
    pod: PodFacts,
    steps: tuple[PatchStep, ...],
    *,
    spends: bool = False,
    done: Event | None = None,
    failed: Event | None = None,
) -> Patch:
    """A patch of the pod as we saw it; `spends` where the pod leaves service by it."""
    return Patch(
        key=pod.key,
        version="v1",
        uid=pod.uid,
        resource_version=pod.resource_version,
        steps=steps,
        seen=pod,
        spends=spends,
        done=done,
        failed=failed,
    )


def steps_of(pod: PodFacts, change: PodChange, now: datetime) -> tuple[PatchStep, ...]:
    """Steps that bring `change` about: status, resize, the pod itself, report."""
    if not change:
        raise ValueError(f"{pod.name}: nothing is to change")
    steps, metadata = [], change.metadata
    plain = set(metadata) <= set(_MAPS) and not change.containers
    if change.conditions:
        known = all(pod.condition(condition["type"]) for condition in change.conditions)
        along = metadata if known and plain and change.resize is None else {}
        steps.append(_status_step(with_ready(pod, change.conditions, now), along))
        metadata = {} if along else metadata
    if change.resize is not None:
        steps.append(
            PatchStep(body=change.resize, content_type=STRATEGIC_PATCH, subresource="resize")
        )
    main: dict[str, Any] = {}
    if metadata:
        main["metadata"] = metadata
    if change.containers:
        main["spec"] = {"containers": list(change.containers)}
    if main:
        kind = MERGE_PATCH if plain else STRATEGIC_PATCH
        steps.append(PatchStep(body=main, content_type=kind))
    if change.report:
        steps.append(_status_step(change.report))
    return tuple(steps)


def _status_step(conditions: Sequence[Obj], metadata: Mapping[str, Any] | None = None) -> PatchStep:
    """A write of the status, which may bring labels and annotations along.

    A server takes neither spec nor owners from it. Source: podStatusStrategy.
    """
    body: dict[str, Any] = {"status": {"conditions": list(conditions)}}
    if metadata:
        body["metadata"] = metadata
    return PatchStep(body=body, content_type=STRATEGIC_PATCH, subresource="status")
