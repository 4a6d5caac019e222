"""Deployments paused by their canary: `paused` is not drift, and a commit ends the pause.

Where gitkruise leads another Deployment controller, the fields of its lock are no drift either, and
a commit with another template waits, paused, until its canary begins. Rules CAN-30, CAN-31, CAN-38
and CAN-112 of docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gitkruise.model.gitops.document import Desired, FieldPath
from gitkruise.model.planning.canary import (
    BOTH_PAUSE,
    GIT_PAUSE,
    LOCK,
    CanaryPause,
    canary_of,
    git_pauses,
    pause_of,
)
from gitkruise.model.planning.canary_lock import (
    AMOUNTS,
    DEFAULTS,
    LOCK_PATH,
    LOCKED,
    CanaryLock,
    lock_of,
    pending_lock,
    resuming_amounts,
    waiting_amounts,
)
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.planner.sync.annotations import DIGEST, annotation
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get, put

PAUSED: Final = ("spec", "paused")
_GIT_PAUSE: Final = ("metadata", "annotations", GIT_PAUSE)


def canary_pause(live: Obj) -> CanaryPause | None:
    """The pause that a canary brought about, None where a user, or nothing, pauses the object."""
    group, _ = split_api_version(live["apiVersion"])
    if GroupKind(group, live["kind"]) != DEPLOYMENT or not get(live, *PAUSED):
        return None
    return pause_of(live["metadata"].get("annotations"))


def paused_fields(live: Obj) -> frozenset[FieldPath]:
    """Fields that differ from git because of the object's canary."""
    if locked(live):
        return frozenset({PAUSED, LOCK_PATH, *LOCKED})
    return frozenset({PAUSED}) if canary_pause(live) else frozenset()


def locked(live: Obj) -> bool:
    """Return whether a lock of gitkruise leads a Deployment to its canary."""
    group, _ = split_api_version(live["apiVersion"])
    return GroupKind(group, live["kind"]) == DEPLOYMENT and lock_of(live) is not None


def awaits_canary(d: Desired, live: Obj) -> bool:
    """Return whether `d` may have to wait for its canary: it asks for one that `live` can have."""
    if d.key.group_kind != DEPLOYMENT or get(d.obj, *PAUSED):
        return False
    recreate = get(d.obj, "spec", "strategy", "type") == "Recreate"
    return not recreate and _canary_value(d.obj) != "" and not locked(live)


def by_canary(d: Desired, live: Obj, *, steered: bool) -> bool:
    """Return whether a canary has a say in how `d` is sent.

    `steered`: gitkruise leads Deployments of the cluster to their canaries.
    """
    waits = steered and awaits_canary(d, live)
    return waits or locked(live) or canary_pause(live) is not None or _by_git(live)


def waiting(d: Desired, live: Obj, applied: Obj) -> Desired:
    """`d` as it is sent to a Deployment without a lock: paused with one, where a rollout begins.

    `applied` is `live` as it would be after it.
    """
    rolled = get(applied, *_TEMPLATE) != get(live, *_TEMPLATE)
    resumed = get(live, *PAUSED) and not get(applied, *PAUSED)
    if not (rolled or resumed) or canary_pause(live) is not None:
        return d
    lock = replace(pending_lock(applied), named=_named(d))
    return with_fields(d, {PAUSED: True, LOCK_PATH: lock.text})


def _named(d: Desired) -> str:
    """Return the last names of the lock's fields that git contains."""
    return " ".join(path[-1] for path in LOCKED if get(d.obj, *path) is not None)


def _by_git(live: Obj) -> bool:
    """Return whether git pauses a Deployment in the place of a canary."""
    group, _ = split_api_version(live["apiVersion"])
    deployment = GroupKind(group, live["kind"]) == DEPLOYMENT
    return deployment and git_pauses(live["metadata"].get("annotations"))


def held_back(d: Desired, live: Obj) -> Desired:
    """`d` as it is tried: whatever a canary brought about on `live` stays."""
    if (lock := lock_of(live)) is not None and locked(live):
        return _kept_locked(d, live, lock)
    if _by_git(live):
        return _paused_by_git(d) if get(d.obj, *PAUSED) else with_pause(d, paused=False)
    if canary_pause(live) is None or get(d.obj, *PAUSED) is None:
        return d
    both = get(d.obj, *PAUSED)
    return with_fields(d, {_GIT_PAUSE: BOTH_PAUSE}) if both else with_pause(d, paused=True)


