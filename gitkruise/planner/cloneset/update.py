"""Update: which pods move to another revision this round, how, and why the others wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gitkruise.model import labels as wire
from gitkruise.model.cloneset import Policy
from gitkruise.model.plan import Event, Hold, Step
from gitkruise.model.pod import Container, PodFacts, State
from gitkruise.model.pods import Lot
from gitkruise.model.revision import Revision
from gitkruise.planner.batches import needs_unready, next_batch
from gitkruise.planner.cloneset.budget import UpdateQuota, choose_updates, refusal
from gitkruise.planner.cloneset.count import Group
from gitkruise.planner.cloneset.round import Round
from gitkruise.planner.cloneset.scale import count
from gitkruise.planner.findings import Findings
from gitkruise.planner.inplace import Impossible, UpdateSpec, in_place_spec
from gitkruise.planner.inplace_state import InPlaceState, grace_text, state_text
from gitkruise.planner.lifecycle import enter, hooked
from gitkruise.planner.pod_change import PodChange, patch_of, patch_with, steps_of
from gitkruise.planner.readiness import in_place_condition

_FRESH: Final = frozenset({State.NONE, State.PREPARING_NORMAL, State.NORMAL})
_KNOWN: Final = frozenset(State)
_LEFTOVERS: Final = (wire.INPLACE_STATE_LEGACY, wire.INPLACE_GRACE, wire.INPLACE_GRACE_LEGACY)
_MARK: Final = (Step(body={"metadata": {"labels": {wire.SPECIFIED_DELETE: "true"}}}),)


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
class _Known:
    """What a round has found out, by the revision pods come from: most of them are alike."""

    specs: dict[str, UpdateSpec | Impossible] = field(default_factory=dict)
    begun: dict[str, tuple[_Traits, tuple[Step, ...]]] = field(default_factory=dict)


def plan_update(this: Round, skip: set[str]) -> Findings:
    """Move pods towards the partition; pods in `skip` are busy with something else this round.

    Source: CloneSet's Update: candidates, order, quota, then each pod by its lifecycle state.
    """
    out = Findings()
    fleet = this.fleet
    numbers = count(this, lambda group: group.updated)
    forward = numbers.update >= 0
    movable = [group for group in fleet.groups if group.updated != forward]
    waiting = _candidates(movable, skip, out)
    blocked = _blocked(this)
    if blocked or numbers.update == 0:
        for lot in waiting:
            out.hold_lot(lot, blocked or Hold.PARTITION)
        return out
    size = sum(map(len, waiting))
    target = this.history.update if forward else this.history.current
    quota = UpdateQuota(
        pods=abs(numbers.update),
        unavailable=numbers.update_unavailable,
        asked=size - this.amounts.partition if forward else 0,
        down=fleet.count(lambda g: not g.available),
        target_down=fleet.count(lambda g: not g.available and g.first.on_revision(target.name)),
    )
    if size <= quota.pods and (stop := refusal(quota)):
        for lot in waiting:  # in whatever order
            out.hold_lot(lot, stop)
        return out
    chosen, held = choose_updates(
        this.in_turn([pod for lot in waiting for pod in lot]), fleet.available, quota
    )
    for why, pods in held:
        out.hold_all(pods, why)
    known = _Known()
    for pod in chosen:
        try:
            _update(this, pod, target, known, out)
        except ValueError as error:  # of this pod alone: its conditions or annotations
            out.trouble.append(f"pod {pod.name}: {error}")
            out.hold(pod, Hold.UPDATING, str(error))
    return out


def _blocked(this: Round) -> Hold | None:
    if this.owner.update.on_delete:
        return Hold.ON_DELETE
    return Hold.PAUSED if this.owner.update.paused else None


def _candidates(groups: Sequence[Group], skip: set[str], out: Findings) -> list[Lot]:
    """Pods on their way out, and pods in their grace period, are nobody's candidates."""
    found: list[Lot] = []
    for group in groups:
        lot = group.lot.without(skip)
        if lot is None:
            continue
        if group.preparing:
            out.hold_lot(lot, Hold.HOOK, "being deleted")
        elif group.first.state != State.UPDATED and group.first.in_grace:
            out.hold_lot(lot, Hold.GRACE)
        else:
            found.append(lot)
    return found


