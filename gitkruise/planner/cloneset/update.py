"""Update: which pods move to another revision this round, how, and why the others wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gitkruise.model.planning.plan import Event, Hold, PatchStep
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Policy
from gitkruise.model.workloads.pod import Container, LifecycleState, PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.cloneset.budget import UpdateQuota, choose_updates, refusal
from gitkruise.planner.cloneset.context import RoundContext
from gitkruise.planner.cloneset.diffs import ExpectationDiffs, JudgedGroup
from gitkruise.planner.cloneset.scale import count
from gitkruise.planner.pods.inplace import Impossible, UpdateSpec, in_place_spec
from gitkruise.planner.pods.inplace_batches import needs_unready, next_batch
from gitkruise.planner.pods.inplace_state import InPlaceState, grace_text, state_text
from gitkruise.planner.pods.lifecycle import enter, hooked
from gitkruise.planner.pods.pod_patch import PodChange, patch_of, patch_with, steps_of
from gitkruise.planner.pods.readiness import in_place_condition
from gitkruise.planner.pods.round_result import RoundResult

_FRESH: Final = frozenset(
    {LifecycleState.NONE, LifecycleState.PREPARING_NORMAL, LifecycleState.NORMAL}
)
_KNOWN: Final = frozenset(LifecycleState)
_LEFTOVERS: Final = (wire.INPLACE_STATE_LEGACY, wire.INPLACE_GRACE, wire.INPLACE_GRACE_LEGACY)
_MARK: Final = (PatchStep(body={"metadata": {"labels": {wire.SPECIFIED_DELETE: "true"}}}),)


class _Traits(NamedTuple):
    """All that the beginning of an in-place update asks of a pod, its revision aside."""

    containers: tuple[Container, ...]
    image_ids: list[tuple[str, str]]
    gates: tuple[str, ...]
    conditions: list[tuple[str, str]]
    readiness: str | None  # the message of KruisePodReady
    leftovers: list[str]  # annotations of an earlier update


def _traits(pod: PodFacts) -> _Traits:
    readiness = pod.condition(wire.KRUISE_READY)
    return _Traits(
        pod.containers,
        [(status.name, status.image_id) for status in pod.statuses],
        pod.gates,
        [(condition.type, condition.status) for condition in pod.conditions],
        readiness.message if readiness is not None else None,
        [name for name in _LEFTOVERS if name in pod.annotations],
    )


@dataclass(frozen=True, slots=True)
class _RevisionFindings:
    """Findings of a round by the revision that pods come from: most pods share one."""

    specs: dict[str, UpdateSpec | Impossible] = field(default_factory=dict)
    begun: dict[str, tuple[_Traits, tuple[PatchStep, ...]]] = field(default_factory=dict)


def plan_update(context: RoundContext, skip: set[str]) -> RoundResult:
    """Move pods towards the partition; pods in `skip` are busy with something else this round.

    Source: CloneSet's Update: candidates, order, quota, then each pod by its lifecycle state.
    """
    out = RoundResult()
    fleet = context.fleet
    numbers = _numbers(context)
    forward = numbers.update >= 0
    movable = [group for group in fleet.groups if group.updated != forward]
    waiting = _candidates(movable, skip, out)
    blocked = _blocked(context)
    if blocked or numbers.update == 0:
        for members in waiting:
            out.hold_group(members, blocked or Hold.PARTITION)
        return out
    size = sum(map(len, waiting))
    target = context.history.update if forward else context.history.current
    quota = UpdateQuota(
        pods=abs(numbers.update),
        unavailable=numbers.update_unavailable,
        asked=size - context.amounts.partition if forward else 0,
        down=fleet.count(lambda g: not g.available),
        target_down=fleet.count(lambda g: not g.available and g.first.on_revision(target.name)),
    )
    if size <= quota.pods and (stop := refusal(quota)):
        for members in waiting:  # in whatever order
            out.hold_group(members, stop)
        return out
    ordered = context.in_turn([pod for members in waiting for pod in members])
    ordered.sort(key=lambda pod: not pod.begun)  # what was begun is finished first
    chosen, held = choose_updates(ordered, fleet.available, quota)
    for why, pods in held:
        out.hold_all(pods, why)
    known = _RevisionFindings()
    for pod in chosen:
        try:
            _update(context, pod, target, known, out)
        except ValueError as error:  # of this pod alone: its conditions or annotations
            out.problems.append(f"pod {pod.name}: {error}")
            out.hold(pod, Hold.UPDATING, str(error))
    return out


def begun_updates(context: RoundContext) -> frozenset[str]:
    """Pods that a round took out of service and that have yet to get their update.

    Updates continue with them first; otherwise they would leave service twice.
    """
    begun = [group for group in context.fleet.groups if group.first.begun]
    if not begun:
        return frozenset()
    forward = _numbers(context).update >= 0
    return frozenset().union(*[group.members.names for group in begun if group.updated != forward])


def _numbers(context: RoundContext) -> ExpectationDiffs:
    return count(context, lambda group: group.updated)


def _blocked(context: RoundContext) -> Hold | None:
    if context.owner.update.on_delete:
        return Hold.ON_DELETE
    return Hold.PAUSED if context.owner.update.paused else None


def _candidates(groups: Sequence[JudgedGroup], skip: set[str], out: RoundResult) -> list[PodGroup]:
    """Candidates for an update: neither leaving nor in their grace period."""
    found: list[PodGroup] = []
    for group in groups:
        members = group.members.without(skip)
        if members is None:
            continue
        if group.preparing:
            out.hold_group(members, Hold.HOOK, "being deleted")
        elif group.first.state != LifecycleState.UPDATED and group.first.in_grace:
            out.hold_group(members, Hold.GRACE)
        else:
            found.append(members)
    return found


def _update(
    context: RoundContext,
    pod: PodFacts,
    target: Revision,
    known: _RevisionFindings,
    out: RoundResult,
) -> None:
    policy = context.owner.update.policy
    if policy is Policy.RECREATE:
        _recreate(context, pod, out)
        return
    if pod.revision not in known.specs:
        known.specs[pod.revision] = in_place_spec(
            context.history.of(pod.revision),
            target,
            policy=policy,
            gates=context.gates,
            grace_s=context.owner.update.grace_s,
        )
    spec = known.specs[pod.revision]
    if isinstance(spec, UpdateSpec):
        _update_in_place(context, pod, target, known, out)
    elif policy is Policy.IN_PLACE_ONLY:
        out.problems.append(f"pod {pod.name} cannot be updated in place: {spec.why}")
        out.hold(pod, Hold.CANNOT_UPDATE, spec.why)
    else:
        _recreate(context, pod, out)


def _waits(context: RoundContext, pod: PodFacts, out: RoundResult) -> bool:
    """Hold a pod that its PodUnavailableBudget does not let go now."""
    holder = context.ledger.holder(pod, PodOperation.UPDATE)
    if holder:
        out.hold(pod, Hold.UNAVAILABLE_BUDGET, holder)
    return bool(holder)


def _recreate(context: RoundContext, pod: PodFacts, out: RoundResult) -> None:
    """Mark the pod; the next round's scaling deletes it within its budget."""
    if pod.specified_delete:
        out.hold(pod, Hold.DELETE_BUDGET)
        return
    if _waits(context, pod, out):
        return
    out.act(
        pod,
        patch_with(
            pod,
            _MARK,
            done=Event(
                "Normal", "SuccessfulUpdatePodReCreate", f"pod {pod.name} will be recreated"
            ),
            failed=Event(
                "Warning",
                "FailedUpdatePodReCreate",
                f"could not mark pod {pod.name} for deletion: ",
            ),
        ),
    )


