"""Lifecycle states and hooks: who may go on, what a state change writes, and readiness keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Hook, Lifecycle
from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.planner.pods.readiness import KruiseKey
from gitkruise.wire.primitives.times import format_time

_NO_HOOK: Final = Hook(labels={})
_NO_HOOKS: Final = Lifecycle()
_AGENT: Final = "Lifecycle"
PRE_DELETE: Final = "preDeleteHook"
PRE_UPDATE: Final = "preUpdateHook"


def hooked(hook: Hook | None, pod: PodFacts) -> tuple[str, ...]:
    """The handlers of `hook` found on the pod, any of which blocks: finalizers, then label=value.

    () without a hook.
    """
    if hook is None:
        return ()
    finalizers = [f for f in hook.finalizers if f in pod.finalizers]
    labels = [f"{k}={v}" for k, v in sorted(hook.labels.items()) if pod.labels.get(k) == v]
    return (*finalizers, *labels)


def all_hooked(hook: Hook | None, pod: PodFacts) -> bool:
    """Every handler is on the pod. A hook without handlers is; so is no hook.

    OpenKruise says no for a missing hook, which only makes pods take a detour through Updated.
    """
    if hook is None:
        return True
    return all(f in pod.finalizers for f in hook.finalizers) and all(
        pod.labels.get(k) == v for k, v in hook.labels.items()
    )


def next_state(
    pod: PodFacts, lifecycle: Lifecycle | None, *, on_update: bool, completed: bool
) -> LifecycleState | None:
    """The state a pod moves to on its own this round, or None.

    `on_update`: it carries the update revision; `completed`: its in-place update is done.
    Source: CloneSet's lifecycle refresh.
    """
    rules = lifecycle or _NO_HOOKS
    if pod.state == LifecycleState.PREPARING_NORMAL:
        ready = all_hooked(rules.pre_normal, pod) if rules.pre_normal else bool(pod.node)
        return LifecycleState.NORMAL if ready else None
    after = (
        LifecycleState.NORMAL if all_hooked(rules.in_place_update, pod) else LifecycleState.UPDATED
    )
    if pod.state == LifecycleState.PREPARING_UPDATE:
        return after if on_update else None
    if pod.state == LifecycleState.UPDATING:
        return after if completed else None
    if pod.state == LifecycleState.UPDATED:
        return LifecycleState.NORMAL if after is LifecycleState.NORMAL else None
    return None


def awaited(pod: PodFacts, lifecycle: Lifecycle | None) -> str:
    """The hook that a pod in a lifecycle step waits for, in words; "" when it waits for none."""
    rules = lifecycle or _NO_HOOKS
    if pod.state == LifecycleState.PREPARING_DELETE:
        return _blockers(rules.pre_delete, pod)
    if pod.state == LifecycleState.PREPARING_UPDATE:
        return _blockers(rules.in_place_update, pod)
    if pod.state == LifecycleState.PREPARING_NORMAL and rules.pre_normal:
        return f"{_missing(rules.pre_normal, pod)} to be added"
    if pod.state == LifecycleState.UPDATED and rules.in_place_update:
        return f"{_missing(rules.in_place_update, pod)} to be added back"
    return ""


def _blockers(hook: Hook | None, pod: PodFacts) -> str:
    found = hooked(hook, pod)
    return f"{', '.join(found)} to be removed" if found else ""


def _missing(hook: Hook, pod: PodFacts) -> str:
    there = set(hooked(hook, pod))
    return ", ".join(name for name in hook.handlers if name not in there)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Writes of entering a state: metadata of the pod and keys of condition KruisePodReady."""

    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    finalizers: tuple[str, ...] = ()  # to add
    ready_keys: tuple[tuple[KruiseKey, bool], ...] = ()  # (key, added or removed)


def enter(
    state: LifecycleState, hook: Hook | None, now: datetime, *, readd: bool = False
) -> StateChange:
    """Enter `state`; `readd` puts the hook's handlers back (Updated → PreparingUpdate)."""
    return _plainly(state, now) if hook is None else _entered(state, hook, now, readd=readd)


@lru_cache(maxsize=64)
def _plainly(state: LifecycleState, now: datetime) -> StateChange:
    """Pods that move together enter alike where no hook has a say."""
    return _entered(state, _NO_HOOK, now, readd=False)


def _entered(state: LifecycleState, hook: Hook, now: datetime, *, readd: bool) -> StateChange:
    mark = hook.mark_not_ready
    handlers = hook if readd else _NO_HOOK
    return StateChange(
        labels={wire.LIFECYCLE_STATE: str(state), **dict(sorted(handlers.labels.items()))},
        annotations={wire.LIFECYCLE_TIME: format_time(now)},
        finalizers=handlers.finalizers,
        ready_keys=_keys(state, mark=mark),
    )


def _keys(state: LifecycleState, *, mark: bool) -> tuple[tuple[KruiseKey, bool], ...]:
    """Leaving an update removes its key whatever the hook says now: a key that is never removed
    keeps a pod out of service for ever. (OpenKruise removes it on Updated alone.)"""
    update, delete = KruiseKey(_AGENT, PRE_UPDATE), KruiseKey(_AGENT, PRE_DELETE)
    if state is LifecycleState.PREPARING_DELETE and mark:
        return ((delete, True),)
    if state is LifecycleState.PREPARING_UPDATE and mark:
        return ((update, True),)
    if state in {LifecycleState.UPDATED, LifecycleState.NORMAL}:
        return ((update, False),)
    return ((delete, False),) if state is LifecycleState.PREPARING_NORMAL else ()
