"""Jobs that run around a change: before it, after it, or when it fails; once for each plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gitkruise.planner.sync.annotations import (
    HEALTH,
    REPLACED,
)
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

PRE, POST, FAILURE = "pre-apply", "post-apply", "on-failure"
LAST: Final = "pre-delete"  # when the unit itself goes
HOOK, ARGO_HOOK = "gitkruise.io/hook", "argocd.argoproj.io/hook"
JOB: Final = GroupKind("batch", "Job")
_WORDS: Final[Mapping[tuple[str, str], str]] = {
    (HOOK, PRE): PRE,
    (HOOK, POST): POST,
    (HOOK, FAILURE): FAILURE,
    (HOOK, LAST): LAST,
    (ARGO_HOOK, "Skip"): "",  # it is left alone: marks.untouched
    (ARGO_HOOK, "PreSync"): PRE,
    (ARGO_HOOK, "Sync"): "",
    (ARGO_HOOK, "PostSync"): POST,
    (ARGO_HOOK, "SyncFail"): FAILURE,
    (ARGO_HOOK, "PreDelete"): LAST,
}


def hook_of(obj: Obj) -> str:
    """The phase in which the object runs; "" when it is no hook. Raises ValueError for an unknown
    word."""
    notes = get(obj, "metadata", "annotations", default={})
    name = next((n for n in (HOOK, ARGO_HOOK) if n in notes), "")
    if not name:
        return ""
    try:
        return _WORDS[name, notes[name]]
    except KeyError:
        raise ValueError(f"{name}: {notes[name]}") from None


def over(job: Obj) -> frozenset[str]:
    """The condition that ended a Job: Complete or Failed; empty while it runs."""
    conditions = get(job, "status", "conditions", default=())
    true = {c.get("type") for c in conditions if c.get("status") == "True"}
    return frozenset(true & {"Complete", "Failed"})


def asleep(job: Obj) -> Obj:
    """A pre-delete Job as it stays in the cluster until the unit is removed: suspended, created
    again when it changes, and not waited for."""
    notes = get(job, "metadata", "annotations", default={})
    spec, metadata = get(job, "spec", default={}), job["metadata"]
    notes = {HEALTH: "Ignore", **REPLACED, **notes}
    waiting = {"spec": {**spec, "suspend": True}, "metadata": {**metadata, "annotations": notes}}
    return {**job, **waiting}
