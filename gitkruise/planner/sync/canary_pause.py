"""Deployments paused by their canary: `paused` is not drift, and a commit ends the pause.

Rules CAN-30 and CAN-31 of docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gitkruise.model.gitops.change import Desired, Path
from gitkruise.model.planning.canary import CanaryPause, canary_of, pause_of
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.planner.sync.annotations import DIGEST, annotation
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get, put

PAUSED: Final = ("spec", "paused")


def canary_pause(live: Obj) -> CanaryPause | None:
    """The pause that a canary brought about, None where a user, or nothing, pauses the object."""
    group, _ = split_api_version(live["apiVersion"])
    if GroupKind(group, live["kind"]) != DEPLOYMENT or not get(live, *PAUSED):
        return None
    return pause_of(live["metadata"].get("annotations"))


def paused_fields(live: Obj) -> frozenset[Path]:
    """Fields that differ from git because a canary paused the object."""
    return frozenset({PAUSED}) if canary_pause(live) else frozenset()


def resumed_by(d: Desired, live: Obj, applied: Obj) -> bool:
    """Return whether applying `d` ends the canary's pause of `live`.

    It does when a commit changes the canary value or the pod template; `applied` is `live` as it
    would be after it. A correction of drift, and `paused: true` in git, do not.
    """
    pause = canary_pause(live)
    if pause is None or get(d.obj, *PAUSED) or annotation(live, DIGEST) == d.digest:
        return False
    try:
        canary = canary_of(applied["metadata"].get("annotations"))
    except ValueError:
        canary = None  # an invalid plain key requests no canary
    value = canary.text if canary else ""
    return value != pause.value or get(applied, *_TEMPLATE) != get(live, *_TEMPLATE)


_TEMPLATE: Final = ("spec", "template")


def with_pause(d: Desired, *, paused: bool) -> Desired:
    """`d` with `paused` as it is to be sent, its digest still that of what git says."""
    return replace(d, obj=put(d.obj, PAUSED, paused))
