"""Writes on one pod: a change collected from several rules becomes one patch in ordered steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gitkruise.model import labels as wire
from gitkruise.model.plan import Event, Patch, Step
from gitkruise.model.pod import PodFacts
from gitkruise.planner.batches import Batch
from gitkruise.planner.lifecycle import StateChange
from gitkruise.planner.readiness import kruise_condition, with_ready
from gitkruise.wire.names import Obj
from gitkruise.wire.request import MERGE_PATCH, STRATEGIC_PATCH

_MAPS = ("labels", "annotations")


def metadata_patch(pod: PodFacts, metadata: Mapping[str, Any]) -> Patch:
    """One strategic patch of a pod's metadata."""
    return patch_with(pod, (Step(body={"metadata": metadata}, content_type=STRATEGIC_PATCH),))


@dataclass(slots=True)
class PodChange:
    """What one round writes on one pod. Empty when there is nothing to do.

    `metadata` and `containers` belong to one patch of the pod, `conditions` to its status, which
    is written first: a pod leaves service before its containers change. `report` are conditions
    that tell of the change, and are written when it is made.
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

    def apply(self, batch: Batch) -> None:
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
    done: Event | None = None,
    failed: Event | None = None,
) -> Patch:
    """The patch that brings `change` about."""
    return patch_with(pod, steps_of(pod, change, now), done=done, failed=failed)


def patch_with(
    pod: PodFacts,
    steps: tuple[Step, ...],
    *,
    done: Event | None = None,
    failed: Event | None = None,
) -> Patch:
    """A patch of the pod as we saw it."""
    return Patch(
        key=pod.key,
        version="v1",
        uid=pod.uid,
        resource_version=pod.resource_version,
        steps=steps,
        done=done,
        failed=failed,
    )


def steps_of(pod: PodFacts, change: PodChange, now: datetime) -> tuple[Step, ...]:
    """What brings `change` about: status, resize, the pod itself, report."""
    assert change, pod.name
    steps = []
    if change.conditions:
        steps.append(_status_step(with_ready(pod, change.conditions, now)))
    if change.resize is not None:
        steps.append(Step(body=change.resize, content_type=STRATEGIC_PATCH, subresource="resize"))
    main: dict[str, Any] = {}
    if change.metadata:
        main["metadata"] = change.metadata
    if change.containers:
        main["spec"] = {"containers": list(change.containers)}
    if main:
        plain = "spec" not in main and set(change.metadata) <= set(_MAPS)
        kind = MERGE_PATCH if plain else STRATEGIC_PATCH
        steps.append(Step(body=main, content_type=kind))
    if change.report:
        steps.append(_status_step(change.report))
    return tuple(steps)


def _status_step(conditions: Sequence[Obj]) -> Step:
    body = {"status": {"conditions": list(conditions)}}
    return Step(body=body, content_type=STRATEGIC_PATCH, subresource="status")