def _update_in_place(
    context: RoundContext,
    pod: PodFacts,
    target: Revision,
    known: _RevisionFindings,
    out: RoundResult,
) -> None:
    """By lifecycle state: prepare, wait for the hook, or write the update."""
    lifecycle = context.owner.lifecycle
    hook = lifecycle.in_place_update if lifecycle else None
    blockers = hooked(hook, pod)
    change = PodChange()
    if pod.state == LifecycleState.PREPARING_UPDATE and blockers:
        out.hold(pod, Hold.HOOK, f"{', '.join(blockers)} to be removed")
    elif pod.state in _KNOWN and _waits(context, pod, out):
        return
    elif pod.state == LifecycleState.UPDATED and hook is not None:
        change.enter(
            pod, enter(LifecycleState.PREPARING_UPDATE, hook, context.now, readd=True), context.now
        )
        out.act(pod, patch_of(pod, change, context.now, spends=True))
    elif pod.state in _FRESH and blockers:
        change.enter(pod, enter(LifecycleState.PREPARING_UPDATE, hook, context.now), context.now)
        out.act(pod, patch_of(pod, change, context.now, spends=True))
    elif pod.state in _KNOWN:
        _write(context, pod, target, known, out)
    else:
        text = (
            f"pod {pod.name} is in lifecycle state {pod.state!r}, which OpenKruise does not define"
        )
        out.problems.append(text)
        out.hold(pod, Hold.HOOK, text)


