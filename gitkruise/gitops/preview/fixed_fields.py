"""Fields that cannot change after creation: each change is tried on a model of its object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from gitkruise.gitops.preview.simulate import refusals_of
from gitkruise.gitops.reconcile.rejections import (
    cannot_change,
    immutable,
    pulled_already,
    replaceable,
)
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.report.blast_radius import played_ahead
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.ownership import OwnedChanges


def with_fixed_fields(
    owned: OwnedChanges,
    target: PlanSide,
    before: Mapping[ObjectKey, Obj | Desired],
    catalog: Catalog,
    gates: Gates,
    now: datetime,
) -> OwnedChanges:
    """Return the changes with those marked that the controller makes by a new object, and GK2203
    for each that it refuses; those that are played ahead have findings of their own.

    `before` are live objects, or those of the base.
    """
    due = {
        change.key: change
        for change in owned.changes
        if change.kind is ChangeKind.CONFIGURE and change.fields and change.key in before
    }
    mine = [d for d in target.objects if d.key in due and not d.hook]
    refused = [*refusals_of([(d, before[d.key]) for d in mine], catalog, gates, now)]
    for d in mine:
        there = before[d.key]
        if not isinstance(there, Desired) and (complete := pulled_already(d, there)) is not None:
            refused.append((d, complete))
    errors = {d.key: (d, error) for d, error in refused if immutable(error)}
    again = {
        key
        for key, (d, _) in errors.items()
        if (unit := target.units.get(key)) is not None and replaceable(d, unit)
    }
    refusals = [
        cannot_change(d, error, due[key].before)
        for key, (d, error) in errors.items()
        if key not in again and not played_ahead(due[key])
    ]
    return replace(
        owned,
        changes=tuple(replace(c, replaced=True) if c.key in again else c for c in owned.changes),
        findings=(*owned.findings, *refusals),
    )
