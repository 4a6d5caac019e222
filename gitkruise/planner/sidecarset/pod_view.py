"""The matched pods judged once a round: what each runs, and whether it may change now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from gitkruise.model.workloads.pod import Container, PodFacts
from gitkruise.model.workloads.sidecarset import Sidecar, SidecarSetFacts
from gitkruise.model.workloads.sidecarset_annotations import (
    INPLACE_STATE,
    HashMark,
    in_place_states,
    mark_of,
    mark_without_image,
)
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.planner.sidecarset.hot_upgrade import HotContainer, roles, working_in
from gitkruise.wire.values.images import repository, same_image


class PodState(NamedTuple):
    """One matched pod. A tuple, because a round makes ten thousand of them.

    `updated`: it carries the set's hash. `fits`: it differs from the set in images alone.
    `consistent`: its sidecars run what its spec says. `serving`: Running, Ready, not terminating.
    `rested`: no hot sidecar is between two versions. `late`: a ready container that does not run
    its image yet, "" without.
    """

    pod: PodFacts
    updated: bool
    fits: bool
    consistent: bool
    serving: bool
    rested: bool
    late: str

    @property
    def ready(self) -> bool:
        """Ready for the SidecarSet: serving, with every idle container on its placeholder."""
        return self.serving and self.rested

    @property
    def up(self) -> bool:
        return self.consistent and self.serving and self.rested


class MatchCriteria:
    """Criteria that the pods of one SidecarSet are compared with."""

    def __init__(self, owner: SidecarSetFacts) -> None:
        self.owner = owner
        self.name, self.hash = owner.name, owner.hash
        self.without_image = owner.hash_without_image
        self.hot: tuple[Sidecar, ...] = tuple(s for s in owner.containers if s.hot)
        self.pairs = tuple((s.name, s.empty_image, *s.pair) for s in self.hot if s.empty_image)
        self.names = frozenset(name for s in owner.containers for name in s.names)
        self.sorted = tuple(sorted(self.names))

    def judge(self, pod: PodFacts) -> PodState:
        """One pass over the containers decides for nearly every pod."""
        notes, names = pod.annotations, self.names
        images = {c.name: c.image for c in pod.containers if c.name in names}
        digests = "@" in "".join(images.values())
        if digests or INPLACE_STATE in notes:
            consistent = self.consistent(pod, names)
        else:
            consistent = len(pod.containers) == len(pod.statuses)
        rested = True
        working = working_in(notes) if self.pairs else {}
        for name, empty, first, second in self.pairs:
            idle = second if working.get(name) == first else first
            rested = rested and images.get(idle) == empty
        without = _mark_without(notes.get(HASH_WITHOUT_IMAGE, ""), self.name)
        return PodState(
            pod,
            _mark(notes.get(HASH, ""), self.name).hash == self.hash,
            without.hash == self.without_image,
            consistent,
            pod.ready and pod.phase == "Running" and pod.deleting is None,
            rested,
            "" if consistent and not digests else self._late(pod),
        )

    def mark(self, pod: PodFacts) -> HashMark:
        """The pod's record of this set."""
        return _mark(pod.annotations.get(HASH, ""), self.name)

    def idle(self, pod: PodFacts) -> frozenset[str]:
        """The containers of hot sidecars that do not work."""
        return frozenset([roles(sidecar, pod.annotations)[1] for sidecar in self.hot])

    def side(self, pod: PodFacts, name: str) -> HotContainer:
        """One container of a hot pair."""
        ready = any(status.ready for status in pod.statuses if status.name == name)
        return HotContainer(name, image_of(pod, name), ready and self.consistent(pod, (name,)))

    def consistent(self, pod: PodFacts, names: Collection[str]) -> bool:
        """Return whether the containers `names` run the images of the pod's spec.

        An image by digest is compared with the status; others with the record of the last update.
        Source: OpenKruise's IsPodStateConsistent.
        """
        if len(pod.containers) != len(pod.statuses):
            return False
        compared = False
        for container in pod.containers:
            if container.name not in names:
                continue
            runs = _runs_digest(container, pod) if "@" in container.image else None
            if runs is None:
                return self._moved_on(pod, names)
            if not runs:
                return False
            compared = True
        return compared or self._moved_on(pod, names)

    def _moved_on(self, pod: PodFacts, names: Collection[str]) -> bool:
        """No container still runs what it ran before the update."""
        text = pod.annotations.get(INPLACE_STATE)
        if text is None:
            return True
        last = _last_statuses(text, self.name)
        if last is None:
            return False
        return not any(
            status.name in names
            and last.get(status.name) == status.image_id
            and not same_image(image_of(pod, status.name), status.image)
            for status in pod.statuses
        )

    def _late(self, pod: PodFacts) -> str:
        ready = {status.name for status in pod.statuses if status.ready}
        for name in self.sorted:
            if name in ready and not self.consistent(pod, (name,)):
                return name
        return ""


def judge(owner: SidecarSetFacts, pods: Iterable[PodFacts]) -> tuple[PodState, ...]:
    """All of them, by one criteria."""
    criteria = MatchCriteria(owner)
    return tuple([criteria.judge(pod) for pod in pods])


def image_of(pod: PodFacts, name: str) -> str:
    """The image of a container as the pod's spec has it; "" without such a one."""
    for container in pod.containers:
        if container.name == name:
            return container.image
    return ""


@lru_cache(maxsize=65536)
def _mark(text: str, name: str) -> HashMark:
    return mark_of({HASH: text}, name)


@lru_cache(maxsize=65536)
def _mark_without(text: str, name: str) -> HashMark:
    return mark_without_image({HASH_WITHOUT_IMAGE: text}, name)


@lru_cache(maxsize=65536)
def _last_statuses(text: str, name: str) -> dict[str, str] | None:
    """imageID by container before the last update; None when the annotation cannot be read."""
    states = in_place_states({INPLACE_STATE: text})
    if states is None:
        return None
    last: Mapping[str, Any] = states.get(name, {}).get("lastContainerStatuses") or {}
    return {container: entry.get("imageID", "") for container, entry in last.items()}


def _runs_digest(container: Container, pod: PodFacts) -> bool | None:
    """Return whether a container runs the digest it names; None when the status names no digest.

    The registry may be spelt out on one side only, which OpenKruise never takes for the same.
    """
    shown = next((s.image_id for s in pod.statuses if s.name == container.name), "")
    name, at, digest = shown.rpartition("://")[2].partition("@")
    if not at and shown:
        return None
    wanted = container.image.partition("@")[2]
    return digest == wanted and repository(name) == repository(container.image)
