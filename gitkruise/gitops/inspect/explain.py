"""Explanation of an object's state: the hold of each pod, and what would release it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.gitops.inspect.cluster_view import Managed, as_recorded
from gitkruise.gitops.inspect.disruption_budgets import ALONE, Sharing, UnavailableBudget
from gitkruise.gitops.status.reader import RecordedUnit
from gitkruise.model.gitops.analysis import AnalysisRun
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.record import UNSEEN, Rollout, RolloutStep
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.model.planning.canary import GIT_PAUSE
from gitkruise.model.planning.plan import HeldPod, Hold, Plan
from gitkruise.model.planning.workload_spread import Division
from gitkruise.model.workloads.labels import DAEMONSET, DEPLOYMENT, SIDECARSET, STATEFULSET
from gitkruise.model.workloads.rollout_kinds import STATEFUL
from gitkruise.model.workloads.sidecarset import NOT_UPDATE
from gitkruise.planner.progress.builtin import unreplaced
from gitkruise.planner.progress.failing_pods import unready, unscheduled
from gitkruise.planner.report.stops import is_template, next_move
from gitkruise.planner.report.summary import keeps
from gitkruise.planner.sync.annotations import annotation, left_alone
from gitkruise.planner.sync.prune import may_be_of
from gitkruise.printable import listing, many, shown
from gitkruise.wire.primitives.names import ObjectKey, named, noun
from gitkruise.wire.primitives.paths import get


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The answer. `reasons` are sentences, the weightiest first; `next` is what would move it."""

    managed: Managed
    state: State
    message: str
    reasons: tuple[str, ...]
    next: tuple[str, ...]
    held: tuple[HeldPod, ...] = ()
    acts: int = 0  # writes the controller is about to make
    step: RolloutStep | None = None  # the newest of the record
    unit: RecordedUnit | None = None
    sharing: Sharing = ALONE
    unavailable: tuple[UnavailableBudget, ...] = ()
    division: Division | None = None  # its pods by subset of a WorkloadSpread

    @property
    def promotion(self) -> PromotionRecord | None:
        """Return its promotion unless there is none or it is complete."""
        promotion = self._promotion
        return promotion if promotion and promotion.next else None

    @property
    def analysis(self) -> AnalysisRun | None:
        """Return the newest measurements of its promotion, also after a rollback ended it."""
        return self._promotion.analysis if self._promotion else None

    @property
    def _promotion(self) -> PromotionRecord | None:
        promotion = self.unit.promotion if self.unit else None
        return promotion if promotion and promotion.key == self.managed.key else None


# What is said of the pods a rule leaves alone: `{n}` as "4 pods", `{detail}` as the rule gives it.
_HELD: Final = {
    Hold.PARTITION: "{n} {stay} on the current revision: {arithmetic}",
    Hold.PAUSED: "{n} {wait} because its spec says paused: true",
    Hold.ON_DELETE: "{n} {are} updated when a user deletes them (OnDelete)",
    Hold.BUDGET: "{n} {wait}: {budget}",
    Hold.NEW_NOT_READY: "{n} {wait}: pods that are updated must be available first; {budget}",
    Hold.GRACE: "{n} {wait} for the grace period of an update in place: {detail}",
    Hold.HOOK: "{n} {wait} for a lifecycle hook: {detail}",
    Hold.UPDATING: "{n} {are} being updated: {detail}",
    Hold.TERMINATING: "{n} {are} being deleted",
    Hold.DELETE_BUDGET: "{n} to be deleted {wait} until others are available",
    Hold.UNAVAILABLE_BUDGET: "{n} {wait} for PodUnavailableBudget {detail}",
    Hold.SCALE_FIRST: "{n} {wait} until the number of pods is right; then they are updated",
    Hold.CANNOT_UPDATE: "{n} cannot be updated in place, and nothing recreates them: {detail}",
    Hold.SURGE: "{n} {wait} for the pods that maxSurge adds first",
    Hold.INJECT_ONLY: "{n} {are} left as they are: type NotUpdate changes new pods only",
    Hold.NOT_SELECTED: "{n} {are} left out by updateStrategy.selector",
}
_ORDER: Final = {hold: rank for rank, hold in enumerate(
    (Hold.CANNOT_UPDATE, Hold.HOOK, Hold.NEW_NOT_READY, Hold.BUDGET, Hold.SURGE, Hold.GRACE,
     Hold.UPDATING, Hold.UNAVAILABLE_BUDGET, Hold.SCALE_FIRST, Hold.DELETE_BUDGET,
     Hold.TERMINATING, Hold.PAUSED, Hold.ON_DELETE, Hold.NOT_SELECTED, Hold.INJECT_ONLY,
     Hold.PARTITION)
)}  # fmt: skip


