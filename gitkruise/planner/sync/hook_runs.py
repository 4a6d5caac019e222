"""The runs of hooks: what one plan has started, waits for and starts next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.gitops.sync_round import Live, SyncSnapshot, WaitingObject
from gitkruise.planner.sync.annotations import PLAN, UNIT, annotation, untouched
from gitkruise.planner.sync.hooks import POST, PRE, over
from gitkruise.planner.sync.ownership import withheld
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get


class HookRun(StrEnum):
    """State of a hook for one plan."""

    DUE = "due"  # it is not there
    UNKNOWN = "unknown"  # whether it is there
    OLD = "old"  # it ran for another plan
    HANDED_OVER = "handed over"  # it ran for this plan under another unit
    LEAVING = "leaving"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStep:
    """The next step for the hooks of one phase; empty when all of them have succeeded."""

    apply: tuple[Desired, ...] = ()
    replace: tuple[ObjectKey, ...] = ()
    waiting: tuple[WaitingObject, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.apply or self.replace or self.waiting)


def plan_mark(desired: DesiredSet) -> str:
    """Names what git asks for as a whole: a hook that has run for it does not run again."""
    lines = sorted(f"{d.key.group}/{d.key} {d.digest}" for d in desired.objects)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def content_of_hooks(desired: DesiredSet, commit: str) -> str:
    """Name the content of git that hooks run for; "" where there is no hook.

    The commit is a part of it: hooks run again when a later one brings the content back.
    """
    hooked = any(d.hook for d in desired.objects)
    return f"{plan_mark(desired)}-{commit[:12]}" if hooked else ""


def run_of(live: Live | None, mark: str, label: str) -> HookRun:
    """State of the hook for the plan called `mark`; a Job is finished by its own conditions."""
    if live is None:
        return HookRun.DUE
    if live.obj["metadata"].get("deletionTimestamp"):
        return HookRun.LEAVING
    if annotation(live.obj, PLAN) != mark:
        return HookRun.OLD
    if get(live.obj, "metadata", "labels", UNIT) != label:
        return HookRun.HANDED_OVER
    ended = over(live.obj)
    return HookRun.DONE if "Complete" in ended else HookRun.FAILED if ended else HookRun.RUNNING


def hooks_step(when: str, s: SyncSnapshot, mark: str) -> HookStep:
    """Plan the hooks of one phase. A failed one waits for other contents of git; one that opted
    out of changes, or is on hold, does not run."""
    mine = [
        d
        for d in s.desired.objects
        if d.hook == when and not withheld(d.key, s)
        if not untouched(d.obj) and d.key not in s.held
    ]
    runs = {
        d.key: HookRun.UNKNOWN
        if d.key in s.unknown
        else run_of(s.live.get(d.key), mark, s.unit_label)
        for d in mine
    }
    refused = {d.key for d in mine if s.refused.get(d.key) == d.digest}
    due = [d for d in mine if runs[d.key] in _APPLIED and d.key not in refused]
    return HookStep(
        apply=tuple(replace(d, plan=mark) for d in due),
        replace=tuple(key for key, run in runs.items() if run is HookRun.OLD),
        waiting=tuple(
            WaitingObject(key=key, why="the cluster refused it" if key in refused else _WHY[run])
            for key, run in runs.items()
            if run in _WHY or key in refused
        ),
    )


def failing(objects: Iterable[Desired], s: SyncSnapshot, mark: str) -> bool:
    """Return whether an object other than the failure hooks has failed."""
    for d in objects:
        live = s.live.get(d.key)
        if d.hook in {PRE, POST} and run_of(live, mark, s.unit_label) is HookRun.FAILED:
            return True
        if not d.hook and live is not None and live.failed:
            return True
    return False


# A Job of the same name and content keeps its run, and gets the unit's marks.
_APPLIED: Final = frozenset({HookRun.DUE, HookRun.HANDED_OVER})
_WHY: Final[Mapping[HookRun, str]] = {
    HookRun.UNKNOWN: "its run cannot be seen",
    HookRun.LEAVING: "until the old one is gone",
    HookRun.RUNNING: "the hook runs",
    HookRun.FAILED: "the hook failed",
}
