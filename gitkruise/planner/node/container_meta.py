"""Node agent's report on the containers of a pod, and the restarts that make it come true.

Kubelet does not restart a container whose environment changed with a label or an annotation
(KUB-41). The agent does, while a controller keeps the pod out of service for an update in place,
and reports what every container was started with; the update is complete once that is what the pod
asks for (IP-55).

Source: META-1 to META-4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset_hash import HASH as SIDECARSET_HASH
from gitkruise.planner.pods.container_hashes import (
    ENVIRONMENT,
    PLAIN,
    environment_hash,
    expected_environment,
    plain_hash,
)
from gitkruise.planner.pods.inplace_state import BrokenStateError, read_state
from gitkruise.wire.primitives.gojson import ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedContainer:
    """A running container with what it was started with.

    `id` is spelt as in the pod's status. `plain` is kubelet's hash of it, None where the runtime
    does not report one; `environment` the hash of its metadata variables (`environment_hash`).
    """

    name: str
    id: str
    restarts: int
    plain: int | None
    environment: int


def is_reported(pod: PodFacts) -> bool:
    """Return whether OpenKruise's agent reports on the containers of a pod (META-1)."""
    return wire.INPLACE_READY in pod.gates or SIDECARSET_HASH in pod.annotations


def report_text(started: Iterable[StartedContainer]) -> str:
    """The annotation runtime-containers-meta, in the order of names."""
    listed = []
    for container in sorted(started, key=lambda c: c.name):
        hashes = {} if container.plain is None else {PLAIN: container.plain}
        entry: dict[str, Any] = {
            "name": container.name,
            "containerID": container.id,
            "restartCount": container.restarts,
            "hashes": {**hashes, ENVIRONMENT: container.environment},
        }
        listed.append(entry)
    return ordered({"containers": listed}).decode()


def stale_containers(pod: PodFacts, started: Iterable[StartedContainer]) -> tuple[str, ...]:
    """Return the containers to stop so that they restart with the environment of now (META-3).

    None unless a controller keeps the pod out of service for an update that changes environment
    from metadata. A container whose image
    changed as well is left to kubelet, which restarts it anyway: one stop is enough.
    """
    if pod.deleting is not None or pod.in_place is not False or not _changes_environment(pod):
        return ()
    by_name = {container.name: container for container in started}
    return tuple(
        spec.name
        for spec in pod.containers
        if (seen := by_name.get(spec.name)) is not None
        and seen.plain in (None, plain_hash(spec.name, spec.image))
        and seen.environment != environment_hash(expected_environment(pod, spec))
    )


def _changes_environment(pod: PodFacts) -> bool:
    """The update in place says so; one whose record does not parse is its controller's problem."""
    try:
        state = read_state(pod)
    except BrokenStateError:
        return False
    return state is not None and state.env_from_metadata