def _update(
    this: Round,
    pod: PodFacts,
    target: Revision,
    known: _Known,
    out: Findings,
) -> None:
    policy = this.owner.update.policy
    if policy is Policy.RECREATE:
        _recreate(pod, out)
        return
    if pod.revision not in known.specs:
        known.specs[pod.revision] = in_place_spec(
            this.history.of(pod.revision),
            target,
            policy=policy,
            gates=this.gates,
            grace_s=this.owner.update.grace_s,
        )
    spec = known.specs[pod.revision]
    if isinstance(spec, UpdateSpec):
        _update_in_place(this, pod, target, known, out)
    elif policy is Policy.IN_PLACE_ONLY:
        out.trouble.append(f"pod {pod.name} cannot be updated in place: {spec.why}")
        out.hold(pod, Hold.CANNOT_UPDATE, spec.why)
    else:
        _recreate(pod, out)


def _recreate(pod: PodFacts, out: Findings) -> None:
    """Mark the pod; the next round's scaling deletes it within its budget."""
    if pod.specified_delete:
        out.hold(pod, Hold.DELETE_BUDGET)
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
    this: Round, pod: PodFacts, target: Revision, known: _Known, out: Findings
) -> None:
    """By lifecycle state: prepare, wait for the hook, or write the update."""
    lifecycle = this.owner.lifecycle
    hook = lifecycle.in_place_update if lifecycle else None
    blockers = hooked(hook, pod)
    change = PodChange()
    if pod.state == State.UPDATED and hook is not None:
        change.enter(pod, enter(State.PREPARING_UPDATE, hook, this.now, readd=True), this.now)
        out.act(pod, patch_of(pod, change, this.now))
    elif pod.state in _FRESH and blockers:
        change.enter(pod, enter(State.PREPARING_UPDATE, hook, this.now), this.now)
        out.act(pod, patch_of(pod, change, this.now))
    elif pod.state == State.PREPARING_UPDATE and blockers:
        out.hold(pod, Hold.HOOK, f"{', '.join(blockers)} to be removed")
    elif pod.state in _KNOWN:
        _write(this, pod, target, known, out)
    else:
        text = f"pod {pod.name} is in lifecycle state {pod.state!r}, which is none of OpenKruise's"
        out.trouble.append(text)
        out.hold(pod, Hold.HOOK, text)


def _write(this: Round, pod: PodFacts, target: Revision, known: _Known, out: Findings) -> None:
    """The in-place patch, which pods of the same traits share."""
    spec, traits = known.specs[pod.revision], _traits(pod)
    assert isinstance(spec, UpdateSpec)
    last = known.begun.get(pod.revision)
    if last is None or last[0] != traits:
        change = _beginning(this, pod, target, spec)
        last = known.begun[pod.revision] = traits, steps_of(pod, change, this.now)
    if spec.grace_s > 0:
        out.wake.append(this.now + timedelta(seconds=spec.grace_s))
    text = f"pod {pod.name} to revision {target.name}"
    out.act(
        pod,
        patch_with(
            pod,
            last[1],
            done=Event("Normal", "SuccessfulUpdatePodInPlace", f"updated {text} in place"),
            failed=Event("Warning", "FailedUpdatePodInPlace", f"could not update {text}: "),
        ),
    )


def _beginning(this: Round, pod: PodFacts, target: Revision, spec: UpdateSpec) -> PodChange:
    """Out of service first, then revision, state and (after grace) the first batch.

    What it asks of the pod stands in `_Traits`.
    """
    change = PodChange()
    vertical = this.gates.in_place_workload_vertical_scaling
    if needs_unready(pod, spec, vertical=vertical) and pod.in_place is not False:
        change.conditions.append(in_place_condition(pod, ready=False, now=this.now))
    change.enter(pod, enter(State.UPDATING, None, this.now), this.now)
    shown = target.short if this.gates.clone_set_short_hash else target.name
    change.merge({"labels": {wire.REVISION_HASH: shown, wire.TEMPLATE_HASH: target.short}})
    change.merge({"annotations": _annotations(pod, spec, change, this.now)})
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


def held_by_scaling(this: Round) -> Findings:
    """Reasons for pods that would be updated, in a round that scales."""
    out, why = Findings(), _blocked(this) or Hold.SCALE_FIRST
    for group in this.fleet.groups:
        if not group.updated:
            out.hold_lot(group.lot, why)
    return out
