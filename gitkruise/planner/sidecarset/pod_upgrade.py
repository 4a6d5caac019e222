"""Writes of an upgrade or a flip on one pod: images, hashes, state, condition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset_annotations import (
    INPLACE_STATE,
    WORKING,
    in_place_states,
    in_place_text,
    upgraded_notes,
    working_text,
)
from gitkruise.model.workloads.sidecarset_metadata import patched_annotations
from gitkruise.planner.pods.pod_patch import PodChange
from gitkruise.planner.sidecarset.hot_upgrade import (
    HotUpgradeStep,
    rest,
    roles,
    upgraded,
    working_in,
)
from gitkruise.planner.sidecarset.pod_view import MatchCriteria, image_of
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

UPGRADABLE: Final = "SidecarSetUpgradable"
_REASONS: Final = {True: "AllSidecarsetUpgradable", False: "UpdateImmutableField"}


def upgrade(criteria: MatchCriteria, pod: PodFacts, now: datetime) -> PodChange:
    """Images alone change in the spec: what else differs reaches new pods only.

    Raises ValueError when the pod carries something that cannot be read.
    """
    owner = criteria.owner
    turns = [_turn(criteria, pod, at) for at in range(len(owner.containers))]
    change = _write(criteria, pod, turns, now)
    change.merge({"annotations": upgraded_notes(pod.annotations, owner, now)})
    change.merge({"annotations": _patched(criteria, pod)})
    condition = upgradable_condition(pod, owner.name, now, can=True)
    change.report = [condition] if condition else ()
    return change


def _turn(criteria: MatchCriteria, pod: PodFacts, at: int) -> HotUpgradeStep:
    sidecar = criteria.owner.containers[at]
    if sidecar.hot:
        first, second = (criteria.side(pod, name) for name in sidecar.pair)
        version = criteria.owner.resource_version
        return upgraded(sidecar, pod.annotations, first, second, version)
    if image_of(pod, sidecar.name) in {sidecar.image, ""}:  # "": a native one, never updated
        return HotUpgradeStep()
    return HotUpgradeStep(images={sidecar.name: sidecar.image})


def _patched(criteria: MatchCriteria, pod: PodFacts) -> dict[str, str]:
    """Changes of patchPodMetadata to the pod's annotations. Raises ValueError."""
    made = patched_annotations(pod.annotations, criteria.owner.pod_metadata)
    return {key: value for key, value in made.items() if pod.annotations.get(key) != value}


def flip(criteria: MatchCriteria, pod: PodFacts, now: datetime) -> PodChange:
    """Every idle container of the pod's hot sidecars to the placeholder of the present spec."""
    turns = []
    for sidecar in criteria.hot:
        working, idle = roles(sidecar, pod.annotations)
        if sidecar.empty_image and image_of(pod, idle) != sidecar.empty_image:
            turns.append(rest(sidecar, idle=idle, working=working))
    return _write(criteria, pod, turns, now)


def _write(
    criteria: MatchCriteria, pod: PodFacts, turns: list[HotUpgradeStep], now: datetime
) -> PodChange:
    images = {name: image for turn in turns for name, image in turn.images.items()}
    notes = {key: value for turn in turns for key, value in turn.notes.items()}
    notes[INPLACE_STATE] = _state_text(criteria, pod, images, now)
    moved = _working(criteria, turns)
    if moved:
        notes[WORKING] = working_text({**working_in(pod.annotations), **moved})
    change = PodChange()
    change.merge({"annotations": notes})
    change.containers = [  # in the pod's order: a patch that lists them otherwise would move them
        {"name": c.name, "image": images[c.name]} for c in pod.containers if c.name in images
    ]
    return change


def _working(criteria: MatchCriteria, turns: list[HotUpgradeStep]) -> dict[str, str]:
    """The working containers after the change, by the name of the hot sidecar."""
    base = {name: sidecar.name for sidecar in criteria.hot for name in sidecar.pair}
    return {base[turn.working]: turn.working for turn in turns if turn.working}


def _state_text(
    criteria: MatchCriteria, pod: PodFacts, images: Mapping[str, str], now: datetime
) -> str:
    """The state annotation: image ids before the change, those of earlier ones kept.

    Revision and time are those of this change; OpenKruise keeps the first ones for ever, and
    nothing reads them. An unreadable annotation is replaced.
    """
    states: Mapping[str, Any] = in_place_states(pod.annotations) or {}
    known = (states.get(criteria.name) or {}).get("lastContainerStatuses") or {}
    ids = {status.name: status.image_id for status in pod.statuses}
    last = {**known, **{name: {"imageID": ids.get(name, "")} for name in images}}
    state = {
        "revision": criteria.hash,
        "updateTimestamp": format_time(now),
        "lastContainerStatuses": last,
    }
    return in_place_text(states, criteria.name, state)


def upgradable_entries(pod: PodFacts) -> dict[str, bool]:
    """The condition's entries: can each SidecarSet change the pod live? Raises ValueError."""
    condition = pod.condition(UPGRADABLE)
    if condition is None or not condition.message:
        return {}
    try:
        return {str(name): bool(can) for name, can in read_json(condition.message).items()}
    except (ValueError, AttributeError) as error:
        raise ValueError(f"condition {UPGRADABLE} carries no JSON object: {error}") from error


def upgradable_condition(pod: PodFacts, set_name: str, now: datetime, *, can: bool) -> Obj | None:
    """The condition with the entry of one SidecarSet set; None when that changes nothing.

    Raises ValueError when the condition of the pod cannot be read.
    """
    had = upgradable_entries(pod)
    entries = {**had, set_name: can}
    every = all(entries.values())
    old = pod.condition(UPGRADABLE)
    status, reason = ("True" if every else "False"), _REASONS[every]
    same = old is not None and old.status == status
    if old is not None and same and entries == had and old.reason == reason:
        return None
    since = old.last_transition_time if old is not None and same else None
    return {
        "type": UPGRADABLE,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(since or now),
        "reason": reason,
        "message": compact(entries).decode(),
    }
