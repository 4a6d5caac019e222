"""Beginning of an update in place: by lifecycle state prepare, wait for the hook, or write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gitkruise.model.planning.plan import Event, Hold, PatchStep
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Policy
from gitkruise.model.workloads.pod import Container, LifecycleState, PodFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.pod_updates.rules import UpdateRules
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
class RevisionFindings:
    """Findings of a round by the revision that pods come from: most pods share one."""

    specs: dict[str, UpdateSpec | Impossible] = field(default_factory=dict)
    begun: dict[str, tuple[_Traits, tuple[PatchStep, ...]]] = field(default_factory=dict)


def spec_of(
    rules: UpdateRules, pod: PodFacts, target: Revision, known: RevisionFindings
) -> UpdateSpec | Impossible:
    """The update in place of `pod` to `target`, or why there is none."""
    if pod.revision not in known.specs:
        known.specs[pod.revision] = in_place_spec(
            rules.history.of(pod.revision),
            target,
            policy=rules.update.policy,
            gates=rules.gates,
            grace_s=rules.update.grace_s,
        )
    return known.specs[pod.revision]


def update_pod(
    rules: UpdateRules,
    pod: PodFacts,
    target: Revision,
    known: RevisionFindings,
    out: RoundResult,
    recreate: Callable[[PodFacts], object],
) -> None:
    """Bring a pod to another revision in the way of its policy, or say why it stays."""
    policy = rules.update.policy
    try:
        spec = None if policy is Policy.RECREATE else spec_of(rules, pod, target, known)
        if isinstance(spec, UpdateSpec):
            update_in_place(rules, pod, target, known, out)
        elif spec is not None and policy is Policy.IN_PLACE_ONLY:
            out.problems.append(f"pod {pod.name} cannot be updated in place: {spec.why}")
            out.hold(pod, Hold.CANNOT_UPDATE, spec.why)
        else:
            recreate(pod)
    except ValueError as error:  # of this pod alone: its conditions or annotations
        out.problems.append(f"pod {pod.name}: {error}")
        out.hold(pod, Hold.UPDATING, str(error))


def update_in_place(
    rules: UpdateRules,
    pod: PodFacts,
    target: Revision,
    known: RevisionFindings,
    out: RoundResult,
) -> None:
    """By lifecycle state: prepare, wait for the hook, or write the update."""
    hook = rules.in_place_hook
    blockers = hooked(hook, pod)
    change = PodChange()
    if pod.state == LifecycleState.PREPARING_UPDATE and blockers:
        out.hold(pod, Hold.HOOK, f"{', '.join(blockers)} to be removed")
    elif pod.state in _KNOWN and (holder := rules.holder(pod)):
        out.hold(pod, Hold.UNAVAILABLE_BUDGET, holder)
    elif pod.state == LifecycleState.UPDATED and hook is not None:
        change.enter(
            pod, enter(LifecycleState.PREPARING_UPDATE, hook, rules.now, readd=True), rules.now
        )
        out.act(pod, patch_of(pod, change, rules.now, spends=True))
    elif pod.state in _FRESH and blockers:
        change.enter(pod, enter(LifecycleState.PREPARING_UPDATE, hook, rules.now), rules.now)
        out.act(pod, patch_of(pod, change, rules.now, spends=True))
    elif pod.state in _KNOWN:
        _write(rules, pod, target, known, out)
    else:
        text = (
            f"pod {pod.name} is in lifecycle state {pod.state!r}, which OpenKruise does not define"
        )
        out.problems.append(text)
        out.hold(pod, Hold.HOOK, text)


def _write(
    rules: UpdateRules,
    pod: PodFacts,
    target: Revision,
    known: RevisionFindings,
    out: RoundResult,
) -> None:
    """The in-place patch, which pods of the same traits share."""
    spec, traits = known.specs[pod.revision], _traits(pod)
    assert isinstance(spec, UpdateSpec)
    last = known.begun.get(pod.revision)
    if last is None or last[0] != traits:
        change = _beginning(rules, pod, target, spec)
        last = known.begun[pod.revision] = traits, steps_of(pod, change, rules.now)
    if spec.grace_s > 0:
        out.wake.append(rules.now + timedelta(seconds=spec.grace_s))
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


def _beginning(rules: UpdateRules, pod: PodFacts, target: Revision, spec: UpdateSpec) -> PodChange:
    """Out of service first, then revision, state and (after grace) the first batch.

    `_Traits` holds the requirements on the pod.
    """
    change = PodChange()
    vertical = rules.gates.in_place_workload_vertical_scaling
    if needs_unready(pod, spec, vertical=vertical) and pod.in_place is not False:
        change.conditions.append(in_place_condition(pod, ready=False, now=rules.now))
    change.enter(pod, enter(LifecycleState.UPDATING, None, rules.now), rules.now)
    change.merge({"labels": rules.labels(target)})
    change.merge({"annotations": _annotations(pod, spec, change, rules.now)})
    return change


def _annotations(
    pod: PodFacts, spec: UpdateSpec, change: PodChange, now: datetime
) -> dict[str, str | None]:
    """Those that show how far the update is; its first batch goes into `change`, unless a grace
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
