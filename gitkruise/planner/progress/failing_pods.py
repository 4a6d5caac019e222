"""Pods that cannot start, and why: what no rollout gets past without a change."""

from __future__ import annotations

from typing import Final

from gitkruise.model.workloads.pod import PodFacts

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


def broken(pod: PodFacts) -> str:
    """Reason why a pod cannot start, in a sentence that stays the same while kubelet retries.

    The image is the one it should run: the status still names the old one after an update in place.
    """
    images = {c.name: c.image for c in pod.containers}
    for status in pod.statuses:
        waiting = status.waiting
        if waiting and waiting.reason in _PULLS:
            return f"image {images.get(status.name, status.image)} cannot be pulled"
        if waiting and waiting.reason == "CrashLoopBackOff":
            return f"CrashLoopBackOff: container {status.name} ends again and again"
        if waiting and waiting.reason in BROKEN:
            return f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    return ""
