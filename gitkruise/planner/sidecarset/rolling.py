"""Rolling the sidecars of running pods: who may change, who goes first, how many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gitkruise.errors import Problem
from gitkruise.model.plan import Event, Hold
from gitkruise.model.pod import PodFacts
from gitkruise.model.sidecarset import SidecarSetFacts, SidecarUpdate
from gitkruise.planner.amounts import bad_amounts
from gitkruise.planner.findings import Findings
from gitkruise.planner.order import rollout_order
from gitkruise.planner.pod_change import PodChange, patch_of
from gitkruise.planner.registration import Registered
from gitkruise.planner.scatter import expanded
from gitkruise.planner.sidecarset.condition import (
    UPGRADABLE,
    upgradable_condition,
    upgradable_entries,
)
from gitkruise.planner.sidecarset.fleet import Judged, Yardstick
from gitkruise.planner.sidecarset.history import why_not
from gitkruise.planner.sidecarset.rollout import budget
from gitkruise.planner.sidecarset.upgrade import flip, upgrade
from gitkruise.wire.intstr import partition_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round decides from. `owner` knows the latest revision already."""

    owner: SidecarSetFacts
    yardstick: Yardstick
    pods: tuple[Judged, ...]
    history: Registered
    now: datetime


def plan_rolling(this: Round) -> Findings:
    """Flips and upgrades of this round, and why every other pod is left alone.

    Source: steps 5 to 9 of SidecarSet's pipeline. OpenKruise ends the round after a flip; here
    only the pods concerned sit it out.
    """
    out = Findings(spaces=True)
    stop = _stop(this.owner.update)
    if stop is not None:
        for judged in this.pods:
            if not judged.updated:
                out.hold(judged.pod, stop)
        return out
    problems = unreadable_amounts(this.owner.update)
    out.trouble += [f"{p.field}: {p.message}" for p in problems]
    if problems or this.history.creating:
        return out  # pods move to a revision once it is there
    down = _down(this.pods)
    down = _flips(this, out, down)
    _upgrades(this, out, down)
    _absolve(this, out)
    return out


def _stop(update: SidecarUpdate) -> Hold | None:
    if update.inject_only:
        return Hold.INJECT_ONLY
    return Hold.PAUSED if update.paused else None


def unreadable_amounts(update: SidecarUpdate) -> tuple[Problem, ...]:
    """Amounts that mean nothing: no pod is moved while there are any."""
    return bad_amounts({"partition": update.partition, "maxUnavailable": update.max_unavailable})


def _down(pods: Sequence[Judged]) -> int:
    """Pods that this rollout has down: updated ones that are not up, and those that were told to
    change by an earlier spec and still have to. OpenKruise forgets the latter, so that a push
    into a running rollout may take down more pods than it says.
    """
    return sum(not j.up if j.updated else _told(j) for j in pods)


def _told(judged: Judged) -> bool:
    if judged.late:
        return True
    return not judged.fits and judged.rested and not (judged.consistent and judged.serving)


# Flips -----------------------------------------------------------------------------------------


def _flips(this: Round, out: Findings, down: int) -> int:
    """The old side of every finished hot upgrade goes back to the placeholder; how many are down
    after that.

    A placeholder changed in the spec is brought to pods like any other image, within partition
    and maxUnavailable; OpenKruise changes it in all pods at once.
    """
    waiting: list[Judged] = []
    for judged in this.pods:
        if judged.rested:
            continue
        if not judged.fits:
            if this.owner.update.selects(judged.pod.labels):
                waiting.append(judged)
        elif blocker := _unfinished(this, judged):
            out.hold(judged.pod, Hold.UPDATING, blocker)
        else:
            _flip(this, judged, out)
    ordered = _ordered(this, waiting)
    for judged in ordered[: _asked(this, len(ordered))]:
        if blocker := _unfinished(this, judged):
            out.hold(judged.pod, Hold.UPDATING, blocker)
            continue
        if judged.serving and down >= budget(this.owner, len(this.pods)):
            break
        down += judged.serving
        _flip(this, judged, out)
    return down


def _unfinished(this: Round, judged: Judged) -> str:
    """What a flip waits for; "" when the working side of every hot sidecar has taken over."""
    pod = judged.pod
    idle = this.yardstick.idle(pod)
    if not this.yardstick.consistent(pod, this.yardstick.names - idle):
        return "waits for the new container to run"
    if judged.serving:
        return ""
    late = [s.name for s in pod.statuses if s.name not in idle and not s.ready]
    return f"waits for container {late[0]} to be ready" if late else ""


