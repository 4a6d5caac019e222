"""Update of sidecars in running pods: candidates, order and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gitkruise.model.planning.amounts import Amounts, resolve_sidecar_amounts
from gitkruise.model.planning.plan import Event, Hold
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset import SidecarSetFacts, SidecarUpdate
from gitkruise.planner.pods.order import rollout_order
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.planner.pods.scatter import expanded
from gitkruise.planner.revisions.registration import RevisionHistory
from gitkruise.planner.sidecarset.history import not_upgradable_reason
from gitkruise.planner.sidecarset.pod_upgrade import (
    UPGRADABLE,
    flip,
    upgradable_condition,
    upgradable_entries,
    upgrade,
)
from gitkruise.planner.sidecarset.pod_view import MatchCriteria, PodState


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarRound:
    """Input of one round. `owner` has the latest revision already."""

    owner: SidecarSetFacts
    criteria: MatchCriteria
    pods: tuple[PodState, ...]
    history: RevisionHistory
    now: datetime

    @property
    def amounts(self) -> Amounts:
        return resolve_sidecar_amounts(self.owner, len(self.pods))


def plan_rolling(context: SidecarRound) -> RoundResult:
    """Flips and upgrades of this round, and why every other pod is left alone.

    Source: steps 5 to 9 of SidecarSet's pipeline. OpenKruise ends the round after a flip; here
    only the pods concerned sit it out.
    """
    out = RoundResult(spaces=True)
    stop = _stop(context.owner.update)
    if stop is not None:
        for judged in context.pods:
            if not judged.updated:
                out.hold(judged.pod, stop)
        return out
    amounts = context.amounts
    out.problems += amounts.problem_texts
    if amounts.problems or context.history.creating:
        return out  # pods move to a revision once it is there
    down = _down(context.pods)
    down = _flips(context, out, down)
    _upgrades(context, out, down)
    _clear_barred(context, out)
    return out


def _stop(update: SidecarUpdate) -> Hold | None:
    if update.inject_only:
        return Hold.INJECT_ONLY
    return Hold.PAUSED if update.paused else None


def _down(pods: Sequence[PodState]) -> int:
    """Pods that this rollout has down: updated ones that are not up, and those that an earlier
    spec changed and that have yet to restart. OpenKruise forgets the latter, so that a push
    into a running rollout may take down more pods than it allows."""
    return sum(not j.up if j.updated else _is_reported(j) for j in pods)


def _is_reported(judged: PodState) -> bool:
    if judged.late:
        return True
    return not judged.fits and judged.rested and not (judged.consistent and judged.serving)


# Flips -----------------------------------------------------------------------------------------


def _flips(context: SidecarRound, out: RoundResult, down: int) -> int:
    """Return the old container of every finished hot upgrade to the placeholder; return how many
    pods are down after that.

    A placeholder changed in the spec is brought to pods like any other image, within partition
    and maxUnavailable; OpenKruise changes it in all pods together.
    """
    waiting: list[PodState] = []
    for judged in context.pods:
        if judged.rested:
            continue
        if not judged.fits:
            if context.owner.update.selects(judged.pod.labels):
                waiting.append(judged)
        elif blocker := _unfinished(context, judged):
            out.hold(judged.pod, Hold.UPDATING, blocker)
        else:
            _flip(context, judged, out)
    ordered, allowed = _ordered(context, waiting), context.amounts.unavailable
    for judged in ordered[: _asked(context, len(ordered))]:
        if blocker := _unfinished(context, judged):
            out.hold(judged.pod, Hold.UPDATING, blocker)
            continue
        if judged.serving and down >= allowed:
            break
        down += judged.serving
        _flip(context, judged, out)
    return down


def _unfinished(context: SidecarRound, judged: PodState) -> str:
    """Reason for a flip to wait; "" when the working side of every hot sidecar has taken over."""
    pod = judged.pod
    idle = context.criteria.idle(pod)
    if not context.criteria.consistent(pod, context.criteria.names - idle):
        return "waits for the new container to run"
    if judged.serving:
        return ""
    late = [s.name for s in pod.statuses if s.name not in idle and not s.ready]
    return f"waits for container {late[0]} to be ready" if late else ""


def _flip(context: SidecarRound, judged: PodState, out: RoundResult) -> None:
    pod, name = judged.pod, judged.pod.name
    done = Event("Normal", "ResetContainerSucceed", f"reset the idle containers of pod {name}")
    failed = Event("Warning", "ResetContainerFailed", f"could not reset pod {name}: ")
    _act(context, pod, flip(context.criteria, pod, context.now), out, (done, failed))


# Upgrades --------------------------------------------------------------------------------------


def _upgrades(context: SidecarRound, out: RoundResult, down: int) -> None:
    waiting = _candidates(context, out)
    asked, allowed = _asked(context, len(waiting)), context.amounts.unavailable
    ordered = _ordered(context, waiting) if asked else waiting
    out.hold_all([judged.pod for judged in ordered[asked:]], Hold.PARTITION)
    for at, judged in enumerate(ordered[:asked]):
        if judged.ready and down >= allowed:  # skipping ahead would overtake the order asked for
            out.hold_all([later.pod for later in ordered[at:asked]], Hold.BUDGET)
            return
        down += judged.ready
        _upgrade(context, judged, out)


def _asked(context: SidecarRound, waiting: int) -> int:
    """The number of the waiting pods that the partition allows to update.
    It keeps pods out of those that wait: pods that cannot change, or are changing, come on top."""
    return max(waiting - context.amounts.partition, 0)


def _ordered(context: SidecarRound, waiting: Sequence[PodState]) -> list[PodState]:
    """The first to change first."""
    if not waiting:
        return []
    update = context.owner.update
    everyone = [j.pod for j in context.pods]
    strategy = replace(update, scatter=expanded(update.scatter, everyone))
    by_pod = {id(j.pod): j for j in waiting}
    ordered = rollout_order([j.pod for j in waiting], everyone, strategy)
    return [by_pod[id(pod)] for pod in ordered]


def _candidates(context: SidecarRound, out: RoundResult) -> list[PodState]:
    """Pods that can change now; the others are held, with a warning when they never can."""
    waiting: list[PodState] = []
    reasons: dict[tuple[str, str], str] = {}
    barred = news = 0
    for judged in context.pods:
        pod = judged.pod
        if judged.updated or (out.busy and out.called(pod) in out.busy):
            continue
        if not context.owner.update.selects(pod.labels):
            out.hold(pod, Hold.NOT_SELECTED)
        elif not judged.fits:
            mark = context.criteria.mark(pod)
            born = (mark.hash, mark.revision)
            if born not in reasons:
                reasons[born] = not_upgradable_reason(context.history, mark)
            out.hold(pod, Hold.CANNOT_UPDATE, reasons[born])
            barred += 1
            news += _set_upgradable(context, pod, out, can=False)
        elif judged.late:
            out.hold(pod, Hold.UPDATING, f"waits for container {judged.late} to run its image")
        else:
            waiting.append(judged)
    if news:
        text = f"{barred} pods cannot take the change while they run; new pods get it"
        out.events.append(Event("Normal", "NotUpgradablePods", text))
    return waiting


def _upgrade(context: SidecarRound, judged: PodState, out: RoundResult) -> None:
    pod = judged.pod
    try:
        change = upgrade(context.criteria, pod, context.now)
    except ValueError as error:  # of this pod alone: its conditions or annotations
        out.problems.append(f"pod {pod.name}: {error}")
        out.hold(pod, Hold.UPDATING, str(error))
        return
    _act(context, pod, change, out)


def _set_upgradable(context: SidecarRound, pod: PodFacts, out: RoundResult, *, can: bool) -> bool:
    """Set our entry in the condition that says whether the pod can be upgraded; True for news."""
    try:
        condition = upgradable_condition(pod, context.owner.name, context.now, can=can)
    except ValueError as error:
        out.problems.append(f"pod {pod.name}: {error}")
        return False
    if condition is None:
        return False
    out.actions.append(patch_of(pod, PodChange(report=[condition]), context.now))
    return True


def _clear_barred(context: SidecarRound, out: RoundResult) -> None:
    """Pods that carry the set's hash again can be upgraded, whatever we said before; OpenKruise
    leaves the condition as it was."""
    for judged in context.pods:
        pod = judged.pod
        if not judged.updated or pod.condition(UPGRADABLE) is None or out.called(pod) in out.busy:
            continue
        try:
            barred = upgradable_entries(pod).get(context.owner.name) is False
        except ValueError:
            continue  # nothing of ours can be read there
        if barred:
            _set_upgradable(context, pod, out, can=True)


def _act(
    context: SidecarRound,
    pod: PodFacts,
    change: PodChange,
    out: RoundResult,
    events: tuple[Event, Event] | tuple[None, None] = (None, None),
) -> None:
    done, failed = events
    out.act(pod, patch_of(pod, change, context.now, spends=True, done=done, failed=failed))
