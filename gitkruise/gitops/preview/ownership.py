"""Ownership in a plan: objects that the controller would leave to another unit, or as they are.

The decision is that of planner.sync.ownership, for the time when every unit has read the planned
commit. Live objects name their unit in an annotation, so that a plan needs no cluster name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Finding, Severity
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.preview.rejection import refusing
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.sync_round import Owner
from gitkruise.planner.sync.annotations import (
    UNIT_REF,
    annotation,
    lasting_hold,
    opted_out,
    untouched,
)
from gitkruise.planner.sync.ownership import Ownership, conflict, mark_of, ownership
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import Obj, ObjectKey

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.preview import Preview
    from gitkruise.model.gitops.config import Unit

_NOBODY: Final = "-"  # the mark of no live object
_NAMED: Final = 3  # objects that are left as they are, by one reason


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedChanges:
    """The changes that a sync would carry out, and one GK2402 for each object that it leaves to
    others.

    `notes` name what git changes in objects that opted out of changes; `withheld` are both.
    """

    changes: tuple[ObjectChange, ...]
    findings: tuple[Finding, ...] = ()
    withheld: frozenset[ObjectKey] = frozenset()
    notes: tuple[str, ...] = ()


def owned_changes(
    changes: Sequence[ObjectChange],
    base: PlanSide | None,
    target: PlanSide,
    live: Mapping[ObjectKey, Obj],
    now: datetime,
    *,
    refused: Collection[str] = (),
) -> OwnedChanges:
    """Return `changes` without those of objects that another unit owns, that opted out of changes,
    or of a unit that rejects the target: that one may not have taken its last valid commit either.

    `live` is empty offline: then only what two units of the target contain is known. `refused` are
    units of which the cluster refuses an object: they hand nothing over.
    """
    units = {**(base.everyone if base else {}), **target.everyone}
    bad = {*target.rejected, *refused}
    found: dict[ObjectKey, Finding] = {}
    before = {c.key: c.before for c in changes}
    for d in target.objects:
        unit, obj = target.units.get(d.key), live.get(d.key)
        if unit is None or d.key in found or unit.id in target.rejected:
            continue
        named = units.get(annotation(obj, UNIT_REF)) if obj is not None else None
        wants = named is not None and named.id in target.shared.get(d.key, ())
        owner = _owner(named, unit, now, bad, wants=wants) if named is not None else None
        own = obj is not None and annotation(obj, UNIT_REF) == unit.id
        label = mark_of(obj) if obj is not None and own else _NOBODY
        verdict = ownership(obj, label, claimed=d.key in target.shared, owner=owner)
        if verdict is not Ownership.FREE:
            finding = conflict(d, obj, verdict, label, owner, planned=True)
            missing = verdict is Ownership.SHARED and obj is None and before[d.key] is None
            finding = _first_come(finding) if missing else finding
            found[d.key] = replace(finding, severity=Severity.WARNING)
    kept = {key for key, unit in target.units.items() if unit.id in target.rejected}
    aside = _set_aside(changes, target, live, now)
    made = tuple(
        replace(c, kind=ChangeKind.UNCHANGED, fields=(), drift=False, pending=False)
        if c.key in found or c.key in kept or c.key in aside or _of_others(c, base, target, live)
        else c
        for c in changes
    )
    return OwnedChanges(
        changes=made,
        findings=tuple(found.values()),
        withheld=frozenset(found) | aside.keys(),
        notes=tuple(_left_alone(aside, base, target)),
    )


def _first_come(shared: Finding) -> Finding:
    """Return the finding on a new object of several units, of which none waits for the others."""
    created = "not created, unless one of the units applies it before another one has read it"
    notes = tuple((n, created if n == "unchanged" else text) for n, text in shared.notes)
    message = f"{shared.message}: the first one that applies it may own it"
    return replace(shared, message=message, notes=notes)


def _set_aside(
    changes: Sequence[ObjectChange], target: PlanSide, live: Mapping[ObjectKey, Obj], now: datetime
) -> Mapping[ObjectKey, str]:
    """Return why a sync leaves objects as they are. Offline an object of the base is live."""
    before = {c.key: c.before for c in changes}
    found: dict[ObjectKey, str] = {}
    for d in target.objects:
        there = live.get(d.key)
        was = before.get(d.key) if there is None else there
        if why := set_aside(d, was, there, now):
            found[d.key] = why
    return found


def set_aside(d: Desired, was: Obj | None, there: Obj | None, now: datetime) -> str:
    """Return why a sync leaves an object as it is; "" when it does not. `was` is the object before
    the sync, `there` the live one."""
    why = untouched(d.obj) if d.hook else opted_out(d.obj, was)
    return why or lasting_hold(d.obj, now) or (lasting_hold(there, now) if there else "")


def _left_alone(
    aside: Mapping[ObjectKey, str], base: PlanSide | None, target: PlanSide
) -> Iterator[str]:
    """Yield the objects that git changes although they are left as they are, by the reason."""
    before = {d.key: d.digest for d in base.objects} if base is not None else {}
    new = [d.key for d in target.objects if d.key in aside and before.get(d.key) != d.digest]
    for why in dict.fromkeys(aside[key] for key in new):
        keys = [key for key in new if aside[key] == why]
        yield f"left alone: {listing(keys, _NAMED)} ({why})"


def _owner(
    owner: Unit, unit: Unit, now: datetime, rejected: Collection[str], *, wants: bool
) -> Owner:
    """Return the owner of a live object as it is once it has read the commit that `unit` reads."""
    if source_of(owner) != source_of(unit):
        why, ends = "whose repository this plan does not read", "plan there what it contains"
    elif owner.spec.suspended(now) is not None:
        why = "which is suspended"
        ends = f"gitkruise resume unit/{owner.name} -n {owner.namespace}"
    elif owner.id in rejected:
        why, ends = "which rejects this commit", f"correct what unit {owner.id} rejects"
    else:
        why = ends = ""
    return Owner(unit=owner.id, wants=wants, unsettled=why, next=ends)


def _of_others(
    c: ObjectChange, base: PlanSide | None, target: PlanSide, live: Mapping[ObjectKey, Obj]
) -> bool:
    """Return whether a deletion is that of an object that no unit which takes the target owns (any
    more)."""
    obj = live.get(c.key)
    if c.kind is not ChangeKind.PRUNE or obj is None or base is None or c.key not in base.units:
        return False
    ours = {base.units[c.key].id, *base.shared.get(c.key, ()), *target.followed_by}
    return not mark_of(obj) or annotation(obj, UNIT_REF) not in ours - target.rejected.keys()


def moves(
    preview: Preview, base: PlanSide | None, target: PlanSide
) -> Mapping[tuple[str, str], int]:
    """Return how many objects change their unit, by (old unit, new unit).

    In a cluster its unit is the one that owns the live object. What a sync leaves as it is does not
    move, and neither does an object of a unit that applies nothing of the commit.
    """
    found: dict[tuple[str, str], int] = {}
    refused = refusing(preview.unplayed, target.units)
    for key, unit in target.units.items():
        before = preview.inventory.get(key, unit.id)
        if key in target.shared or (base and key in base.shared and not preview.live):
            continue  # of several units one keeps it: who owns it is not for git to say
        if before != unit.id and key not in preview.withheld and unit.id not in refused:
            found[before, unit.id] = found.get((before, unit.id), 0) + 1
    return dict(sorted(found.items()))
