"""Facts that one round of a unit is planned from, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gitkruise.errors import Finding
from gitkruise.model.gitops.change import FieldChange, ObjectChange
from gitkruise.model.gitops.document import Desired, DesiredSet, FieldPath
from gitkruise.wire.primitives.names import Obj, ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """One live object that a sync round looks at, with the verdict of planner.health on it."""

    obj: Obj
    ready: bool  # current, or held exactly as asked
    failed: bool = False
    why: str = ""
    managed: bytes = b""  # metadata.managedFields as JSON, as far as it is known
    rewritten: tuple[FieldChange, ...] = ()  # marks that others set; `obj` has ours


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRules:
    """The unit's prune block; percentages are of the inventory."""

    enabled: bool = True
    max_delete: int = 10
    max_delete_percent: int = 20
    allow_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """Drift that does not count: of objects of `kind` and `name`, in fields at or below one of
    `paths`, owned by `manager`. What is left empty holds for all."""

    kind: str = ""
    name: str = ""
    paths: tuple[tuple[str, ...], ...] = ()
    manager: str = ""


@dataclass(frozen=True, slots=True)
class Fight:
    """A field that is changed each time it is put back; left alone until `until`."""

    corrections: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The unit whose mark a live object has, as far as its git is known.

    `wants`: its validated commit contains the object. `unsettled` is the reason why another commit
    may still do so ("which is suspended"), and `next` what ends that; "" when git has said it all.
    `reads`: it is about to judge a commit that may release the object.
    """

    unit: str
    wants: bool = False
    unsettled: str = ""
    next: str = ""
    reads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSnapshot:
    """Everything one sync round may look at.

    `live` holds objects with the unit's label and those git names. `inventory` is known to be
    complete only when `inventory_complete`; before that nothing is pruned. `settled` are
    differences the server keeps after our own apply (its normal form); they are no drift.
    """

    desired: DesiredSet
    unit_label: str
    live: Mapping[ObjectKey, Live]
    inventory: frozenset[ObjectKey]
    inventory_complete: bool
    prune: PruneRules
    correct_drift: bool
    settled: Mapping[ObjectKey, frozenset[FieldPath]] = field(default_factory=dict)
    refused: Mapping[ObjectKey, str] = field(default_factory=dict)  # digest the server refused
    hooked: bool = False  # all hooks ran for this content before: no hook is due
    autoscaled: frozenset[ObjectKey] = frozenset()  # another manager sets `replicas`
    replacing: frozenset[ObjectKey] = frozenset()  # cannot change; to be deleted and created again
    present: frozenset[ObjectKey] = frozenset()  # of another unit, created only if missing
    causes: frozenset[ObjectKey] = frozenset()  # because of these the server refused others
    prune_held: str = ""  # why what git asks for is not known well enough to delete anything
    prune_soon: bool = False  # that ends in a moment, by itself
    approved: frozenset[str] = frozenset()  # hashes of deletions a person agreed to
    agreed: frozenset[str] = frozenset()  # uids whose deletion was decided on before
    # Why objects that left git stay: the annotation that they had there when they left.
    spared: Mapping[ObjectKey, str] = field(default_factory=dict)
    ignore: tuple[IgnoreRule, ...] = ()
    # corrected lately
    resting: Mapping[ObjectKey, frozenset[FieldPath]] = field(default_factory=dict)
    fought: Mapping[ObjectKey, Mapping[FieldPath, Fight]] = field(default_factory=dict)
    claimed: frozenset[ObjectKey] = frozenset()  # another unit's git wants these too
    owners: Mapping[ObjectKey, Owner] = field(default_factory=dict)  # with others' marks, if known
    released: frozenset[ObjectKey] = frozenset()  # other units may take these over already
    newer: bool = False  # a newer commit is not live: it waits, was rejected or cannot be read
    held: frozenset[ObjectKey] = frozenset()  # a person asked that they be left alone for a time
    # Perhaps live, each with the reason why that cannot be seen: left alone, and never ready.
    unknown: Mapping[ObjectKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingObject:
    """An object, and what it waits for. One that is `sent` is as git says, and not well yet."""

    key: ObjectKey
    why: str
    sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """Actions of one sync round: objects to apply, objects to prune, and why the rest waits.

    `drift` is all of it: `healing` is corrected now, `standing` is left unchanged for good.
    `asks` are hashes of deletions that wait for a person's approval; `waits` is what a unit waits
    for that is well apart from these. `soon` names objects that left git, and why it is not known
    for a moment what becomes of them.
    """

    apply: tuple[Desired, ...] = ()
    replace: tuple[ObjectKey, ...] = ()  # deleted now, and applied when they are gone
    prune: tuple[ObjectKey, ...] = ()
    waiting: tuple[WaitingObject, ...] = ()
    drift: tuple[ObjectChange, ...] = ()
    healing: tuple[ObjectChange, ...] = ()
    standing: tuple[ObjectChange, ...] = ()
    blocked: tuple[Finding, ...] = ()
    withheld: Mapping[ObjectKey, str] = field(default_factory=dict)  # of others, with the reason
    asks: frozenset[str] = frozenset()
    waits: str = ""
    soon: str = ""

    @property
    def quiet(self) -> bool:
        return not (self.apply or self.replace or self.prune)

    @property
    def pending(self) -> bool:
        """Return whether git asks for changes that are not made yet, corrections of drift aside."""
        drifted = {change.key for change in self.drift}
        fresh = any(d.key not in drifted for d in self.apply)
        unsent = any(not one.sent for one in self.waiting)
        return fresh or unsent or bool(self.replace or self.prune)

    @property
    def all_done(self) -> bool:
        """Return whether every object of the plan is applied and healthy."""
        return not (self.apply or self.replace or self.waiting or self.withheld)

    @property
    def all_sent(self) -> bool:
        """Return whether every object of the plan is applied, healthy or not."""
        due = self.apply or self.replace or self.withheld
        return not due and all(one.sent for one in self.waiting)
