"""A rollout foretold in words: what becomes of the pods, in which steps, and where it stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.report import FieldRow, RolloutView, Sentence, Span, StepView, Tone
from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.planning.forecast import DELETE, ForecastStep, RolloutForecast
from gitkruise.model.workloads.cloneset import cloneset_facts, lifecycle_of
from gitkruise.model.workloads.labels import CLONESET, DEPLOYMENT
from gitkruise.model.workloads.rollout_kinds import STATEFUL
from gitkruise.planner.report.blast_radius import moved, pods_named
from gitkruise.planner.report.forecast_deployment import budget_notes, division_note, waves_view
from gitkruise.planner.report.forecast_sidecarset import sidecars_view
from gitkruise.planner.report.stops import is_template, stop_of
from gitkruise.planner.report.summary import keeps
from gitkruise.planner.statefulset.facts import stateful_set_facts
from gitkruise.printable import many
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

_NAMES_SHOWN: Final = 6


def rollout_view(
    change: ObjectChange,
    p: RolloutForecast,
    rows: tuple[FieldRow, ...],
    *,
    live: bool,
    assumed: bool = False,
) -> RolloutView:
    """`p` in words. `live`: its pods have their real names. `assumed`: the base is taken for
    complete, because its state is unknown."""
    if p.sidecars is not None:
        return sidecars_view(p, p.sidecars, change.source, live=live)
    if p.key.group_kind == DEPLOYMENT:
        return waves_view(change, p, live=live, assumed=assumed)
    alone = p.previous == "" and not p.hold
    return RolloutView(
        prediction=p,
        effect=tuple(_effect(change, p, rows)),
        budget=_budget(change, p) if p.steps and p.previous else "",
        steps=() if alone else tuple(_steps(p, live=live)),
        # shown also of a new revision that no pod gets, and of a new object whose pods are refused
        hold=stop_of(p, change.source) if p.steps or not p.updated_before else (),
        notes=tuple(_notes(change, p, assumed=assumed)),
    )


def _effect(
    change: ObjectChange, p: RolloutForecast, rows: tuple[FieldRow, ...]
) -> Iterator[Sentence]:
    created = change.kind is ChangeKind.CREATE
    pods = moved(p, created=created)
    if created:
        yield (Span(f"{many(pods.added) if pods.added else 'no pod'} created on {p.revision}"),)
        return
    if pods.recreated:
        words = f"{pods.recreated} of {p.replicas} pods RECREATED"
        yield Span(words, Tone.ALARM), Span(" (new IP, maybe a new node)")
        culprit = next((row for row in rows if row.loud), None)
        if culprit:
            at = f" at :{culprit.line}" if culprit.line else ""
            yield (Span(f"because {_short(culprit.path)} changed{at}"),)
    if pods.in_place:
        words = f"{pods.in_place} of {p.replicas} pods updated IN PLACE"
        yield Span(words, Tone.STRONG), Span(" (IP, node and volumes stay)")
    if not (pods.recreated or pods.in_place):
        yield (Span("no pod is updated" + (f"; {pods.scaled}" if pods.scaled else "")),)
        return
    if pods.scaled:
        yield (Span(pods.scaled),)
    if p.partition and p.staying and p.previous not in {"", p.revision}:
        why = keeps(_partition(change, p.partition), p.replicas, p.partition)
        stay = ", ".join(f"{number} on {revision}" for revision, number in p.staying)
        yield (Span(f"{stay.replace(' on ', ' stay on ', 1)}   ({why})"),)


def _hooks(change: ObjectChange, p: RolloutForecast) -> Iterator[tuple[str, str]]:
    """The lifecycle hooks that pods of a rollout pass, with their handlers."""
    rules = lifecycle_of(get(change.after or {}, "spec", "lifecycle"))
    if rules is None:
        return
    pods = moved(p, created=False)
    for name, hook, number in (
        ("preDelete", rules.pre_delete, pods.recreated + pods.removed),
        ("inPlaceUpdate", rules.in_place_update, pods.in_place),
        ("preNormal", rules.pre_normal, pods.recreated + pods.added),
    ):
        if hook is not None and number:
            yield name, ", ".join(hook.handlers)


def _short(path: str, width: int = 40) -> str:
    """`path` cut in the middle: its end is the most specific."""
    head = (width - 1) // 2
    return path if len(path) <= width else f"{path[:head]}…{path[head + 1 - width :]}"


def _partition(change: ObjectChange, kept: int) -> str:
    """Return the partition of git; the number that is `kept` where git leaves it to others."""
    if change.after is None:
        return ""
    if change.key.group_kind in STATEFUL:
        return str(stateful_set_facts(change.after).partition or kept)
    text = cloneset_facts(change.after).update.partition.text
    return text if text != "0" else str(kept)


def _kept(obj: Obj, kind: GroupKind) -> str:
    """Return what may keep pods of an object on an older template; "" where nothing does."""
    if kind in STATEFUL:
        stateful = stateful_set_facts(obj)
        update, kept = stateful.update, stateful.kept
    else:
        cloneset = cloneset_facts(obj)
        update, kept = cloneset.update, resolve_amounts(cloneset).partition
    if update.on_delete:
        return "OnDelete leaves"
    if update.paused:
        return "its pause holds"
    return "its partition holds" if kept else ""


def _budget(change: ObjectChange, p: RolloutForecast) -> str:
    there = get(change.before or {}, "spec", "replicas", default=p.replicas)
    never = max(min(there, p.replicas - p.max_unavailable), 0)  # new pods are not up yet
    surges = p.key.group_kind not in STATEFUL
    budget = f"maxUnavailable {p.max_unavailable}" + f", maxSurge {p.max_surge}" * surges
    return f"{budget}; {never} of {p.replicas} pods stay up"


def _steps(p: RolloutForecast, *, live: bool) -> Iterator[StepView]:
    done, total = p.updated_before, max(p.replicas, 1)
    for step in p.steps:
        done += sum(move.how != DELETE for move in step.moves)
        names = _names(step, p, live=live)
        yield StepView(done=min(done, p.replicas), total=total, moves=names, lasts=step.lasts)


def _names(step: ForecastStep, p: RolloutForecast, *, live: bool) -> str:
    if not live:
        counts = Counter(move.how for move in step.moves)
        return ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    prefix = f"{p.key.name}-"
    return pods_named(step, lambda pod: f"-{pod.removeprefix(prefix)}", most=_NAMES_SHOWN)


def _lose_claims(change: ObjectChange, p: RolloutForecast) -> int:
    """Return how many pods of a CloneSet lose their claims: without reuse also recreated ones."""
    claims = get(change.before or {}, "spec", "volumeClaimTemplates", default=())
    if not claims or change.after is None or p.key.group_kind != CLONESET:
        return 0
    pods = moved(p, created=False)
    reuses = cloneset_facts(change.after).scale.reuse_claims
    return pods.removed + (0 if reuses else pods.recreated)


def _notes(change: ObjectChange, p: RolloutForecast, *, assumed: bool) -> Iterator[str]:
    """Notes on subsets, budgets and hooks that hold pods back, and surprising effects of
    partitions."""
    yield from division_note(p)
    yield from budget_notes(p)
    for name, handlers in _hooks(change, p):
        yield f"the plan assumes that the lifecycle hook {name} ({handlers}) lets pods go on"
    if change.kind is ChangeKind.CREATE:
        if p.partition:
            yield f"partition is ignored on creation: all {p.replicas} pods start on this revision"
        return
    if lost := _lose_claims(change, p):
        yield f"the volume claims of {many(lost)} are deleted; only retained volumes keep data"
    if any(move.of for step in p.steps for move in step.moves):
        yield "OpenKruise drives these pods: of those that rank alike it may take any"
    over = p.updated_before - (p.replicas - p.partition)
    if p.partition and over > 0 and p.updated_before and p.previous == p.revision:
        yield f"the partition stops further updates; {many(p.updated_before)} stay on"
        back = "a commit" if is_template(change.source) else "gitkruise rollback"
        yield f"{p.revision}; {back} brings them back"
    if assumed and change.before and (holder := _kept(change.before, change.key.group_kind)):
        yield "offline, the base counts as complete; name a cluster (--sandbox, --context)"
        yield f"to see the pods that {holder}"
