"""The pod condition SidecarSetUpgradable, which all SidecarSets of a pod share."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

UPGRADABLE: Final = "SidecarSetUpgradable"
_REASONS: Final = {True: "AllSidecarsetUpgradable", False: "UpdateImmutableField"}


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
