"""Lock of a Deployment whose canary gitkruise brings about on a foreign Deployment controller.

While the lock is in force, minReadySeconds keeps new pods from ever counting as available, so
Kubernetes' own controller comes to rest at the sizes that maxSurge and maxUnavailable give it. The
annotation keeps what the user asked for. Rules CAN-110 to CAN-113 of
docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.planning.amounts import bounds
from gitkruise.model.planning.canary import LOCK, PAUSED, git_pauses, pause_of
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put

NEVER_S: Final = 2**31 - 2  # minReadySeconds that no pod reaches
_NO_DEADLINE: Final = 2**31 - 1  # the API asks for more than minReadySeconds
_SURGE: Final = ("spec", "strategy", "rollingUpdate", "maxSurge")
_UNAVAILABLE: Final = ("spec", "strategy", "rollingUpdate", "maxUnavailable")
_READY: Final = ("spec", "minReadySeconds")
_DEADLINE: Final = ("spec", "progressDeadlineSeconds")
AMOUNTS: Final = (_SURGE, _UNAVAILABLE)
LOCKED: Final = (_SURGE, _UNAVAILABLE, _READY, _DEADLINE)
DEFAULTS: Final[dict[tuple[str, ...], Any]] = dict(
    zip(LOCKED, ("25%", "25%", 0, 600), strict=True)
)  # of apps/v1
LOCK_PATH: Final = ("metadata", "annotations", LOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLock:
    """The amounts of a locked Deployment after its canary, and the progress to it.

    `begun`: the lock is in force; before, the Deployment is paused with a template to roll out.
    `canary` and `stable` are hashes of ReplicaSets, "" while unknown. `since` is the time of the
    last step (RFC 3339): a ReplicaSet that is younger is a canary, even if it has pods. `named` are
    the last names of the fields that git contained, apart by blanks: one that git drops has its
    default again.
    """

    surge: int | str
    unavailable: int | str
    ready_s: int = 0
    deadline_s: int = 600
    begun: bool = False
    canary: str = ""
    stable: str = ""
    since: str = ""
    named: str = ""

    @property
    def text(self) -> str:
        """The value of the annotation."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return compact(fields).decode()

    @property
    def values(self) -> Mapping[tuple[str, ...], Any]:
        """The user's values of the fields that a lock takes."""
        return dict(
            zip(
                LOCKED,
                (self.surge, self.unavailable, self.ready_s, self.deadline_s),
                strict=True,
            )
        )


def pending_lock(raw: Obj) -> CanaryLock:
    """A lock that has not begun, of a Deployment with all defaults."""
    surge, unavailable, ready, deadline = (get(raw, *path) for path in LOCKED)
    return CanaryLock(
        surge=DEFAULTS[_SURGE] if surge is None else surge,
        unavailable=DEFAULTS[_UNAVAILABLE] if unavailable is None else unavailable,
        ready_s=ready or 0,
        deadline_s=DEFAULTS[_DEADLINE] if deadline is None else deadline,
    )


def lock_of(raw: Obj) -> CanaryLock | None:
    """The lock of a Deployment; None without one.

    Also None for an annotation of another form, and for one that says of a Deployment that it is
    locked and that is not: an undo brings old annotations back.
    """
    text = get(raw, *LOCK_PATH, default="")
    try:
        found = CanaryLock(**json.loads(text)) if text else None
    except (TypeError, ValueError):
        return None
    if found is None:
        return None
    held = get(raw, *_READY) == NEVER_S
    if found.begun:
        return found if held else None
    return found if held else pending_lock(raw)


def waiting_amounts(lock: CanaryLock, live: Obj, replicas: int) -> dict[tuple[str, ...], Any]:
    """maxSurge and maxUnavailable with which a new template waits on `live`, which has `lock`.

    On its way to the canary a Deployment may have all of the surge, and the other controller would
    take pods away from a paused one with less. At the pause there is no surge, and that stays,
    unless no further pod may be unavailable: the other controller replaces one pod if the pause
    ends before gitkruise has looked.
    """
    paused = bool(get(live, "spec", "paused")) and pause_of(get(live, "metadata", "annotations"))
    if not paused:
        return {_SURGE: lock.surge, _UNAVAILABLE: lock.unavailable}
    return _safe_amounts(lock, live, replicas)


def resuming_amounts(lock: CanaryLock, live: Obj, replicas: int) -> dict[tuple[str, ...], Any]:
    """maxSurge and maxUnavailable with which a commit ends the pause of a canary without pods.

    The other controller moves a pod then, before gitkruise has looked. With pods none moves.
    """
    moves = not get(live, "status", "updatedReplicas")
    return _safe_amounts(lock, live, replicas) if moves else {}


def _safe_amounts(lock: CanaryLock, live: Obj, replicas: int) -> dict[tuple[str, ...], Any]:
    """Amounts by which one pod more may come, where the user lets no further one go.

    The pods of `live` that are not ready count: a lock's ReplicaSets have none that are available.
    """
    user = {"maxSurge": lock.surge, "maxUnavailable": lock.unavailable}
    try:
        allowed = bounds({"rollingUpdate": user}, replicas)
    except ValueError:  # the other controller moves nothing
        return {}
    missing = max(0, replicas - int(get(live, "status", "readyReplicas", default=0)))
    spare = allowed.unavailable > missing or not allowed.surge
    return {} if spare else {_SURGE: 1, _UNAVAILABLE: 0}


def locked_spec(surge: int, unavailable: int) -> dict[str, Any]:
    """The fields of a spec by which Kubernetes' controller rests at T = R + `surge` pods, of which
    `unavailable` and the surge are new."""
    return {
        "minReadySeconds": NEVER_S,
        "progressDeadlineSeconds": _NO_DEADLINE,
        "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
    }


def released_spec(lock: CanaryLock) -> dict[str, Any]:
    """The fields of a spec as the user wants them."""
    rolling = {"maxSurge": lock.surge, "maxUnavailable": lock.unavailable}
    return {
        "minReadySeconds": lock.ready_s or None,
        "progressDeadlineSeconds": lock.deadline_s,
        "strategy": {"rollingUpdate": rolling},
    }


def unlocked(raw: Obj) -> Obj:
    """A Deployment as its user wants it: without the lock, and not paused by it before it begins.

    Other objects come back as they are.
    """
    if raw.get("kind") != DEPLOYMENT.kind or get(raw, *LOCK_PATH) is None:
        return raw
    lock = lock_of(raw)
    out: Obj = drop(raw, LOCK_PATH)
    for path, value in lock.values.items() if lock is not None else ():
        out = put(out, path, value)
    if lock is not None and not lock.begun and not git_pauses(raw["metadata"].get("annotations")):
        out = drop(drop(out, ("spec", "paused")), ("metadata", "annotations", PAUSED))
    return out
