"""Pods that cannot start, and why: what no rollout gets past without a change."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from gitkruise.model.workloads.pod import ContainerStatus, PodFacts, WaitingState
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
_QUOTED_IMAGE: Final = re.compile(r'\bimage(?: \w+)? "([^"]+)"')


class PodFailure(NamedTuple):
    """Reason why a pod cannot start: `own` of containers of the object that is judged, `foreign` of
    others, with the container; "" without one."""

    own: str
    foreign: str


def failure(pod: PodFacts, own: Collection[str]) -> PodFailure:
    """Return what a change of the object that brings the containers `own` would mend, and what
    only a change of another object would."""
    found = broken(pod)
    mine = [why for name, why in found.items() if name in own]
    others = [f"container {name}: {why}" for name, why in found.items() if name not in own]
    return PodFailure(mine[0] if mine else "", others[0] if others else "")


def broken(pod: PodFacts) -> Mapping[str, str]:
    """Return the containers that cannot start, each with a sentence that stays the same while
    kubelet retries.

    The image is the one it should run: the status still names the old one after an update in place.
    A failure of an image that the pod should no longer run is none: kubelet has not tried the next
    one yet.
    """
    images = {c.name: c.image for c in pod.containers}
    found = {}
    for status in pod.statuses:
        waiting = status.waiting
        if waiting is None or waiting.reason not in BROKEN:
            continue
        image = images.get(status.name, status.image)
        if not _of_earlier_image(status, waiting, image):
            found[status.name] = _sentence(status.name, waiting, image)
    return found


def _sentence(name: str, waiting: WaitingState, image: str) -> str:
    if waiting.reason in _PULLS:
        return f"image {image} cannot be pulled"
    if waiting.reason == "CrashLoopBackOff":
        return f"CrashLoopBackOff: container {name} ends again and again"
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
