"""Workload conditions and the one rule for changing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

STALLED_NOTE: Final = "gitkruise.io/stalled"  # the same in an annotation, for a SidecarSet
STALLED: Final = "Stalled"  # a workload that is paused because its writes make no progress
FAILED_SCALE: Final = "FailedScale"  # of a CloneSet: the server refused to create or delete pods
FAILED_UPDATE: Final = "FailedUpdate"  # of a CloneSet: it refused to update them


def find(conditions: Sequence[Obj], type_: str) -> Obj | None:
    return next((c for c in conditions if c.get("type") == type_), None)


def condition(type_: str, status: str, *, reason: str = "", message: str = "") -> Obj:
    """A condition without times; `put` adds them."""
    pairs = {"type": type_, "status": status, "reason": reason, "message": message}
    return {key: value for key, value in pairs.items() if value}


def put(
    conditions: Sequence[Obj], new: Obj, now: datetime, *, renew: bool = False
) -> tuple[Obj, ...]:
    """`conditions` with `new` in the place of its type.

    Same status, reason and message: nothing changes, unless `renew` asks for a fresh
    lastUpdateTime. lastTransitionTime moves only with the status. OpenKruise ignores a changed
    message; a stale message misleads, so here it is a change.
    """
    old = find(conditions, new["type"])
    same = old is not None and all(
        old.get(k, "") == new.get(k, "") for k in ("status", "reason", "message")
    )
    if same and not renew:
        return tuple(conditions)
    made = dated({**new, "lastUpdateTime": format_time(now)}, old, now)
    return (*drop(conditions, new["type"]), made)


def dated(new: Obj, old: Obj | None, now: datetime) -> Obj:
    """`new` with its lastTransitionTime, which moves only with the status of `old`."""
    kept = old is not None and old.get("status") == new["status"]
    since = (old or {}).get("lastTransitionTime") if kept else None
    return {**new, "lastTransitionTime": since or format_time(now)}


def drop(conditions: Sequence[Obj], type_: str) -> tuple[Obj, ...]:
    return tuple(c for c in conditions if c.get("type") != type_)
