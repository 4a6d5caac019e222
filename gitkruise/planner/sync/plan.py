"""One sync round: what to apply now, what to delete, and why the rest waits."""

from __future__ import annotations

from itertools import groupby

from gitkruise.model.change import (
    Change,
    ChangeKind,
    Desired,
    Live,
    SyncPlan,
    SyncSnapshot,
    Waiting,
)
from gitkruise.planner.sync.differ import owned_differences
from gitkruise.planner.sync.marks import DIGEST, UNIT, annotation, untouched
from gitkruise.planner.sync.prune import choose_prunes
from gitkruise.planner.sync.stages import FOUNDATION
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.paths import get


def plan_sync(s: SyncSnapshot, catalog: Catalog) -> SyncPlan:
    """Level-triggered: the same snapshot gives the same plan, whatever happened before.

    Foundations (namespaces, CRDs) come first, then user waves, inside a wave the stages of
    their kinds. A stage starts when the one before is applied; a wave starts when every object
    of the waves before is ready, and a held rollout is ready. Deletes come last, after
    everything applied is ready.
    """
    drift = tuple(c for d in s.desired.objects if (c := _drift_of(d, s, catalog)))
    drifted = {change.key for change in drift} if s.correct_drift else set()
    stages = [list(group) for _, group in groupby(sorted(s.desired.objects, key=_order), _order)]
    for index, stage in enumerate(stages):
        waiting = _gate(stages[:index], stage, s)
        if waiting:
            return SyncPlan(waiting=(*waiting, *_behind(stages[index:])), drift=drift)
        now = tuple(d for d in stage if _outdated(d, s) or d.key in drifted)
        if now:
            return SyncPlan(apply=now, waiting=tuple(_behind(stages[index + 1 :])), drift=drift)
    unready = _unready(s.desired.objects, s)
    if unready:
        return SyncPlan(waiting=unready, drift=drift)
    prunes, blocked = choose_prunes(s)
    return SyncPlan(prune=prunes, blocked=blocked, drift=drift)


def _order(d: Desired) -> tuple[int, int, int]:
    return (0, 0, 0) if d.stage == FOUNDATION else (1, d.wave, d.stage)


def _gate(
    before: list[list[Desired]], stage: list[Desired], s: SyncSnapshot
) -> tuple[Waiting, ...]:
    """What holds this stage back: earlier waves, or foundations, that are not ready."""
    here = _order(stage[0])[:2]
    earlier = tuple(d for group in before for d in group if _order(d)[:2] < here)
    return _unready(earlier, s)


def _unready(objects: tuple[Desired, ...], s: SyncSnapshot) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(key=d.key, why=live.why if (live := s.live.get(d.key)) else "not seen yet")
        for d in objects
        if not untouched(d.obj) and not _is_ready(s.live.get(d.key))
    )


def _is_ready(live: Live | None) -> bool:
    return live is not None and live.ready


def _behind(stages: list[list[Desired]]) -> list[Waiting]:
    return [Waiting(key=d.key, why="waits for its turn") for stage in stages for d in stage]


def _outdated(d: Desired, s: SyncSnapshot) -> bool:
    """Whether git moved past what was applied; never for what the server refused unchanged."""
    if untouched(d.obj) or s.refused.get(d.key) == d.digest:
        return False
    live = s.live.get(d.key)
    if live is None:
        return True
    ours = get(live.obj, "metadata", "labels", UNIT) == s.unit_label
    return not ours or annotation(live.obj, DIGEST) != d.digest


def _drift_of(d: Desired, s: SyncSnapshot, catalog: Catalog) -> Change | None:
    live = s.live.get(d.key)
    if live is None or _outdated(d, s) or untouched(d.obj) or untouched(live.obj):
        return None
    kind = catalog.by_kind(d.key.group, d.version, d.key.kind)
    fields = tuple(
        change
        for change in owned_differences(d.obj, live.obj, kind.schema if kind else None)
        if change.path not in s.settled.get(d.key, ())
    )
    if not fields:
        return None
    return Change(
        kind=ChangeKind.CONFIGURE,
        key=d.key,
        before=live.obj,
        after=d.obj,
        fields=fields,
        source=str(d.document),
        drift=True,
    )
