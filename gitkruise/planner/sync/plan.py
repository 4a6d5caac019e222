"""One sync round: what to apply now, what to delete, and why the rest waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.sync_round import Live, SyncPlan, SyncSnapshot, WaitingObject
from gitkruise.planner.sync.annotations import opted_out
from gitkruise.planner.sync.apply_order import FIRST, place_of
from gitkruise.planner.sync.drift import (
    Memo,
    consumed_fields,
    differences,
    drift_of,
    drop_fields,
    fights,
    ignored,
    split_change,
)
from gitkruise.planner.sync.hook_runs import HookStep, failing, hooks_step, plan_mark
from gitkruise.planner.sync.hooks import FAILURE, POST, PRE
from gitkruise.planner.sync.ownership import (
    awaits_owner,
    conflict_in,
    is_applied,
    not_applied,
    withheld,
)
from gitkruise.planner.sync.prune import choose_prunes
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import ObjectKey


def find_drift(
    s: SyncSnapshot, catalog: Catalog, memo: Memo | None = None
) -> tuple[ObjectChange, ...]:
    """Return all changes by others to applied objects, in the order of git.

    `memo` is a place to remember comparisons of objects that did not change; it has no other
    effect.
    """
    memo = {} if memo is None else memo
    found = (_drift_of(d, s, catalog, memo) for d in s.desired.objects)
    return tuple(change for change in found if change is not None)


def plan_sync(
    s: SyncSnapshot,
    drift: Sequence[ObjectChange],
    catalog: Catalog,
    memo: Memo | None = None,
) -> SyncPlan:
    """Level-triggered: the same snapshot and drift give the same plan, whatever happened before.

    Foundations (namespaces, CRDs) come first, then user waves, inside a wave the stages of their
    kinds. A stage starts when the one before is applied; a wave starts when every object of the
    waves before is ready, and a held rollout is ready. Inside a wave an object that names others it
    depends on waits until they are applied and ready, and does not block others. Drift is corrected
    immediately, because its wave is past. Hooks run once for each content of git: before the waves,
    when all of them are ready, and in parallel when something fails. Deletes come last, after
    everything applied is ready. `drift` and `memo` are those of `find_drift`.
    """
    memo = {} if memo is None else memo
    plan = _healing(s, drift, catalog, memo)
    if s.causes and (first := _causes_first(s, plan, catalog, memo)) is not None:
        return first
    step = next(filter(None, _steps(s)), HookStep())
    if step:
        fresh = tuple(apply_ignores(d, s, catalog, memo) for d in step.apply)
        apply = (*plan.apply, *fresh)
        return replace(plan, apply=apply, replace=step.replace, waiting=step.waiting)
    if plan.apply or any(withheld(d.key, s) for d in s.desired.objects):
        return plan
    prunes = choose_prunes(s)
    blocked = (*plan.blocked, *prunes.findings)
    return replace(
        plan, prune=prunes.now, blocked=blocked, asks=prunes.asks, waits=prunes.waits,
        soon=prunes.soon,
    )  # fmt: skip


def _causes_first(s: SyncSnapshot, plan: SyncPlan, catalog: Catalog, memo: Memo) -> SyncPlan | None:
    """Return the plan that applies or deletes objects because of which others are rejected."""
    due = {d.key: d for d in s.desired.objects if not d.hook and outdated(d, s)}
    waiting = tuple(_behind((d for key, d in due.items() if key not in s.causes), s))
    if changed := [d for key, d in due.items() if key in s.causes]:
        fresh = (apply_ignores(d, s, catalog, memo) for d in changed)
        return replace(plan, apply=(*plan.apply, *fresh), waiting=waiting)
    if prune := tuple(key for key in choose_prunes(s).now if key in s.causes):
        return replace(plan, apply=(), healing=(), prune=prune, waiting=waiting)
    return None


def _healing(
    s: SyncSnapshot, drift: Sequence[ObjectChange], catalog: Catalog, memo: Memo
) -> SyncPlan:
    """Drift, the part of it to correct now, and warnings."""
    healing, standing, heal = [], [], []
    conflicts = {d.key: f for d in s.desired.objects if (f := conflict_in(d, s)) is not None}
    left = [d for d in s.desired.objects if d.key in conflicts or awaits_owner(d.key, s)]
    wanted = s.desired.by_key() if drift else {}
    for change in drift:
        d = wanted[change.key]
        heals = s.correct_drift and s.refused.get(d.key) != d.digest
        back, stay = split_change(change, s.resting.get(d.key, ())) if heals else (None, change)
        if back is not None:
            healing.append(back)
            live = s.live[d.key]
            found = differences(d, live, catalog, memo)
            used = consumed_fields(d, live.obj, found)
            kept = (*ignored(d, live, s, catalog, memo), *(c for c in found if c.path in used))
            heal.append(drop_fields(d, (*kept, *(stay.fields if stay else ()))))
        lasting = _fought(stay, s) if heals else stay
        if lasting is not None:
            standing.append(lasting)
    return SyncPlan(
        apply=tuple(heal),
        drift=tuple(drift),
        healing=tuple(healing),
        standing=tuple(standing),
        blocked=(*conflicts.values(), *fights(standing, s)),
        withheld={d.key: not_applied(d.key, s) for d in left if _unsent(d, s)},
    )


def _fought(stay: ObjectChange | None, s: SyncSnapshot) -> ObjectChange | None:
    """The part of a tolerated drift that another manager insists on."""
    return split_change(stay, s.fought.get(stay.key, ()))[1] if stay is not None else None


def apply_ignores(d: Desired, s: SyncSnapshot, catalog: Catalog, memo: Memo) -> Desired:
    """`d` as it is sent: fields that git leaves to others keep their live values."""
    live = s.live.get(d.key)
    return drop_fields(d, ignored(d, live, s, catalog, memo)) if live is not None else d


def _steps(s: SyncSnapshot) -> Iterator[HookStep]:
    """Waves of objects in order, and the objects still to apply in the first unfinished one."""
    order = sorted((d for d in s.desired.objects if not d.hook), key=_order)
    hooked = len(order) < len(s.desired.objects) and not s.hooked
    mark = plan_mark(s.desired) if hooked else ""
    before = hooks_step(PRE, s, mark) if mark else HookStep()
    later = (
        hooks_step(FAILURE, s, mark) if mark and failing(s.desired.objects, s, mark) else HookStep()
    )
    behind = len(order)
    for place, group in groupby(order, lambda d: _order(d)[:2]):
        if place != FIRST and before:
            break
        wave = list(group)
        behind -= len(wave)
        now, waiting = _wave(wave, s)
        fixed = {d.key for d in now if d.key in s.replacing and d.key in s.live}
        if now or waiting:
            yield HookStep(
                apply=(*later.apply, *(d for d in now if d.key not in fixed)),
                replace=(*later.replace, *sorted(fixed)),
                waiting=(*waiting, *_behind(order[len(order) - behind :], s)),
            )
    if before:
        yield replace(
            before,
            apply=(*later.apply, *before.apply),
            replace=(*later.replace, *before.replace),
            waiting=(*before.waiting, *_behind(order[len(order) - behind :], s)),
        )
    if mark:
        after = hooks_step(POST, s, mark)
        yield replace(
            after,
            apply=(*later.apply, *after.apply),
            replace=(*later.replace, *after.replace),
        )


def outdated(d: Desired, s: SyncSnapshot) -> bool:
    """Return whether git moved past the applied state. Never for objects that opted out, that
    another unit owns or also contains, or that the server rejected as they are."""
    return not withheld(d.key, s) and overtaken(d, s)


def overtaken(d: Desired, s: SyncSnapshot) -> bool:
    """Return what `outdated` does, for objects of other units as if these let them go."""
    if _left_alone(d, s.live.get(d.key), s) or s.refused.get(d.key) == d.digest:
        return False
    return d.key not in s.unknown and _unsent(d, s)


def _unsent(d: Desired, s: SyncSnapshot) -> bool:
    live = s.live.get(d.key)
    return live is None or not is_applied(d, live.obj, s.unit_label)


def _left_alone(d: Desired, live: Live | None, s: SyncSnapshot) -> bool:
    if d.key in s.present or d.key in s.held:
        return True
    return bool(opted_out(d.obj, live.obj if live is not None else None))


def _order(d: Desired) -> tuple[int, int, int]:
    return (*place_of(d), d.stage)


def _wave(
    wave: Sequence[Desired], s: SyncSnapshot
) -> tuple[Sequence[Desired], list[WaitingObject]]:
    """(objects to apply now, what the wave waits for); both are empty when it is ready."""
    stages = [list(group) for _, group in groupby(wave, lambda d: d.stage)]
    wanted = s.desired.by_key() if any(d.depends_on for d in wave) else {}
    held: list[WaitingObject] = []
    for index, stage in enumerate(stages):
        behind = [d for later in stages[index + 1 :] for d in later]
        due = [d for d in stage if outdated(d, s)]
        leaving = [d for d in due if _leaving(s.live.get(d.key))]
        hindered = {d.key: why for d in due if (why := _hindrance(d, s, wanted))}
        held += [WaitingObject(key=key, why=why) for key, why in hindered.items()]
        now = [d for d in due if d.key not in hindered and d not in leaving]
        if now:
            return now, [*held, *_behind(behind, s)]
        refused = [d for d in stage if s.refused.get(d.key) == d.digest]
        if refused or leaving:
            waiting = [WaitingObject(key=d.key, why="the cluster refused it") for d in refused]
            waiting += [WaitingObject(key=d.key, why="until the old one is gone") for d in leaving]
            return (), [*held, *waiting, *_behind(behind, s)]
    late = {waiting.key for waiting in held}
    return (), [*held, *_unready((d for d in wave if d.key not in late), s)]


def _leaving(live: Live | None) -> bool:
    """Return whether it is being deleted: a write to it now would be lost."""
    return live is not None and bool(live.obj["metadata"].get("deletionTimestamp"))


def _hindrance(d: Desired, s: SyncSnapshot, wanted: Mapping[ObjectKey, Desired]) -> str:
    """The first missing or unready dependency of `d`; "" when all are ready."""
    for key in d.depends_on:
        other, live = wanted[key], s.live.get(key)
        if _left_alone(other, live, s):
            continue
        if live is None or outdated(other, s) or not live.ready:
            why = live.why if live is not None and live.why else s.unknown.get(key, "not there yet")
            return f"waits for {key}: {why}"
    return ""


def _unready(objects: Iterable[Desired], s: SyncSnapshot) -> Iterator[WaitingObject]:
    for d in objects:
        live = s.live.get(d.key)
        if not _left_alone(d, live, s) and (live is None or not live.ready):
            why = live.why if live else s.unknown.get(d.key, "not seen yet")
            yield WaitingObject(key=d.key, why=why, sent=live is not None)


def _behind(objects: Iterable[Desired], s: SyncSnapshot) -> list[WaitingObject]:
    return [WaitingObject(key=d.key, why="waits for its turn") for d in objects if outdated(d, s)]


def _drift_of(d: Desired, s: SyncSnapshot, catalog: Catalog, memo: Memo) -> ObjectChange | None:
    live = s.live.get(d.key)
    if live is None or d.hook or d.key in s.claimed or not is_applied(d, live.obj, s.unit_label):
        return None
    if _left_alone(d, live, s):
        return None
    return drift_of(d, live, s, catalog, memo)
