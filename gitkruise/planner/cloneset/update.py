"""Update: which pods move to another revision this round, how, and why the others wait."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from gitkruise.model.planning.plan import Event, Hold, PatchStep
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.model.workloads.pod_groups import PodGroup
from gitkruise.planner.cloneset.budget import UpdateQuota, choose_updates, refusal
from gitkruise.planner.cloneset.context import RoundContext
from gitkruise.planner.cloneset.diffs import ExpectationDiffs, JudgedGroup
from gitkruise.planner.cloneset.scale import count
from gitkruise.planner.pod_updates.start import RevisionFindings, update_pod
from gitkruise.planner.pods.pod_patch import patch_with
from gitkruise.planner.pods.round_result import RoundResult

_BEGUN: Final = attrgetter("begun")
_MARK: Final = (PatchStep(body={"metadata": {"labels": {wire.SPECIFIED_DELETE: "true"}}}),)


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
        missing=fleet.size < context.amounts.replicas,
    )
    if size <= quota.pods and (stop := refusal(quota)):
        for members in waiting:  # in whatever order
            out.hold_group(members, stop)
        return out
    ordered = context.in_turn([pod for members in waiting for pod in members])
    ordered.sort(key=_BEGUN, reverse=True)  # what was begun is finished first
    chosen, held = choose_updates(ordered, fleet.available, quota)
    for why, pods in held:
        out.hold_all(pods, why)
    known, rules = RevisionFindings(), context.rules
    for pod in chosen:
        update_pod(rules, pod, target, known, out, lambda pod: _recreate(context, pod, out))
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


def held_by_scaling(context: RoundContext) -> RoundResult:
    """Reasons for pods that would be updated, in a round that scales."""
    out, why = RoundResult(), _blocked(context) or Hold.SCALE_FIRST
    for group in context.fleet.groups:
        if not group.updated:
            out.hold_group(group.members, why)
    return out