# Kinds whose controllers plan no single pod; gitkruise does not drive them on a real cluster.
_UNPLANNED: Final = frozenset({DEPLOYMENT, STATEFULSET, DAEMONSET})
_REFUSED: Final = "a change of what refuses its pods; their controller tries again by itself"
MOVING: Final = frozenset({State.STUCK, State.ROLLING, State.WAITING})


def explain(
    managed: Managed,
    plan: Plan | None,
    unit: RecordedUnit | None = None,
    step: RolloutStep | None = None,
    sharing: Sharing = ALONE,
    unavailable: Sequence[UnavailableBudget] = (),
    *,
    warnings: Sequence[str] = (),
    lost: Sequence[str] = (),
) -> Why:
    """From the live object, its next plan, who else changes its pods, and its unit's record.

    `unavailable` are the PodUnavailableBudgets of its pods, `warnings` the cluster's of them, and
    `lost` those of their nodes that do not answer.
    """
    now = as_recorded(managed, unit)
    state, message = now.state, now.message
    if unit is not None and unit.waits and state in SETTLED:
        state, message = State.WAITING, f"waits for {unit.waits}"
    held, warned = plan.held if plan else (), len(warnings) > len(lost)
    reasons = [
        *_of_unit(unit),
        *_of_leaving(managed, unit),
        *_of_problems(managed, unit),
        *_of_aside(managed, unit),
        *_of_failing(managed),
        *((managed.refused,) if managed.refused else ()),
        *_of_rollout(managed.rollout),
        *_of_unready(managed),
        *warnings,
        *_of_pods(held, managed.rollout),
        *(_of_old_pods(managed.rollout) if managed.key.group_kind in _UNPLANNED else ()),
    ]
    if plan is not None and plan.problem is not None:
        reasons.insert(0, f"the controller cannot go on: {plan.problem}")
    if not reasons and message and state is not State.DONE:
        reasons = [message]
    return Why(
        managed=managed,
        state=state,
        message=message,
        reasons=tuple(reasons),
        next=(
            *_moved_by_nodes(lost),
            *_next(managed, state, unit, sharing, held, warned=warned, lost=bool(lost)),
        ),
        held=held,
        acts=len(plan.actions) if plan else 0,
        step=step,
        unit=unit,
        sharing=sharing,
        unavailable=tuple(unavailable),
    )


def budgets_holding(held: Iterable[HeldPod]) -> list[str]:
    """The PodUnavailableBudgets that pods wait for, by name."""
    return sorted({one.detail for one in held if one.why is Hold.UNAVAILABLE_BUDGET})


def budgets(answer: Why) -> Iterator[tuple[ObjectKey, Rollout]]:
    """The object's own budget and those of all others that change its pods; none if it is alone."""
    found = (answer.managed, *answer.sharing.others)
    if len(found) > 1:
        yield from ((m.key, m.rollout) for m in found if m.rollout is not None)


def _of_unit(unit: RecordedUnit | None) -> Iterator[str]:
    """Yield the problems of its unit."""
    if unit is None:
        return
    if unit.outdated:
        yield f"unit {unit.unit}: {unit.outdated}"
    if unit.state is State.REJECTED and unit.attempted is not None:
        problem = unit.problems[0] if unit.problems else unit.message
        yield f"commit {unit.attempted.short} was rejected, so what it asks is not live: {problem}"
    elif unit.waits:
        commit = f"commit {unit.attempted.short}" if unit.attempted else "the newest commit"
        yield f"{commit} of unit {unit.unit} is not live: it waits for {unit.waits}"
    elif unit.pending and unit.state not in SETTLED and unit.attempted is not None:
        words = f"commit {unit.attempted.short} of unit {unit.unit} is not live yet"
        yield f"{words}: {unit.message}" if unit.message else words
    elif unit.suspended:
        yield f"unit {unit.unit} is {unit.message}; nothing new is applied"
    elif unit.state in SETTLED and unit.obstacle:
        yield f"newer commits may wait: unit {unit.unit}: {unit.obstacle}"