def _flip(this: Round, judged: Judged, out: Findings) -> None:
    pod, name = judged.pod, judged.pod.name
    done = Event("Normal", "ResetContainerSucceed", f"reset the idle containers of pod {name}")
    failed = Event("Warning", "ResetContainerFailed", f"could not reset pod {name}: ")
    _act(this, pod, flip(this.yardstick, pod, this.now), out, (done, failed))


# Upgrades --------------------------------------------------------------------------------------


def _upgrades(this: Round, out: Findings, down: int) -> None:
    waiting = _candidates(this, out)
    asked, allowed = _asked(this, len(waiting)), budget(this.owner, len(this.pods))
    ordered = _ordered(this, waiting) if asked else waiting
    out.hold_all([judged.pod for judged in ordered[asked:]], Hold.PARTITION)
    for at, judged in enumerate(ordered[:asked]):
        if judged.ready and down >= allowed:  # skipping ahead would overtake the order asked for
            out.hold_all([later.pod for later in ordered[at:asked]], Hold.BUDGET)
            return
        down += judged.ready
        _upgrade(this, judged, out)


def _asked(this: Round, waiting: int) -> int:
    """How many of those that wait the partition asks for. It keeps pods of those that wait:
    pods that cannot change, or are changing, come on top.
    """
    return max(waiting - partition_count(this.owner.update.partition, len(this.pods)), 0)


def _ordered(this: Round, waiting: Sequence[Judged]) -> list[Judged]:
    """The first to change first."""
    if not waiting:
        return []
    update = this.owner.update
    everyone = [j.pod for j in this.pods]
    strategy = replace(update, scatter=expanded(update.scatter, everyone))
    by_pod = {id(j.pod): j for j in waiting}
    ordered = rollout_order([j.pod for j in waiting], everyone, strategy)
    return [by_pod[id(pod)] for pod in ordered]


def _candidates(this: Round, out: Findings) -> list[Judged]:
    """Pods that can change now; the others are held, and told about when they never can."""
    waiting: list[Judged] = []
    reasons: dict[tuple[str, str], str] = {}
    barred = news = 0
    for judged in this.pods:
        pod = judged.pod
        if judged.updated or (out.busy and out.called(pod) in out.busy):
            continue
        if not this.owner.update.selects(pod.labels):
            out.hold(pod, Hold.NOT_SELECTED)
        elif not judged.fits:
            mark = this.yardstick.mark(pod)
            born = (mark.hash, mark.revision)
            if born not in reasons:
                reasons[born] = why_not(this.history, mark)
            out.hold(pod, Hold.CANNOT_UPDATE, reasons[born])
            barred += 1
            news += _tell(this, pod, out, can=False)
        elif judged.late:
            out.hold(pod, Hold.UPDATING, f"waits for container {judged.late} to run its image")
        else:
            waiting.append(judged)
    if news:
        text = f"{barred} pods cannot take the change while they run; new pods get it"
        out.events.append(Event("Normal", "NotUpgradablePods", text))
    return waiting


def _upgrade(this: Round, judged: Judged, out: Findings) -> None:
    pod = judged.pod
    try:
        change = upgrade(this.yardstick, pod, this.now)
    except ValueError as error:  # of this pod alone: its conditions or annotations
        out.trouble.append(f"pod {pod.name}: {error}")
        out.hold(pod, Hold.UPDATING, str(error))
        return
    _act(this, pod, change, out)


def _tell(this: Round, pod: PodFacts, out: Findings, *, can: bool) -> bool:
    """Set our entry in the condition that says whether the pod can be upgraded; True for news."""
    try:
        condition = upgradable_condition(pod, this.owner.name, this.now, can=can)
    except ValueError as error:
        out.trouble.append(f"pod {pod.name}: {error}")
        return False
    if condition is None:
        return False
    out.actions.append(patch_of(pod, PodChange(report=[condition]), this.now))
    return True


def _absolve(this: Round, out: Findings) -> None:
    """Pods that carry the set's hash again can be upgraded, whatever we said before; OpenKruise
    leaves the condition as it was."""
    for judged in this.pods:
        pod = judged.pod
        if not judged.updated or pod.condition(UPGRADABLE) is None or out.called(pod) in out.busy:
            continue
        try:
            barred = upgradable_entries(pod).get(this.owner.name) is False
        except ValueError:
            continue  # nothing of ours can be read there
        if barred:
            _tell(this, pod, out, can=True)


def _act(
    this: Round,
    pod: PodFacts,
    change: PodChange,
    out: Findings,
    events: tuple[Event, Event] | tuple[None, None] = (None, None),
) -> None:
    done, failed = events
    out.act(pod, patch_of(pod, change, this.now, done=done, failed=failed))