def as_sent(d: Desired, live: Obj, applied: Obj) -> Desired:
    """`d` as it is sent with regard to its canary; `applied` is `live` after `held_back`."""
    if (lock := lock_of(live)) is not None and locked(live):
        return _kept_locked(d, live, lock, applied)
    if _by_git(live):
        return held_back(d, live)
    if canary_pause(live) is None:
        return waiting(d, live, applied)
    if get(d.obj, *PAUSED) and _other_template(live, applied):
        return _paused_by_git(d)
    return with_pause(d, paused=False) if resumed_by(d, live, applied) else held_back(d, live)


def _paused_by_git(d: Desired) -> Desired:
    """`d`, which pauses, with the mark that its end is up to git."""
    return with_fields(d, {_GIT_PAUSE: "true"})


def set_by_canary(field: str, live: Obj) -> bool:
    """Return whether a canary set `field` of `live`, as conflicts name it (.spec.paused)."""
    if locked(live):
        return field == ".spec.paused" or LOCK in field
    return field == ".spec.paused" and (canary_pause(live) is not None or _by_git(live))


def _kept_locked(d: Desired, live: Obj, lock: CanaryLock, applied: Obj | None = None) -> Desired:
    """`d` as it is sent while a lock is on `live`, which stays as it is; the lock notes the values
    of git. With another template in `applied` it waits; with another canary value it goes on.
    """
    fields: dict[FieldPath, Any] = {}
    values = dict(lock.values)
    if get(d.obj, "spec", "strategy", "type") != "Recreate":
        # Sent even where git has none: an apply that no longer sends a field may remove it.
        fields |= {path: get(live, *path) for path in AMOUNTS}
    for path in LOCKED:
        value = get(d.obj, *path)
        if value is not None:
            values[path], fields[path] = value, get(live, *path)
        elif path[-1] in lock.named.split():
            values[path] = DEFAULTS[path]
    surge, unavailable, ready_s, deadline_s = values.values()
    lock = replace(
        lock,
        surge=surge,
        unavailable=unavailable,
        ready_s=ready_s,
        deadline_s=deadline_s,
        named=_named(d),
    )
    pauses, paused = bool(get(d.obj, *PAUSED)), bool(get(live, *PAUSED))
    wanted = get(applied or live, "spec", "replicas", default=1)
    if pauses:  # the lock stays where it is until git ends the pause
        by_git = canary_pause(live) is None or _other_template(live, applied)
        fields[_GIT_PAUSE], paused = "true" if by_git else BOTH_PAUSE, True
    elif _by_git(live):
        lock = replace(lock, begun=False)
        fields.update(waiting_amounts(lock, live, wanted).items())
    elif applied is not None and get(applied, *_TEMPLATE) != get(live, *_TEMPLATE):
        lock, paused = replace(lock, begun=False), True
        fields.update(waiting_amounts(lock, live, wanted).items())
    elif applied is not None and resumed_by(d, live, applied):
        fields.update(resuming_amounts(lock, live, wanted).items())
        paused = False
    return with_fields(d, {**fields, PAUSED: paused, LOCK_PATH: lock.text})


def _canary_value(obj: Obj) -> str:
    try:
        canary = canary_of(obj["metadata"].get("annotations"))
    except ValueError:
        return ""  # an invalid plain key requests no canary
    return canary.text if canary else ""


def resumed_by(d: Desired, live: Obj, applied: Obj) -> bool:
    """Return whether applying `d` ends the canary's pause of `live`.

    It does when a commit changes the canary value or the pod template; `applied` is `live` as it
    would be after it. A correction of drift, and `paused: true` in git, do not.
    """
    pause = canary_pause(live)
    if pause is None or get(d.obj, *PAUSED) or annotation(live, DIGEST) == d.digest:
        return False
    value = _canary_value(applied)
    return value != pause.value or get(applied, *_TEMPLATE) != get(live, *_TEMPLATE)


def _other_template(live: Obj, applied: Obj | None) -> bool:
    return applied is not None and get(applied, *_TEMPLATE) != get(live, *_TEMPLATE)


_TEMPLATE: Final = ("spec", "template")


def with_pause(d: Desired, *, paused: bool) -> Desired:
    """`d` with `paused` as it is to be sent, its digest still that of what git says."""
    return with_fields(d, {PAUSED: paused})


def with_fields(d: Desired, fields: Mapping[FieldPath, Any]) -> Desired:
    """`d` with `fields` as they are to be sent, its digest still that of what git says."""
    obj = d.obj
    for path, value in fields.items():
        obj = put(obj, path, value)
    return replace(d, obj=obj)
