"""Preview of a commit: changed objects and simulated rollouts, offline or of live objects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Finding, Severity
from gitkruise.gitops.preview.changes import (
    as_sent,
    changes_between,
    rollouts_started,
    with_live,
    with_losses,
)
from gitkruise.gitops.preview.rejection import refusing
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.planning.canary_lock import unlocked
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import (
    UNIT_REF,
    annotation,
    create_only,
    lasting_hold,
    unit_label,
    untouched,
)
from gitkruise.planner.sync.autoscale import AUTOSCALERS, sized_as, target_of
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.planner.sync.takeover import applied_by_others, handed_over
from gitkruise.printable import listing
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of

if TYPE_CHECKING:
    from gitkruise.gitops.preview.cluster_facts import ClusterFacts
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.ownership import OwnedChanges
    from gitkruise.gitops.preview.simulate import Forecast
    from gitkruise.kube.client.transport import Transport
    from gitkruise.model.gitops.config import Unit

_NAMED: Final = 3
_CONFIG_MAP: Final = GroupKind("", "ConfigMap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Object changes in key order, and what they do to pods.

    `live`: pods have their real names. `staged`: offline, and what was before the base was played.
    `left` names the units of objects that an earlier commit took out of git and that are live.
    `inventory` has the unit of each object before, without those that units leave alone. A sync
    sends nothing of `withheld` objects. `approvals` has (hash, why) of what each unit asks
    approval for, where it is known.
    """

    changes: tuple[ObjectChange, ...]
    forecast: Forecast | None
    live: bool
    unplayed: tuple[Finding, ...] = field(default=())  # why some rollout could not be played
    staged: bool = False
    unknown: Mapping[ObjectKey, str] = field(default_factory=dict)  # objects, and why
    left: Mapping[ObjectKey, str] = field(default_factory=dict)
    inventory: Mapping[ObjectKey, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what git changes without an effect
    withheld: frozenset[ObjectKey] = frozenset()
    approvals: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def offline_preview(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    gates: Gates,
    *,
    earlier: Sequence[Sequence[Desired]] = (),
) -> Preview:
    """Git to git: from the base at rest, after what was `earlier`, stage by stage.

    Without that the base counts as complete: no partition of it holds anybody.
    """
    from gitkruise.gitops.preview.ownership import owned_changes  # noqa: PLC0415  as PlanSide
    from gitkruise.kube.system.wall_clock import wall_time  # noqa: PLC0415

    before = base.objects if base else ()
    target, sizes = _sized_by_autoscalers(before, target)
    owned = owned_changes(
        changes_between(before, target.objects, catalog), base, target, {}, wall_time()
    )
    if base and any(map(_may_be_refused, owned.changes)):
        from gitkruise.gitops.preview.simulate import with_fixed_fields  # noqa: PLC0415  the model

        there = {d.key: d for d in before}
        owned = with_fixed_fields(owned, target, there, catalog, gates, wall_time())
    changes, unplayed, notes = owned.changes, owned.findings, (*sizes, *owned.notes)
    applied = [d.key for d in before if not untouched(d.obj)]
    inventory = {key: base.units[key].id for key in applied if key in base.units} if base else {}
    moved = rollouts_started(changes)
    if not moved:
        return Preview(
            changes=changes, forecast=None, live=False, unplayed=unplayed, notes=notes,
            inventory=inventory, withheld=owned.withheld,
        )  # fmt: skip
    from gitkruise.gitops.preview.simulate import offline_world, play  # noqa: PLC0415  the model cluster

    world, rested = offline_world((*earlier, before), catalog, gates, wall_time(), moved=moved)
    certain = replace(target, uncertain=frozenset())  # both sides lack the same values
    played = play(world, changes, certain, catalog, rested, gates, live=False, known=unplayed)
    return Preview(
        changes=changes, forecast=played.forecast, live=False,
        unplayed=(*unplayed, *played.findings), staged=bool(earlier), unknown=played.unknown,
        notes=notes, inventory=inventory, withheld=owned.withheld,
    )  # fmt: skip


def _may_be_refused(change: ObjectChange) -> bool:
    """Return whether a change may be of a field that is fixed. ConfigMaps, the most frequent ones,
    are planned without the model, whose imports take longer than the plan."""
    before = change.before or {}
    free = change.key.group_kind == _CONFIG_MAP and not before.get("immutable")
    return change.kind is ChangeKind.CONFIGURE and not free


def _sized_by_autoscalers(
    before: Sequence[Desired], target: PlanSide
) -> tuple[PlanSide, tuple[str, ...]]:
    """(the target without sizes that an autoscaler sets, a sentence for each).

    One that this commit brings comes after the workload, and one that it deletes goes last: git
    sets the size then.
    """
    old = {d.key: d for d in before}
    scalers = [d for d in target.objects if d.key.group_kind in AUTOSCALERS and d.key in old]
    same = [d for d in scalers if target_of(d.obj) == target_of(old[d.key].obj)]
    sized = {key: d.key for d in same if (key := target_of(d.obj)) is not None}
    mine = [d for d in target.objects if d.key in sized and d.key in old]
    kept = {d.key: sized_as(d, old[d.key].obj) for d in mine}
    objects = tuple(kept.get(d.key, d) for d in target.objects)
    notes = (
        f"{d.key} keeps its size, which {sized[d.key]} sets"
        for d in mine
        if kept[d.key].obj != d.obj
    )
    return replace(target, objects=objects), tuple(notes)


async def live_preview(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    gates: Gates,
    *,
    transport: Transport,
    now: datetime,
    tried_on: str = "",
) -> Preview:
    """From what the cluster has now, drift that would be put right included. Raises ApiError.

    With `tried_on`, the cluster's name, it is asked to try every change without keeping it.
    """
    from gitkruise.gitops.preview.cluster_facts import cluster_facts  # noqa: PLC0415  not offline

    facts = await cluster_facts(base, target, catalog, transport=transport, now=now)
    base, target = await asyncio.to_thread(sent_sides, base, target, catalog, facts)
    owned = await asyncio.to_thread(live_changes, base, target, catalog, gates, facts)
    refused: tuple[Finding, ...] = ()
    if tried_on:
        from gitkruise.gitops.preview.live_diff import DryRun  # noqa: PLC0415  not offline
        from gitkruise.kube.client.discovery import served_by  # noqa: PLC0415  not offline

        served = served_by(catalog, facts.definitions)
        trial = DryRun(
            transport=transport, catalog=served, cluster=tried_on, gates=gates, live=facts.objects
        )
        ours = tuple(d for d in target.objects if d.key not in owned.withheld)
        changes, refused = await trial.try_out(owned.changes, replace(target, objects=ours))
        owned = replace(owned, changes=changes)
    new = (finding for finding in refused if finding not in facts.findings)
    checked = replace(owned, findings=(*owned.findings, *new))
    tried = bool(tried_on)
    return await asyncio.to_thread(
        live_outcome, checked, target, catalog, gates, facts, tried=tried
    )


def sent_sides(
    base: PlanSide | None, target: PlanSide, catalog: Catalog, facts: ClusterFacts
) -> tuple[PlanSide | None, PlanSide]:
    """Return both sides as a sync sends them: what git leaves to others has its live value."""
    from gitkruise.kube.client.discovery import served_by  # noqa: PLC0415  not offline

    served = served_by(catalog, facts.definitions)

    def sent(side: PlanSide) -> PlanSide:
        objects = as_sent(side.objects, facts.objects, facts.sized, served, side.ignore)
        return replace(side, objects=objects)

    return sent(base) if base is not None else None, sent(target)


def live_changes(
    base: PlanSide | None, target: PlanSide, catalog: Catalog, gates: Gates, facts: ClusterFacts
) -> OwnedChanges:
    """The changes from what the cluster has, without those that another unit's mark prevents."""
    from gitkruise.gitops.preview.ownership import owned_changes  # noqa: PLC0415  as PlanSide
    from gitkruise.gitops.preview.simulate import after_takeover  # noqa: PLC0415  the model
    from gitkruise.kube.client.discovery import served_by  # noqa: PLC0415  not offline

    served = served_by(catalog, facts.definitions)
    changes = changes_between(base.objects if base else (), target.objects, catalog)
    uncorrected = {k for k, unit in target.units.items() if unit.spec.drift.mode != "correct"}
    changes = with_live(
        changes, target.objects, facts.objects, served, target.ignore,
        uncertain=target.uncertain, uncorrected=uncorrected,
    )  # fmt: skip
    left = _deletions_left(facts)
    found = sorted((*changes, *left), key=lambda change: change.key)
    changes = tuple(replace(change, held=facts.held.get(change.key, "")) for change in found)
    taken = [(d, facts.objects[d.key]) for d in target.objects if _is_taken_over(d, facts)]
    after, wrong = after_takeover(taken, served, gates, facts.now) if taken else ({}, [])
    changes = with_losses(changes, after, served)
    owned = owned_changes(
        changes, base, target, facts.objects, facts.now,
        refused=refusing(facts.findings, target.units),
    )  # fmt: skip
    findings = (*owned.findings, *wrong, *_not_compared(target, facts))
    return replace(owned, findings=findings, notes=(*owned.notes, *_created_later(facts)))


def _created_later(facts: ClusterFacts) -> Iterator[str]:
    """Yield the sentence about objects whose old ones are being deleted."""
    if facts.ending:
        named = listing(facts.ending, _NAMED)
        yield f"created when the old one is gone, which is being deleted: {named}"


def _not_compared(target: PlanSide, facts: ClusterFacts) -> Iterator[Finding]:
    """Yield GK3412 for live objects whose values in git are not all known."""
    keys = sorted(target.uncertain & facts.objects.keys())
    if keys:
        yield Finding(
            code="GK3412",
            message=f"not compared with the cluster: {listing(keys, _NAMED)}",
            notes=(("why", "not all of their values are known here"),),
            severity=Severity.WARNING,
        )


def _deletions_left(facts: ClusterFacts) -> Iterator[ObjectChange]:
    """Yield the deletions that earlier commits ask for and that did not happen yet."""
    for key, obj in facts.left.items():
        yield ObjectChange(kind=ChangeKind.PRUNE, key=key, before=obj, after=None, pending=True)


def _is_taken_over(d: Desired, facts: ClusterFacts) -> bool:
    """Return whether the sync makes an object its own that another tool applied."""
    there = facts.objects.get(d.key)
    if there is None or d.hook or create_only(d.obj) or mark_of(there):
        return False
    return applied_by_others(there)


def live_outcome(
    owned: OwnedChanges, target: PlanSide, catalog: Catalog, gates: Gates, facts: ClusterFacts,
    *, tried: bool = False,
) -> Preview:  # fmt: skip
    """Play the rollouts that the changes start, on a copy of the live objects; `tried`: the
    cluster itself said which of them it refuses."""
    from gitkruise.gitops.preview.simulate import (  # noqa: PLC0415  the model
        live_world,
        loosened_by,
        play,
        with_fixed_fields,
        without_canary,
    )
    from gitkruise.kube.client.discovery import served_by  # noqa: PLC0415  not offline

    if not tried:
        served = served_by(catalog, facts.definitions)
        owned = with_fixed_fields(owned, target, facts.objects, served, gates, facts.now)
    taken = {d.key for d in target.objects if _is_taken_over(d, facts)}
    rollouts: Sequence[Obj] = [
        handed_over(obj) if key_of(obj) in taken else obj for obj in map(unlocked, facts.rollouts)
    ]
    objects = target.objects
    if not facts.heeds_canaries:
        rollouts = [without_canary(obj) for obj in rollouts]
        objects = tuple(replace(d, obj=without_canary(d.obj)) for d in objects)
    world = live_world(rollouts, catalog, gates)
    known = (*facts.findings, *owned.findings)
    played = play(
        world, owned.changes, replace(target, objects=objects), catalog, facts.now, gates,
        live=True, known=known,
    )  # fmt: skip
    forecast = loosened_by(played.forecast, world, target.objects, facts.delegated)
    unplayed = (*known, *(f for f in played.findings if f not in known))
    return Preview(
        changes=owned.changes, forecast=forecast, live=True,
        unplayed=unplayed, unknown=played.unknown,
        left={key: annotation(obj, UNIT_REF) for key, obj in facts.left.items()},
        inventory=facts.inventory,
        notes=owned.notes, withheld=owned.withheld,
        approvals=dict(_approvals(target, owned.changes, gates, facts)),
    )  # fmt: skip


def _approvals(
    target: PlanSide, changes: Sequence[ObjectChange], gates: Gates, facts: ClusterFacts
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield units with (hash, why) of the approval that they will ask for.

    The hash needs the content that is applied, and the label of the unit: of a unit whose values or
    keys are in the cluster, and of one without objects there, neither is known here.
    """
    from gitkruise.gitops.reconcile.approval import ApprovalRule, foreseen  # noqa: PLC0415  as PlanSide
    from gitkruise.gitops.reconcile.pruner import prune_rules  # noqa: PLC0415  as PlanSide

    replaced = {change.key for change in changes if change.replaced}
    there = {**facts.objects, **facts.left}
    held = frozenset(key for key, obj in there.items() if lasting_hold(obj, facts.now))
    units = {n: u for n, u in target.everyone.items() if u.spec.approval != "never"}
    for name in units.keys() - target.rejected.keys():
        unit = units[name]
        desired = DesiredSet(commit=target.commit, objects=target.of_units([name]))
        mine = {k: obj for k, obj in there.items() if annotation(obj, UNIT_REF) == name}
        label = next(filter(None, map(mark_of, mine.values())), "")
        label = label or (unit_label(facts.cluster, name) if facts.cluster else "")
        if not label or _differs(unit, desired, target):
            continue
        live = {d.key: there[d.key] for d in desired.objects if d.key in there} | mine
        rule, prune = ApprovalRule(unit, label, gates), prune_rules(unit)
        found = foreseen(rule, desired, live, prune, held=held, replaced=replaced)
        if found[0]:
            yield name, found


def _differs(unit: Unit, desired: DesiredSet, target: PlanSide) -> bool:
    """Return whether what a unit applies may differ from what a plan reads: by values and keys that
    are in the cluster."""
    render = unit.spec.render
    sources = render.substitute is not None and render.substitute.sources
    return bool(sources or render.decryption or target.uncertain & desired.by_key().keys())
