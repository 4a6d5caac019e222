"""Updates: which pods move to the update revision this round, how, and why the others wait."""

from __future__ import annotations

from collections.abc import Sequence

from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.pod_updates.start import RevisionFindings, update_pod
from gitkruise.planner.pods.order import by_priority
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.planner.statefulset.context import StatefulRound
from gitkruise.planner.statefulset.resize import growing, growth, unfit
from gitkruise.planner.statefulset.scale import Scaling


def plan_update(context: StatefulRound, scaling: Scaling, skip: set[str]) -> RoundResult:
    """Move pods to the update revision within maxUnavailable; pods in `skip` are busy this round.

    Source: rollingUpdateStatefulsetPods and sortPodsToUpdate of OpenKruise.
    """
    out = RoundResult()
    old = [p for p in context.in_range if not context.updated(p)]
    blocked = held_by(context, scaling)
    begun = [p for p in old if p.state == LifecycleState.PREPARING_UPDATE]
    if blocked is not None and not (blocked is Hold.SCALE_FIRST and begun):
        out.hold_all([p for p in old if p.deleting is None], blocked)
        return out
    down = _down(context)
    if blocked is not None:  # what was begun is finished; OpenKruise waits for ever (ASTS-69)
        _move(context, begun, down, skip, out)
        out.hold_all([p for p in old if p.deleting is None and p not in begun], blocked)
        return out
    removed = _specified(context, down, skip, out)
    targets = _targets(context, scaling.creating)
    _hold_rest(context, old, targets, out)
    _move(context, [p for p in targets if p.name not in removed], down, skip, out)
    return out


def _move(
    context: StatefulRound,
    targets: Sequence[PodFacts],
    down: set[str],
    skip: set[str],
    out: RoundResult,
) -> None:
    """Update `targets` in their order while maxUnavailable lets them; `down` grows with them."""
    known, target = RevisionFindings(), context.history.update
    for at, pod in enumerate(targets):
        if context.updated(pod) and not _claims_differ(context, pod):
            continue
        if len(down) >= context.owner.unavailable and pod.name not in down:
            out.hold_all([p for p in targets[at:] if not context.updated(p)], Hold.BUDGET)
            return
        if pod.deleting is not None:
            continue
        if pod.name in skip:
            down.add(pod.name)
            continue
        if _grows(context, pod, out):
            down.add(pod.name)
            continue
        if context.updated(pod):
            continue
        update_pod(context.rules, pod, target, known, out, lambda pod: context.delete(pod, out))
        if _leaves(context, pod, out):
            down.add(pod.name)


def _leaves(context: StatefulRound, pod: PodFacts, out: RoundResult) -> bool:
    """Return whether a pod is unavailable from this round on, or from the next one (PUB-62)."""
    return pod.name in out.busy or pod.name in context.ledger.noted


def _claims_differ(context: StatefulRound, pod: PodFacts) -> bool:
    """Return whether a round has to look at the claims of a pod that is updated."""
    if not context.resizes:
        return False
    owner, claims = context.owner, context.claims
    return bool(unfit(owner, pod, claims) or growth(owner, pod, claims))


def _grows(context: StatefulRound, pod: PodFacts, out: RoundResult) -> bool:
    """Let the pod's claims grow before the pod is updated; True while it waits for them."""
    if not context.resizes:
        return False
    owner, claims = context.owner, context.claims
    if name := unfit(owner, pod, claims):
        text = f"claim {name} differs from its template in more than its size"
        out.problems.append(f"pod {pod.name}: {text}; it is created again once it is deleted")
        out.hold(pod, Hold.CANNOT_UPDATE, text)
        return True
    patches = growth(owner, pod, claims)
    out.actions += patches
    names = [p.key.name for p in patches] or list(growing(owner, pod, claims, ready=False))
    if names:
        out.hold(pod, Hold.UPDATING, f"waits for claim {names[0]} to grow")
    return bool(names)


def held_by(context: StatefulRound, scaling: Scaling) -> Hold | None:
    """Return what stops all updates, if anything does."""
    update = context.owner.update
    if update.on_delete:
        return Hold.ON_DELETE
    if update.paused:
        return Hold.PAUSED
    return Hold.SCALE_FIRST if scaling.over else None


def _down(context: StatefulRound) -> set[str]:
    """Names of pods that are missing, not available, or whose claims grow."""
    owner, claims = context.owner, context.claims
    missing = {f"{owner.name}-{at}" for at in context.ordinals if at not in context.pods}
    down = missing | {p.name for p in context.in_range if not context.available(p)}
    if context.resizes:
        pods = context.in_range
        down |= {p.name for p in pods if any(growing(owner, p, claims, ready=True))}
    return down


def _specified(
    context: StatefulRound, down: set[str], skip: set[str], out: RoundResult
) -> set[str]:
    """Delete pods that a user marked, highest ordinal first; the partition has no say (ASTS-68)."""
    removed = set()
    for pod in reversed([p for p in context.in_range if p.specified_delete]):
        if pod.deleting is not None or pod.name in skip:
            continue
        if len(down) >= context.owner.unavailable and pod.name not in down:
            out.hold(pod, Hold.DELETE_BUDGET)
            continue
        context.delete(pod, out)
        removed.add(pod.name)
        if _leaves(context, pod, out):
            down.add(pod.name)
    return removed


def _targets(context: StatefulRound, creating: dict[int, Revision]) -> Sequence[PodFacts]:
    """The pods that are to run the update revision, the first to update first."""
    descending = [at for at in reversed(context.ordinals) if at in context.pods]
    if not context.owner.unordered:
        return [context.pods[at] for at in descending if not context.below(at)]
    most = context.owner.replicas - context.owner.kept
    there = [context.pods[at] for at in descending]
    counted = [p for p in there if context.updated(p) or p.deleting is not None]
    waiting = [p for p in there if not context.updated(p) and p.deleting is None]
    created = sum(r.name == context.history.update.name for r in creating.values())
    wanted = max(most - len(counted) - created, 0)
    return [*counted, *by_priority(waiting, context.owner.update)[:wanted]]


def _hold_rest(
    context: StatefulRound, old: Sequence[PodFacts], targets: Sequence[PodFacts], out: RoundResult
) -> None:
    asked = {pod.name for pod in targets}
    out.hold_all([p for p in old if p.name not in asked], Hold.PARTITION)
