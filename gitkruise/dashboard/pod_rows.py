"""How a pod is drawn: its condition and its revision, two channels that never share one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.pod import PodFacts


class PodState(StrEnum):
    """Condition of a pod in a word."""

    TERMINATING = "Terminating"
    FAILING = "Failing"
    UPDATING = "Updating in place"
    READY = "Ready"
    STARTING = "Starting"
    ENDED = "Ended"


def pod_state(pod: PodFacts, failing: Mapping[str, str]) -> PodState:
    """Return the condition of a pod; `failing` are those of its rollout with the reason."""
    if pod.deleting is not None:
        return PodState.TERMINATING
    if pod.name in failing:
        return PodState.FAILING
    if not pod.active:
        return PodState.ENDED
    if pod.in_place is False:
        return PodState.UPDATING
    return PodState.READY if pod.ready else PodState.STARTING


def pod_rows(rollout: Rollout, pods: Iterable[PodFacts]) -> dict[str, Any]:
    """Return the rows of a rollout's pods by name.

    `role` is that of the revision: update, current or other.
    """
    roles = {count.hash: count.role for count in rollout.revisions}
    failing = {**dict(rollout.hindered), **dict(rollout.failing)}
    return {
        pod.name: {
            "namespace": pod.namespace,
            "state": str(pod_state(pod, failing)),
            "why": failing.get(pod.name, ""),
            "role": roles.get(pod.short_revision, "other"),
            "revision": pod.short_revision,
            "node": pod.node,
            "restarts": pod.restarts,
        }
        for pod in pods
    }