def _of_leaving(m: Managed, unit: RecordedUnit | None) -> Iterator[str]:
    """Yield why an object is still there that git does not name any more."""
    if unit is None or not left_git(m, unit):
        return
    reason = f"unit {unit.unit} does not name it any more"
    problems = [p for p in unit.problems if may_be_of(p, m.key)]
    about = [problem for problem in problems if str(m.key) in problem]
    if m.obj["metadata"].get("deletionTimestamp"):
        yield f"{reason}: it is being deleted"
    elif problems:
        yield f"{reason}: {(about or problems)[0]}"
    elif unit.state in SETTLED and unit.state is not State.PAUSED:
        yield f"{reason}: its deletion has not begun"
    else:
        now = f"the unit is {unit.state}: {unit.message}" if unit.message else ""
        yield f"{reason}: deletions come when all other objects are ready{now and f'; {now}'}"


def _of_problems(m: Managed, unit: RecordedUnit | None) -> Iterator[str]:
    """Yield what its unit reports of the object by name."""
    if unit is None or unit.state is State.REJECTED or left_git(m, unit):
        return
    named = tuple(f"{m.key}{end}" for end in (" ", ",", ":"))
    yield from (text for text in unit.problems if any(name in text for name in named))


def _of_aside(m: Managed, unit: RecordedUnit | None) -> Iterator[str]:
    """Yield why commits do not reach an object that opted out of changes."""
    news = unit.objects.get(m.key) if unit is not None else None
    if news is not None and (why := left_alone(news.message)):
        yield f"changes of git do not reach it: {why}"


def _of_failing(m: Managed) -> Iterator[str]:
    """Yield why pods of a workload without a rollout cannot start, then how many it has."""
    causes: dict[str, list[str]] = defaultdict(list)
    for pod, why in m.failing:
        causes[why].append(pod)
    for why, pods in causes.items():
        yield f"{many(len(pods))} cannot start: {why}"
    if causes and m.message and m.state is not State.STUCK:
        yield m.message


def _of_rollout(r: Rollout | None) -> Iterator[str]:
    if r is None:
        return
    if not r.generation_seen:
        yield UNSEEN
        return  # the counts are those of the spec before
    causes: dict[str, list[str]] = defaultdict(list)
    for pod, why in r.failing:
        causes[why].append(pod)
    for why, pods in causes.items():
        verb = "runs" if len(pods) == 1 else "run"
        yield f"{many(len(pods))} {verb} the new revision and cannot start: {why}"
    hindered: dict[str, list[str]] = defaultdict(list)
    for pod, why in r.hindered:
        hindered[why].append(pod)
    for why, pods in hindered.items():
        yield f"{many(len(pods))} cannot start because of another object's {why}"
    says_why = r.state is State.STUCK and not r.failing and not r.hindered
    if r.refused and not (says_why and r.refused in r.message):
        yield r.refused
    if says_why:
        yield r.message


def _of_unready(m: Managed) -> Iterator[str]:
    """Yield how many pods are not available, by what they wait for; the failing ones are named."""
    r = m.rollout
    if r is None or not r.generation_seen or r.failing or r.hindered:
        return
    if r.state not in {State.ROLLING, State.STUCK}:
        return
    causes = Counter(why for pod in m.pods if pod.active and (why := unready(pod)))
    silent = r.replicas - r.available - causes.total()
    if r.state is State.ROLLING and silent > 0:
        yield f"{many(silent)} {'is' if silent == 1 else 'are'} not available yet"
    for why, count in causes.items():
        yield f"{many(count)} {'is' if count == 1 else 'are'} not available yet: {why}"


def _of_pods(held: Sequence[HeldPod], r: Rollout | None) -> Iterator[str]:
    """One sentence for all pods that the same rule leaves alone."""
    groups: dict[tuple[Hold, str], list[str]] = defaultdict(list)
    for left in held:
        groups[left.why, left.detail].append(left.pod)
    for (why, detail), pods in sorted(groups.items(), key=lambda g: _ORDER[g[0][0]]):
        one = len(pods) == 1
        yield _HELD[why].format(
            n=many(len(pods)),
            stay="stays" if one else "stay",
            wait="waits" if one else "wait",
            are="is" if one else "are",
            detail=detail or "no detail is known",
            arithmetic=keeps(r.partition, r.replicas, r.kept) if r else "the partition",
            budget=budget(r) if r else "maxUnavailable is used up",
        )


