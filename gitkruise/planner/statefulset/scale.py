"""Scaling: the missing pods of ordinals in range, and the end of all others (ASTS-40 ff.)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gitkruise.model.planning.plan import Create, Hold
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Hook
from gitkruise.model.workloads.pod import FINISHED, LifecycleState, PodFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.pods.lifecycle import enter
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.planner.revisions.revisions import template_of
from gitkruise.planner.statefulset.claims import missing_claims, new_claims, refer, stale
from gitkruise.planner.statefulset.context import StatefulRound
from gitkruise.planner.statefulset.identity import POD_INDEX, create_pod
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time


@dataclass(slots=True)
class Scaling:
    """Result of scaling. `over`: nothing is updated in this round. `creating` are revisions by the
    ordinals of pods created now."""

    out: RoundResult = field(default_factory=RoundResult)
    over: bool = False
    creating: dict[int, Revision] = field(default_factory=dict)


def plan_scale(context: StatefulRound) -> Scaling:
    """Create what is missing in ascending order, then delete what is too much in descending.

    Source: processReplica and processCondemned of OpenKruise's statefulset controller.
    """
    made = Scaling()
    _fill(context, made)
    retention = context.gates.stateful_set_auto_delete_pvc
    if retention:
        for pod in context.in_range:
            made.out.actions += refer(context.owner, pod, context.claims, surplus=False)
    if made.over:
        return made
    lowest = next(iter(_unhealthy(context)), None)
    for pod in context.surplus:
        if _remove(context, pod, lowest, made):
            break
    return made


def _fill(context: StatefulRound, scaling: Scaling) -> None:
    left = context.owner.scale_limit
    for at in context.ordinals:
        pod, down = context.pods.get(at), True
        if pod is None:
            down = _create(context, at, scaling)
        elif pod.phase in FINISHED:
            if pod.deleting is None:
                context.delete(pod, scaling.out)
            scaling.over = True
        else:
            down = not context.available(pod)
            _care(context, pod, scaling)
        if not scaling.over and down and context.owner.in_order:
            scaling.over = True
        if scaling.over:
            return
        left -= down
        if down and left <= 0:
            return


def _care(context: StatefulRound, pod: PodFacts, scaling: Scaling) -> None:
    """Claims that a Pending pod misses, and the return of a pod that is not deleted after all."""
    out, retention = scaling.out, context.gates.stateful_set_auto_delete_pvc
    if pod.phase == "Pending" and pod.deleting is None:
        out.actions += missing_claims(context.owner, pod, context.claims, retention=retention)
    returns = pod.state == LifecycleState.PREPARING_DELETE and not pod.specified_delete
    if returns and context.updated(pod) and pod.deleting is None:
        change = PodChange()
        change.enter(pod, enter(LifecycleState.PREPARING_NORMAL, None, context.now), context.now)
        out.act(pod, patch_of(pod, change, context.now))


def _create(context: StatefulRound, at: int, scaling: Scaling) -> bool:
    """Create the pod of an ordinal; True, as it is not available yet."""
    owner, name = context.owner, f"{context.owner.name}-{at}"
    retention = context.gates.stateful_set_auto_delete_pvc
    if retention and stale(owner, name, context.claims):
        scaling.over = True
        return True
    revision = revision_for(context, at, scaling)
    try:
        template = template_of(revision.data)
    except ValueError as error:
        scaling.out.problems.append(f"ControllerRevision {revision.name}: {error}")
        scaling.over = True
        return True
    lifecycle = owner.lifecycle
    state = _first_state(lifecycle.pre_normal if lifecycle else None, template)
    labels = {wire.LIFECYCLE_STATE: str(state)}
    if context.gates.pod_index_label:
        labels[POD_INDEX] = str(at)
    create = create_pod(
        owner.raw,
        template,
        at,
        revision=revision.name,
        labels=labels,
        claims=[
            claim
            for claim in new_claims(owner, name, retention=retention)
            if claim["metadata"]["name"] not in context.claims
        ],
    )
    wave = (len(scaling.creating) + 1).bit_length() - 1  # slow start: 1, 2, 4, … pods
    scaling.out.actions.append(_started(create, format_time(context.now), wave))
    scaling.creating[at] = revision
    return True


def _started(create: Create, stamp: str, wave: int) -> Create:
    """`create` with the time of its lifecycle state, in a wave."""
    meta: dict[str, Any] = dict(create.obj["metadata"])
    meta["annotations"] = {**(meta.get("annotations") or {}), wire.LIFECYCLE_TIME: stamp}
    obj: Obj = {**create.obj, "metadata": meta}
    return Create(obj=obj, claims=create.claims, wave=wave, done=create.done, failed=create.failed)


def _first_state(hook: Hook | None, template: Obj) -> LifecycleState:
    """Normal, unless handlers of hook preNormal are missing from the template."""
    meta = template.get("metadata") or {}
    labels, finalizers = meta.get("labels") or {}, meta.get("finalizers") or ()
    if hook is None or (
        hook.labels.items() <= labels.items() and set(hook.finalizers) <= set(finalizers)
    ):
        return LifecycleState.NORMAL
    return LifecycleState.PREPARING_NORMAL


def revision_for(context: StatefulRound, at: int, scaling: Scaling) -> Revision:
    """The revision of a new pod (ASTS-63, ASTS-64)."""
    owner, history = context.owner, context.history
    if owner.update.on_delete:
        return history.update
    if not owner.unordered:
        return history.current if context.below(at) else history.update
    old = sum(not context.updated(pod) for pod in context.in_range)
    old += sum(revision.name != history.update.name for revision in scaling.creating.values())
    return history.current if old < owner.kept else history.update


def _unhealthy(context: StatefulRound) -> Iterator[PodFacts]:
    """Yield unhealthy pods, in range or not, the lowest ordinal first."""
    return (
        context.pods[at] for at in sorted(context.pods) if not context.healthy(context.pods[at])
    )


def _remove(
    context: StatefulRound, pod: PodFacts, lowest: PodFacts | None, scaling: Scaling
) -> bool:
    """Delete a surplus pod; True when the lower ones wait for it."""
    out, in_order = scaling.out, context.owner.in_order
    if context.gates.stateful_set_auto_delete_pvc:
        patches = refer(context.owner, pod, context.claims, surplus=True)
        if patches:  # its claims go with it only if they refer to it before it is gone
            out.actions += patches
            scaling.over = True
            return in_order
    if pod.deleting is not None:
        if in_order:
            scaling.over = True
        return in_order
    if in_order and not context.available(pod) and pod is not lowest:
        scaling.over = True
        out.hold(pod, Hold.DELETE_BUDGET)
        return True
    if context.delete(pod, out) and in_order:
        scaling.over = True
        return True
    return False
