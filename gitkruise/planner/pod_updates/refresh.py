"""Refresh: what every pod gets each round, whatever the rollout: finish what was started."""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from datetime import datetime, timedelta

from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.pod_updates.rules import UpdateRules
from gitkruise.planner.pods.inplace import UpdateSpec
from gitkruise.planner.pods.inplace_batches import batch_done, next_batch
from gitkruise.planner.pods.inplace_state import InPlaceState, read_grace, read_state, state_text
from gitkruise.planner.pods.lifecycle import awaited, enter, next_state
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.readiness import in_place_condition, kruise_condition
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.wire.primitives.times import format_duration


def plan_refresh(
    rules: UpdateRules,
    pods: Iterable[PodFacts],
    skip: Set[str],
    *,
    only: Set[str] | None = None,
) -> RoundResult:
    """Patch each of `pods` not in `skip` (and in `only`, if given) at most once.

    A pod that cannot be read is a warning of its own and does not stop the others.
    Source: CloneSet's in-place refresh, lifecycle refresh and label fix. OpenKruise ends the
    round after the first failure or change; here only the pods concerned sit it out.
    """
    out = RoundResult()
    for pod in pods:
        if pod.name in skip or (only is not None and pod.name not in only):
            continue
        change = PodChange()
        try:
            _refresh(rules, pod, change, out)
        except ValueError as error:
            out.problems.append(f"pod {pod.name}: {error}")
            out.hold(pod, Hold.UPDATING, str(error))
            continue
        if change:
            out.act(pod, patch_of(pod, change, rules.now))
    return out


def _refresh(rules: UpdateRules, pod: PodFacts, change: PodChange, out: RoundResult) -> None:
    completed = _refresh_in_place(rules, pod, change, out)
    condition = kruise_condition(pod, (), rules.now)
    if condition is not None:
        change.conditions.append(condition)
    if rules.template_hash and wire.TEMPLATE_HASH not in pod.labels and pod.revision:
        change.merge({"labels": {wire.TEMPLATE_HASH: pod.short_revision}})
    on_update = pod.on_revision(rules.history.update.name)
    lifecycle = rules.lifecycle
    state = next_state(pod, lifecycle, on_update=on_update, completed=completed)
    if state is not None:
        change.enter(pod, enter(state, rules.in_place_hook, rules.now), rules.now)
    elif not change:
        _hold(rules, pod, out)


def _hold(rules: UpdateRules, pod: PodFacts, out: RoundResult) -> None:
    hook = awaited(pod, rules.lifecycle)
    if hook:
        out.hold(pod, Hold.HOOK, hook)


def _refresh_in_place(
    rules: UpdateRules, pod: PodFacts, change: PodChange, out: RoundResult
) -> bool:
    """Drive the pod's in-place update; True when there is none or it is complete."""
    grace = read_grace(pod)
    state = read_state(pod)
    if grace is not None:
        _finish_grace(rules, pod, (grace, state), change, out)
        return False
    if state is not None and not _advance(rules, pod, state, change, out):
        return False
    if wire.INPLACE_READY in pod.gates and not pod.in_place_settled:
        change.conditions.append(in_place_condition(pod, ready=True, now=rules.now))
    return True


def _finish_grace(
    rules: UpdateRules,
    pod: PodFacts,
    stored: tuple[UpdateSpec, InPlaceState | None],
    change: PodChange,
    out: RoundResult,
) -> None:
    """At the end of its grace period the stored update is written, even if a newer one exists."""
    grace, state = stored
    if state is None:
        raise ValueError(f"annotation {wire.INPLACE_STATE} is missing during a grace period")
    over = {wire.INPLACE_GRACE: None, wire.INPLACE_GRACE_LEGACY: None}
    if not pod.on_revision(grace.revision):
        change.merge({"annotations": _present(pod, over)})
        return
    end = state.started + timedelta(seconds=grace.grace_s)
    if rules.now < end:
        out.wake.append(_whole_second(rules.now, end))
        out.hold(pod, Hold.GRACE, f"{format_duration(end - rules.now) or '0s'} left")
        out.busy.add(pod.name)
        return
    batch = next_batch(pod, grace, state, rules.now)
    change.apply(batch)
    change.merge(
        {"annotations": {wire.INPLACE_STATE: state_text(batch.state), **_present(pod, over)}}
    )


def _present(pod: PodFacts, names: dict[str, None]) -> dict[str, None]:
    return {name: None for name in names if name in pod.annotations}


def _whole_second(now: datetime, end: datetime) -> datetime:
    return now + timedelta(seconds=math.ceil((end - now).total_seconds()))


def _advance(
    rules: UpdateRules, pod: PodFacts, state: InPlaceState, change: PodChange, out: RoundResult
) -> bool:
    """True when the update is complete; starts its next batch when the last one is done."""
    vertical = rules.gates.in_place_workload_vertical_scaling
    missing = batch_done(pod, state, vertical=vertical)
    if missing:
        out.hold(pod, Hold.UPDATING, f"waits for {missing}")
        return False
    if not state.more:
        return True
    ready = {s.name for s in pod.statuses if s.ready}
    unready = [name for name in state.required_ready or () if name not in ready]
    if unready:
        out.hold(pod, Hold.UPDATING, f"waits for container {unready[0]} to be ready")
        return False
    batch = next_batch(pod, state.next_spec(), state, rules.now)
    change.apply(batch)
    change.merge({"annotations": {wire.INPLACE_STATE: state_text(batch.state)}})
    return False
