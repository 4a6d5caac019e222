"""Pods that cannot start, and why: what no rollout gets past without a change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.conditions import find
from gitkruise.model.workloads.pod import ContainerStatus, PodFacts, WaitingState
from gitkruise.model.workloads.sidecarset_annotations import in_place_states
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time
from gitkruise.wire.values.images import same_image

# A container waiting for one of these does not get further without a change.
BROKEN: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
_PULLS: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
# Reported of a container that was created, so the status names the image that failed.
_CREATED: Final = frozenset({"CrashLoopBackOff", "RunContainerError"})
_NOT_READY: Final = "container {} is not ready"
_ENDS: Final = "CrashLoopBackOff: container {} ends again and again"
_QUOTED_IMAGE: Final = re.compile(r'\bimage(?: \w+)? "([^"]+)"')


class PodFailure(NamedTuple):
    """Reason why a pod cannot start: `own` of containers of the object that is judged, `foreign` of
    others, with the container; "" without one."""

    own: str
    foreign: str


def template_images(template: Obj) -> Mapping[str, str]:
    """Return the image of each container of a raw pod template, init containers first."""
    spec = template.get("spec") or {}
    listed = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {one["name"]: one.get("image", "") for one in listed}


def failure(pod: PodFacts, own: Collection[str]) -> PodFailure:
    """Return what a change of the object that brings the containers `own` would mend, and what
    only a change of another object would."""
    found = broken(pod)
    mine = [why for name, why in found.items() if name in own]
    others = [f"container {name}: {why}" for name, why in found.items() if name not in own]
    return PodFailure(mine[0] if mine else "", others[0] if others else "")


def failures(
    pods: Iterable[PodFacts], own: Collection[str]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the pods (name, why) that a change of the object would mend, and the other ones."""
    found = [(pod.name, failure(pod, own)) for pod in pods]
    failing = tuple((name, why.own) for name, why in found if why.own)
    hindered = tuple((name, why.foreign) for name, why in found if why.foreign and not why.own)
    return failing, hindered


def cannot_start(down: Sequence[tuple[str, str]], serving: str) -> str:
    """`web-1 and 2 more cannot start: WHY; 4 of 10 keep serving`, of pods (name, why)."""
    pod, why = down[0]
    more = f" and {len(down) - 1} more" if len(down) > 1 else ""
    return f"{pod}{more} cannot start: {why}; {serving}"


def unready(pod: PodFacts) -> str:
    """Return what a pod that can start waits for before it is ready; "" where nothing says it."""
    if lacking := unscheduled(pod):
        return lacking
    plain = _ending(pod)
    for status in (*pod.init_statuses, *pod.statuses):
        if not status.ready:
            waiting = f": {status.waiting.reason}" if status.waiting is not None else ""
            what = "init container {} has not finished" if status.name in plain else _NOT_READY
            return what.format(status.name) + waiting
    for gate in pod.gates:
        condition = pod.condition(gate)
        if condition is None or not condition.true:
            return f"readiness gate {gate} is not True"
    return ""


