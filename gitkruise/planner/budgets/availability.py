"""Availability of one pod as budgets count it: it serves, and runs what its spec says.

Source: PUB-25, PUB-26.
"""

from __future__ import annotations

from typing import Final

from gitkruise.model.planning.unavailable_budget import UNAVAILABLE_PREFIX
from gitkruise.model.workloads.pod import Container, PodFacts
from gitkruise.model.workloads.sidecarset_annotations import in_place_states, injected_sets
from gitkruise.planner.pods.inplace_batches import batch_done
from gitkruise.planner.pods.inplace_state import read_state
from gitkruise.wire.values.images import same_image

_INJECTED: Final = "IS_INJECTED"


def is_available(pod: PodFacts, *, vertical: bool = False) -> bool:
    """Running, Ready, not marked unavailable, consistent. `vertical`: resizes are waited for."""
    if not pod.ready or pod.phase != "Running":
        return False
    if any(label.startswith(UNAVAILABLE_PREFIX) for label in pod.labels):
        return False
    return is_consistent(pod, vertical=vertical)


def is_consistent(pod: PodFacts, *, vertical: bool = False) -> bool:
    """Return whether the containers run what the spec says, as far as annotations show.

    Images by digest are compared with the status, others with the record of the last update.
    """
    compared = 0
    running = {status.name: status.image_id for status in pod.statuses}
    for container in pod.containers:
        digest = container.image.partition("@")[2]
        shown = running.get(container.name, "").partition("@")[2]
        if digest and shown and shown != digest:
            return False
        compared += bool(digest and shown)
    if compared == len(pod.containers):
        return True
    return _sidecars_moved_on(pod) and _update_is_over(pod, vertical=vertical)


def _sidecars_moved_on(pod: PodFacts) -> bool:
    """No container of a SidecarSet runs what it ran before an upgrade."""
    sidecars = {c.name: c.image for c in pod.containers if _is_injected(c)}
    sets = injected_sets(pod.annotations)
    states = in_place_states(pod.annotations) if sidecars and sets else {}
    if not states:
        return states is not None  # None: the record cannot be read
    before = {
        name: status.get("imageID")
        for of_set in sets
        for name, status in (states.get(of_set, {}).get("lastContainerStatuses") or {}).items()
    }
    running = {status.name: status for status in pod.statuses}
    for name, image in sidecars.items():
        status = running.get(name)
        if status is None:
            return False
        if before.get(name) == status.image_id and not same_image(image, status.image):
            return False
    return True


def _is_injected(container: Container) -> bool:
    return any(v.name == _INJECTED and v.value == "true" for v in container.env or ())


def _update_is_over(pod: PodFacts, *, vertical: bool) -> bool:
    """No update in place waits for its grace period, its next batch or its containers."""
    if pod.in_grace:
        return False
    try:
        state = read_state(pod)
        return state is None or (not state.more and not batch_done(pod, state, vertical=vertical))
    except ValueError:  # how far it is cannot be known
        return False