def _write(
    context: RoundContext,
    pod: PodFacts,
    target: Revision,
    known: _RevisionFindings,
    out: RoundResult,
) -> None:
    """The in-place patch, which pods of the same traits share."""
    spec, traits = known.specs[pod.revision], _traits(pod)
    assert isinstance(spec, UpdateSpec)
    last = known.begun.get(pod.revision)
    if last is None or last[0] != traits:
        change = _beginning(context, pod, target, spec)
        last = known.begun[pod.revision] = traits, steps_of(pod, change, context.now)
    if spec.grace_s > 0:
        out.wake.append(context.now + timedelta(seconds=spec.grace_s))
    text = f"pod {pod.name} to revision {target.name}"
    out.act(
        pod,
        patch_with(
            pod,
            last[1],
            spends=True,
            done=Event("Normal", "SuccessfulUpdatePodInPlace", f"updated {text} in place"),
            failed=Event("Warning", "FailedUpdatePodInPlace", f"could not update {text}: "),
        ),
    )


def _beginning(
    context: RoundContext, pod: PodFacts, target: Revision, spec: UpdateSpec
) -> PodChange:
    """Out of service first, then revision, state and (after grace) the first batch.

    `_Traits` holds the requirements on the pod.
    """
    change = PodChange()
    vertical = context.gates.in_place_workload_vertical_scaling
    if needs_unready(pod, spec, vertical=vertical) and pod.in_place is not False:
        change.conditions.append(in_place_condition(pod, ready=False, now=context.now))
    change.enter(pod, enter(LifecycleState.UPDATING, None, context.now), context.now)
    shown = target.short if context.gates.clone_set_short_hash else target.name
    change.merge({"labels": {wire.REVISION_HASH: shown, wire.TEMPLATE_HASH: target.short}})
    change.merge({"annotations": _annotations(pod, spec, change, context.now)})
    return change


def _annotations(
    pod: PodFacts, spec: UpdateSpec, change: PodChange, now: datetime
) -> dict[str, str | None]:
    """Those that tell how far the update is; its first batch goes into `change`, unless a grace
    period comes before it."""
    state = InPlaceState(
        revision=spec.revision,
        started=now,
        env_from_metadata=spec.env_from_metadata,
        update_images=bool(spec.images),
        update_resources=bool(spec.resources),
    )
    gone = [wire.INPLACE_STATE_LEGACY]
    if spec.grace_s > 0:
        notes = {wire.INPLACE_STATE: state_text(state), wire.INPLACE_GRACE: grace_text(spec)}
    else:
        batch = next_batch(pod, spec, state, now)
        change.apply(batch)
        notes = {wire.INPLACE_STATE: state_text(batch.state)}
        gone += [wire.INPLACE_GRACE, wire.INPLACE_GRACE_LEGACY]
    return {**dict.fromkeys(name for name in gone if name in pod.annotations), **notes}


def held_by_scaling(context: RoundContext) -> RoundResult:
    """Reasons for pods that would be updated, in a round that scales."""
    out, why = RoundResult(), _blocked(context) or Hold.SCALE_FIRST
    for group in context.fleet.groups:
        if not group.updated:
            out.hold_group(group.members, why)
    return out