def _of_old_pods(r: Rollout | None) -> Iterator[str]:
    """Yield what keeps the old pods of a workload whose controller plans no single pod."""
    old = r.total - r.updated if r is not None else 0
    if r is None or old <= 0 or not r.generation_seen:
        return
    if r.state is State.PAUSED:
        yield f"{many(old)} {'waits' if old == 1 else 'wait'} because spec.paused is true"
        return
    kept = min(old, r.kept)
    if r.state is State.HELD and not kept:
        yield r.message
    elif rest := old - kept:
        yield f"{many(rest)} {'waits' if rest == 1 else 'wait'}: {budget(r)}"
    if kept:
        stay = "stays" if kept == 1 else "stay"
        by_canary = f"canary {r.canary} updates {r.asked} of {r.replicas}"
        why = by_canary if r.canary else keeps(r.partition, r.replicas, r.kept)
        yield f"{many(kept)} {stay} on the current revision: {why}"


def budget(r: Rollout) -> str:
    """`maxUnavailable 2, of which 2 are used: 8 of 10 are available`."""
    used = max(r.replicas - r.available, 0)
    return (
        f"maxUnavailable is {r.budget}, and {used} {'is' if used == 1 else 'are'} used: "
        f"{r.available} of {r.replicas} are available"
    )


def _next(
    m: Managed,
    state: State,
    unit: RecordedUnit | None,
    shared: Sharing,
    held: Sequence[HeldPod],
    *,
    warned: bool,
    lost: bool,
) -> Iterator[str]:
    """Yield the next steps for a user, those of its PodUnavailableBudgets first."""
    moving = state in MOVING and not (m.rollout and m.rollout.failing)
    yield from (moving and _moved_by_others(m, held)) or _moves(
        m, state, unit, shared, warned=warned, lost=lost
    )
    if unit is not None and unit.correction:
        yield f"for the newest commit: {unit.correction}"


def _moved_by_nodes(lost: Sequence[str]) -> Iterator[str]:
    """Yield what pods of nodes that do not answer wait for."""
    if lost:
        these = f"node{'' if len(lost) == 1 else 's'} {listing([*map(shown, lost)], 3)}"
        yield f"{these}: Ready again, or deleted with kubectl delete node if lost for good"


def _moved_by_others(m: Managed, held: Sequence[HeldPod]) -> list[str]:
    """Return what budgets, the programs of lifecycle hooks and a deletion wait for."""
    budgets_say = "pods of PodUnavailableBudget {} become available, or it allows more"
    hooks = sorted({one.detail for one in held if one.why is Hold.HOOK})
    found = [budgets_say.format(name) for name in budgets_holding(held)]
    found += [f"what the lifecycle hook waits for: {detail}" for detail in hooks]
    if not found and m.obj.get("metadata", {}).get("deletionTimestamp"):
        found.append("the removal of the finalizers that it and its pods have; then it is gone")
    return found


def _moves(
    m: Managed,
    state: State,
    unit: RecordedUnit | None,
    shared: Sharing,
    *,
    warned: bool,
    lost: bool,
) -> Iterator[str]:
    """Yield the next steps for a user, or that none is needed."""
    if left_git(m, unit):
        yield "the end of what keeps it: then it is deleted"
    elif m.rollout is not None and m.rollout.innocent and state in MOVING:
        yield from _culprits(m.rollout, shared)
    elif state is State.STUCK or (m.failing and state in MOVING):
        yield from _repairs(m)
    elif state is State.HELD and m.rollout is not None:
        verb = "resume" if annotation(m.obj, GIT_PAUSE) else "promote"
        kept = m.rollout.kept
        yield next_move(verb, m.key, m.path) if kept else past_hold(m, m.rollout)
    elif state in {State.HELD, State.PAUSED}:
        yield _release(m, state)
    elif state is State.DRIFTED:
        yield "gitkruise drift shows what differs; drift.mode: correct puts it back"
    elif state is State.WAITING and unit is not None and (unit.waits or unit.pending):
        yield f"what unit {unit.unit} waits for"
    elif state in MOVING:
        yield from _awaited(m, warned=warned, lost=lost)