def unscheduled(pod: PodFacts) -> str:
    """Return why no node takes a pod; "" where one may."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"no node takes it: {scheduled.message or scheduled.reason}"
    return ""


def stuck_job(job: Obj, pods: Iterable[PodFacts]) -> str:
    """Return what keeps each active pod of a Job from starting; "" if one may start or has."""
    own = template_images(job["spec"]["template"])
    found = [(pod.name, failure(pod, own)) for pod in pods if pod.active]
    down = [(name, why.own or why.foreign) for name, why in found if why.own or why.foreign]
    if not down or len(down) < len(found):
        return ""
    done = int(get(job, "status", "succeeded", default=0))
    return cannot_start(down, f"{done} of {get(job, 'spec', 'completions', default=1)} succeeded")


def broken(pod: PodFacts) -> Mapping[str, str]:
    """Return the containers that cannot start, each with a sentence that stays the same while
    kubelet retries.

    The image is the one it should run: the status still names the old one after an update in place.
    A failure of an image that the pod should no longer run is none: kubelet has not tried the next
    one yet. Nor is a pause of the kubelet's crash back-off after a successful exit, or after an
    exit that an update in place caused (KUB-61, KUB-64): the container starts when it is over.
    """
    images = {c.name: c.image for c in (*pod.init_containers, *pod.containers)}
    found = {name: _ENDS.format(name) for name in _failing_again(pod)}
    for status in (*pod.init_statuses, *pod.statuses):
        waiting = status.waiting
        if waiting is None or waiting.reason not in BROKEN:
            continue
        image = images.get(status.name, status.image)
        if not _of_earlier_image(status, waiting, image) and not _only_waits(pod, status, waiting):
            found[status.name] = _sentence(status.name, waiting, image)
    return found


def _failing_again(pod: PodFacts) -> Iterator[str]:
    """Yield the init containers that failed, were started again, and failed again.

    Kubelet reports their end, and not the back-off, until it starts them once more. No update ends
    a plain init container, so that its exit is its own.
    """
    if not pod.init_statuses:
        return
    plain = _ending(pod)
    for status in pod.init_statuses:
        end, before = status.terminated, status.ended
        if status.name in plain and end and end.exit_code and before and before.exit_code:
            yield status.name


def _ending(pod: PodFacts) -> Collection[str]:
    """Return the init containers that end before the others start."""
    return {c.name for c in pod.init_containers if not c.native_sidecar}


def _only_waits(pod: PodFacts, status: ContainerStatus, waiting: WaitingState) -> bool:
    """Return whether crash back-off delays a container that did not fail.

    Kubelet counts each exit of an image, also with code 0, and also one that it brought about for
    an update in place; such a container had started before the update.
    """
    ended = status.ended
    if waiting.reason != "CrashLoopBackOff" or ended is None:
        return False
    if ended.exit_code == 0:
        return True
    updated = _updated_at(pod.annotations, status.name)
    return updated is not None and ended.started_at is not None and ended.started_at <= updated


def _updated_at(notes: Mapping[str, str], container: str) -> datetime | None:
    """Return the instant of the container's last update in place, None without one.

    Reads the records of OpenKruise's CloneSet and SidecarSet controllers; one that cannot be read
    is no evidence of an update.
    """
    text = notes.get(wire.INPLACE_STATE) or notes.get(wire.INPLACE_STATE_LEGACY)
    states = [*(in_place_states(notes) or {}).values()]
    states += [_update_of(text)] if text else []
    times = [
        time
        for state in states
        if container in (state.get("lastContainerStatuses") or {})
        for time in _times_of(state, container)
    ]
    return max(times, default=None)


def _update_of(text: str) -> dict[str, Any]:
    try:
        found = read_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _times_of(state: Mapping[str, Any], container: str) -> Iterator[datetime]:
    """Yield the instants of an update's batches that changed the container, and of its begin."""
    batches = state.get("containerBatchesRecord") or ()
    texts = [b.get("timestamp") for b in batches if container in (b.get("containers") or ())]
    for text in (state.get("updateTimestamp"), *texts):
        try:
            time = parse_time(text)
        except ValueError:
            continue
        if time is not None:
            yield time


def _sentence(name: str, waiting: WaitingState, image: str) -> str:
    if waiting.reason in _PULLS:
        return f"image {image} cannot be pulled"
    if waiting.reason == "CrashLoopBackOff":
        return _ENDS.format(name)
    return f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason


def _of_earlier_image(status: ContainerStatus, waiting: WaitingState, image: str) -> bool:
    """Return whether the failure is of an image that the container had before an update in place.

    A pull names its image only in its message: the status keeps the one that ran last.
    """
    if waiting.reason in _CREATED:
        named = [] if status.image.startswith("sha256:") else [status.image]  # an id, not a name
    else:
        named = _QUOTED_IMAGE.findall(waiting.message)
    return any(named) and not any(same_image(one, image) for one in named)


def refusals(raw: Obj, *types: str, dated: bool = True) -> str:
    """Return what the API server answered to writes of pods, by conditions of the workload `raw`.

    The time is part of it where it was observed: OpenKruise sets its conditions and never takes
    them back.
    """
    conditions = get(raw, "status", "conditions", default=())
    found = (find(conditions, type_) for type_ in types)
    return "; ".join(
        f"{one['type']} since {one.get('lastTransitionTime')}: {one['message']}"
        if dated
        else str(one["message"])
        for one in found
        if one is not None and one.get("status") == "True" and one.get("message")
    )
