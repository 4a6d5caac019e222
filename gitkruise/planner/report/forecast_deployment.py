"""A Deployment's rollout in words: pods replaced wave by wave, and where its canary holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.report import RolloutView, Sentence, Span, StepView, Tone
from gitkruise.model.planning.canary import ANNOTATION, CANARIES
from gitkruise.model.planning.forecast import CREATE, DELETE, ForecastStep, RolloutForecast
from gitkruise.model.planning.plan import Hold
from gitkruise.planner.report.blast_radius import moved
from gitkruise.planner.report.stops import stop_of
from gitkruise.printable import many
from gitkruise.wire.primitives.paths import get


def waves_view(
    change: ObjectChange, p: RolloutForecast, *, live: bool, assumed: bool
) -> RolloutView:
    """`p` in words. `live`: it starts from a cluster's pods. `assumed`: the base is taken for
    complete, because its state is unknown."""
    stop = stop_of(p, change.source)
    return RolloutView(
        prediction=p,
        effect=tuple(_effect(p, stop)),
        budget=_budget(p) if moved(p, created=False).rolled else "",
        steps=tuple(map(_step, p.steps, [max(p.replicas, 1)] * len(p.steps))),
        hold=stop if p.steps else (),
        notes=tuple(_notes(change, p, live=live, assumed=assumed)),
    )


def _effect(p: RolloutForecast, stop: Sentence) -> Iterator[Sentence]:
    pods = moved(p, created=False)
    if not pods.rolled:
        yield (Span("no pod is replaced" + (f"; {pods.scaled}" if pods.scaled else "")),)
        if not p.steps and stop:
            yield stop
        return
    yield Span(f"{pods.rolled} of {p.replicas} pods REPLACED", Tone.ALARM), Span(" (new IP)")
    if pods.scaled:
        yield (Span(pods.scaled),)
    if p.canary and p.partition:
        held = f"{p.partition} of {many(p.replicas)} stay as they are"
        yield (Span(f"{held}   (canary {p.canary} updates {p.replicas - p.partition})"),)


def _budget(p: RolloutForecast) -> str:
    up = max(p.replicas - p.max_unavailable, 0)
    budget = f"maxUnavailable {p.max_unavailable}, maxSurge {p.max_surge}"
    return f"{budget}; {up} of {p.replicas} pods stay up"


def _step(step: ForecastStep, total: int) -> StepView:
    moves, counts = Counter(move.how for move in step.moves), step.counts
    parts = [f"{moves[how]} {how}d" for how in (CREATE, DELETE) if moves[how]]
    words = ", ".join(parts)
    if counts is None:
        return StepView(done=0, total=total, moves=words, lasts=step.lasts)
    down = max(total - counts.available, 0)
    state = f"{counts.new} new, {counts.old} old" + (f", {down} unavailable" if down else "")
    done = min(counts.new, total)
    return StepView(done=done, total=total, moves=f"{words}: {state}", lasts=step.lasts)


def division_note(p: RolloutForecast) -> Iterator[str]:
    """Yield the pods of each subset, where a WorkloadSpread divides them."""
    if p.division is not None:
        found = p.division
        yield f"{many(found.pods)} by WorkloadSpread {found.spread}: {found.text}"


def budget_notes(p: RolloutForecast) -> Iterator[str]:
    """Yield the budgets that hold pods back, with the pods that still wait at the end."""
    for name in p.budgets:
        left = sum(why.split() == [Hold.UNAVAILABLE_BUDGET, name] for _, why in p.held)
        verb = "waits" if left == 1 else "wait"
        waits = f"; {many(left)} {verb} for it" if left else ""
        end = waits if p.hold else ", and it ends all the same"
        yield f"PodUnavailableBudget {name} holds pods of this rollout back{end}"


def _notes(change: ObjectChange, p: RolloutForecast, *, live: bool, assumed: bool) -> Iterator[str]:
    yield from division_note(p)
    yield from budget_notes(p)
    if p.canary and not live:
        qualified = get(change.after or {}, "metadata", "annotations", ANNOTATION)
        others = "reject the commit (GK2404)" if qualified else "ignore this annotation"
        yield f"pauses where gitkruise drives workloads; other clusters {others}"
    if assumed and any(get(change.before or {}, *path) for path in CANARIES):
        yield "offline, the base counts as complete; name a cluster (--sandbox, --context)"
        yield "to see the pods that its canary holds"