def past_hold(m: Managed, rollout: Rollout) -> str:
    """Return what moves a held rollout on, in short."""
    if rollout.kept:
        return "a commit"
    selector = ("spec", "updateStrategy", "selector")
    if m.key.group_kind == SIDECARSET and get(m.obj, *selector) is not None:
        return "a commit that changes updateStrategy.selector"
    return "deleting old pods"


def _awaited(m: Managed, *, warned: bool, lost: bool) -> Iterator[str]:
    """Yield what a rollout that moves goes on with."""
    if m.refused or (m.rollout is not None and m.rollout.refused):
        yield _REFUSED
    elif m.rollout is not None and not m.rollout.generation_seen:
        yield "its controller, when it has seen the newest spec; what keeps it from that may be in"
        yield "gitkruise doctor"
        yield f"gitkruise get events{f' -n {m.key.namespace}' if m.key.namespace else ' -A'}"
    elif warned:
        yield "a change of what the warnings name; the nodes of its pods try again by themselves"
    elif any(pod.active and unscheduled(pod) for pod in m.pods):
        yield "a node that takes its pods, or a commit that changes what they need of a node"
    elif not lost:
        yield "nothing: it goes on by itself when pods become available"


def _release(m: Managed, state: State) -> str:
    """Return what lets the rest of a held or paused rollout go on."""
    if m.rollout is not None:
        return next_move("resume", m.key, m.path)
    if state is State.PAUSED:
        return f"a commit that ends its pause{_where(m)}"
    return f"a commit that lowers its partition{_where(m)}"


def _where(m: Managed) -> str:
    return f" ({m.path})" if m.path else ""


def _repairs(m: Managed) -> Iterator[str]:
    """Yield what mends an object that is stuck for a reason of its own."""
    where = _where(m)
    if m.rollout is None:
        if m.failing:
            yield f"a commit that mends it{where}"
        yield f"kubectl describe {noun(m.key.group_kind)} {m.key.name} -n {m.key.namespace}"
        return
    if (m.refused or m.rollout.refused) and not m.rollout.failing:
        yield _REFUSED
    if left := unreplaced(m.obj, m.pods, m.rollout.update_revision):
        yield f"kubectl delete pod {left[0]} -n {m.key.namespace}: it is not replaced before"
        return
    if not m.message.startswith("AbandonedRevisionRunning"):
        yield f"a commit that mends it{where}"
    if not is_template(m.path):
        yield f"gitkruise rollback {named(m.key)}"
    ordered = get(m.obj, "spec", "podManagementPolicy", default="OrderedReady") == "OrderedReady"
    if m.key.group_kind in STATEFUL and ordered and m.rollout.failing:
        pod, _ = m.rollout.failing[0]
        yield f"then kubectl delete pod {pod} -n {m.key.namespace}: it is not replaced before"
    if get(m.obj, "spec", "updateStrategy", "type") == NOT_UPDATE:
        yield "then deleting the pods that cannot start: running pods keep their sidecars"


def _culprits(r: Rollout, shared: Sharing) -> Iterator[str]:
    """Yield what mends pods that cannot start for a container of another object."""
    failing = [o for o in shared.others if o.rollout is not None and o.rollout.failing]
    yield from (f"gitkruise why {named(o.key)}" for o in failing)
    if not failing:
        yield f"a commit that mends {r.hindered[0][1].partition(':')[0]} where it is defined"


def unit_of(units: Sequence[RecordedUnit], m: Managed) -> RecordedUnit | None:
    """The record of the unit that brought an object."""
    return next((u for u in units if u.unit == m.unit or m.key in u.objects), None)


def left_git(m: Managed, unit: RecordedUnit | None) -> bool:
    """Return whether the record of an object's unit does not name the object.

    Nothing is known of it without a record, and while the newest commit cannot be read.
    """
    if unit is None or not unit.objects_known or unit.state in {State.REJECTED, State.UNKNOWN}:
        return False
    return m.key not in unit.objects


def newest_step(
    steps: Sequence[tuple[ObjectKey, RolloutStep]], key: ObjectKey
) -> RolloutStep | None:
    """Of steps that are newest first."""
    return next((step for of, step in steps if of == key), None)
