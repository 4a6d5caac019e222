"""Scale: as many pods as asked for, the named ones deleted, the right ones of the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gitkruise.model.planning.plan import Event, Hold
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.cloneset.budget import choose_deletions
from gitkruise.planner.cloneset.context import RoundContext
from gitkruise.planner.cloneset.create import creations, instance_ids
from gitkruise.planner.cloneset.deletes import delete_of, instance_id
from gitkruise.planner.cloneset.diffs import DiffRules, ExpectationDiffs, JudgedGroup, diff, tally
from gitkruise.planner.pods.lifecycle import StateChange, enter, hooked
from gitkruise.planner.pods.order import (
    deletion_order,
    same_node_ranks,
    spread_ranks,
    topology_keys,
)
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.planner.revisions.revisions import template_of

Nodes = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIds:
    """Instance ids that no new pod gets in this round.

    `barred` includes names and ids of finished pods, of claims that are going, and of others'
    objects. Ids of `terminating` pods become free again: their claims wait for the next pod.
    """

    barred: frozenset[str]
    terminating: frozenset[str]


Taken = Callable[[], TakenIds]


def scale_predicate(context: RoundContext) -> Callable[[JudgedGroup], bool]:
    """The predicate of pods that count as updated while scaling."""
    also = context.gates.preparing_update_as_update
    return lambda g: g.updated or (also and g.first.state == LifecycleState.PREPARING_UPDATE)


def count(context: RoundContext, updated: Callable[[JudgedGroup], bool]) -> ExpectationDiffs:
    """The numbers of this round; `updated` selects the pods of the update revision."""
    rules = DiffRules(
        same_revision=context.history.current.name == context.history.update.name,
        partition_rollback=context.gates.clone_set_partition_rollback,
        exclude_preparing_delete=context.owner.scale.exclude_preparing_delete,
    )
    return diff(context.amounts, *tally(context.fleet, updated), rules)


def plan_scale(context: RoundContext, *, taken: Taken, seed: int, nodes: Nodes) -> RoundResult:
    """Scale for one round; without actions there is nothing to scale, and updates may go on.

    Source: CloneSet's Scale, in its order.
    """
    fleet = context.fleet
    doomed = fleet.count(lambda g: g.preparing or g.specified)
    cancelled = _cancel(context, doomed)
    if cancelled.actions:
        return cancelled
    updated = scale_predicate(context)
    numbers = count(context, updated)
    if numbers.up > 0:
        return _create(context, numbers, taken=taken, seed=seed)
    out = RoundResult()
    _delete(context, fleet.where(lambda g: g.preparing), out)
    # In the order updates marked them: a round that marks some and one that marks more later keep
    # to the order in which one round would have deleted them all.
    waiting = context.in_turn(fleet.where(lambda g: g.specified and not g.preparing))
    chosen, later, limit = choose_deletions(waiting, fleet.available, numbers.delete_ready_limit)
    _wait(later, out)
    if not out.actions:
        _delete(context, chosen, out)
    if not out.actions and numbers.down > 0 and not doomed:
        surplus = _choose(context, numbers, updated, nodes)
        chosen, later, _ = choose_deletions(surplus, fleet.available, limit)
        _delete(context, chosen, out)
        _wait(later, out)
    return out


def _wait(pods: Sequence[PodFacts], out: RoundResult) -> None:
    for pod in pods:
        out.hold(pod, Hold.DELETE_BUDGET)


def _cancel(context: RoundContext, doomed: int) -> RoundResult:
    """Replicas grew back: pods preparing to be deleted return, but for the named ones.

    Not where a hook takes pods out of service, because nothing would put them back.
    """
    out = RoundResult()
    lifecycle = context.owner.lifecycle
    hooks = (lifecycle.pre_delete, lifecycle.in_place_update) if lifecycle else ()
    if any(hook and hook.mark_not_ready for hook in hooks):
        return out
    missing = context.amounts.replicas - context.fleet.size + doomed
    for pod in context.fleet.where(lambda g: g.preparing and not g.specified):
        if missing <= 0:
            break
        missing -= _enter(
            context, pod, enter(LifecycleState.PREPARING_NORMAL, None, context.now), out
        )
    return out


def _create(
    context: RoundContext, numbers: ExpectationDiffs, *, taken: Taken, seed: int
) -> RoundResult:
    """Create what is missing: first the current revision's share, then the update revision's.

    Ids of claims that lost their pod are used again. While that pod terminates its replacement
    waits: another id would start it on an empty volume.
    """
    out = RoundResult()
    owner = context.owner
    if numbers.up > numbers.up_limit and owner.status.get("observedGeneration") != owner.generation:
        text = (
            f"scaling out is limited to {numbers.up_limit} of {numbers.up} pods by maxUnavailable"
        )
        out.events.append(Event("Warning", "ScaleUpLimited", text))
    total = numbers.up_limit
    if not total:
        return out
    claims = {instance_id(c) for c in context.claims} - {""}
    here = {p.instance_id for p in context.fleet.pods}
    ids_taken = taken()
    held = here | ids_taken.barred | ids_taken.terminating
    waiting = (claims & ids_taken.terminating) - here - ids_taken.barred
    unused = len(claims - held)
    total = max(min(total, unused), total - len(waiting))
    ids = instance_ids(seed, total, taken=held, free=claims)
    from_current = min(total, numbers.up_old)
    wanted = [
        (name, context.history.current if at < from_current else context.history.update)
        for at, name in enumerate(ids)
    ]
    usable = [(name, revision) for name, revision in wanted if _usable(revision, out)]
    out.actions += creations(
        owner,
        usable,
        existing_claims={c["metadata"]["name"] for c in context.claims},
        first_wave=1 if context.history.creating else 0,
        now=context.now,
        gates=context.gates,
    )
    return out


def _usable(revision: Revision, out: RoundResult) -> bool:
    try:
        template_of(revision.data)
    except ValueError as error:
        text = f"ControllerRevision {revision.name}: {error}"
        if text not in out.problems:
            out.problems.append(text)
        return False
    return True


def _delete(context: RoundContext, pods: Sequence[PodFacts], out: RoundResult) -> None:
    """Delete each pod that its budget lets go; PreparingDelete while its hook blocks."""
    lifecycle = context.owner.lifecycle
    hook = lifecycle.pre_delete if lifecycle else None
    for pod in pods:
        blockers = hooked(hook, pod)
        if not blockers and (holder := context.ledger.holder(pod, PodOperation.DELETE)):
            out.hold(pod, Hold.UNAVAILABLE_BUDGET, holder)
        elif not blockers:
            out.act(pod, delete_of(pod, context.claims))
        elif pod.state == LifecycleState.PREPARING_DELETE:
            out.hold(pod, Hold.HOOK, f"{', '.join(blockers)} to be removed")
        else:
            _enter(context, pod, enter(LifecycleState.PREPARING_DELETE, hook, context.now), out)


def _enter(context: RoundContext, pod: PodFacts, state: StateChange, out: RoundResult) -> bool:
    """Write a lifecycle state; a pod whose conditions cannot be read stays as it is."""
    change = PodChange()
    try:
        change.enter(pod, state, context.now)
    except ValueError as error:
        out.problems.append(f"pod {pod.name}: {error}")
        out.hold(pod, Hold.HOOK, str(error))
        return False
    out.act(pod, patch_of(pod, change, context.now, spends=True))
    return True


def _choose(
    context: RoundContext,
    numbers: ExpectationDiffs,
    updated: Callable[[JudgedGroup], bool],
    nodes: Nodes,
) -> list[PodFacts]:
    """Surplus pods: the current revision's share first, each share in deletion order.

    Revision goes before health across the shares: recorded behaviour of OpenKruise.
    """
    old, new = context.fleet.where(lambda g: not updated(g)), context.fleet.where(updated)
    from_old = min(numbers.down, numbers.down_old)
    return [
        *_first(context, old, from_old, nodes),
        *_first(context, new, numbers.down - from_old, nodes),
    ]


def _first(
    context: RoundContext, group: Sequence[PodFacts], size: int, nodes: Nodes
) -> list[PodFacts]:
    if size <= 0:
        return []
    keys = topology_keys(context.owner.template)
    ranks = spread_ranks(group, keys, nodes) if keys else same_node_ranks(group)
    return deletion_order(group, available=context.fleet.available, ranks=ranks)[:size]
