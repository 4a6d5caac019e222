"""Pods as they are drawn: condition and revision are two channels that never share one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.pod import PodFacts


class CellShape(StrEnum):
    """Condition of a pod in a word."""

    TERMINATING = "Terminating"
    FAILING = "Failing"
    UPDATING = "Updating in place"
    READY = "Ready"
    STARTING = "Starting"
    ENDED = "Ended"


def cell_shape(pod: PodFacts, failing: Mapping[str, str]) -> CellShape:
    """Return the condition of a pod; `failing` are those of its rollout with the reason."""
    if pod.deleting is not None:
        return CellShape.TERMINATING
    if pod.name in failing:
        return CellShape.FAILING
    if not pod.active:
        return CellShape.ENDED
    if pod.in_place is False:
        return CellShape.UPDATING
    return CellShape.READY if pod.ready else CellShape.STARTING


def pod_rows(rollout: Rollout, pods: Iterable[PodFacts]) -> dict[str, Any]:
    """Return the rows of a rollout's pods by name.

    `role` is that of the revision: update, current or other.
    """
    roles = {count.hash: count.role for count in rollout.revisions}
    failing = {**dict(rollout.hindered), **dict(rollout.failing)}
    return {
        pod.name: {
            "namespace": pod.namespace,
            "state": str(cell_shape(pod, failing)),
            "why": failing.get(pod.name, ""),
            "role": roles.get(pod.short_revision, "other"),
            "revision": pod.short_revision,
            "node": pod.node,
            "restarts": pod.restarts,
        }
        for pod in pods
    }
