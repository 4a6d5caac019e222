"""The report of a plan that was made: commits, changes, rollouts and findings in one."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gitkruise.gitops.reconcile.pruner import prune_rules
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.planner.report.blast_radius import many
from gitkruise.planner.report.report import Heading, plan_report
from gitkruise.planner.sync.annotations import kept
from gitkruise.planner.sync.prune import limit_of
from gitkruise.wire.primitives.names import ObjectKey

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.preview import Preview
    from gitkruise.model.gitops.report import PlanReport

# Key of the fingerprints of secrets. It never leaves the process: readers cannot try out values.
_KEY: Final = secrets.token_bytes(32)


def report_of(
    preview: Preview,
    base: PlanSide | None,
    target: PlanSide,
    *,
    cluster: str = "",
    dirty: bool = False,
    key: bytes = _KEY,
) -> PlanReport:
    """Return the report of a preview from `base` to `target`; `cluster` is "" offline."""
    changes, asks = _guarded(preview.changes, base) if base else (preview.changes, ())
    heading = Heading(
        target=target.commit,
        base=base.commit if base else None,
        cluster=cluster,
        dirty=dirty,
        live=preview.live,
        asks=asks,
        staged=preview.staged,
    )
    return plan_report(
        changes,
        preview.forecast.rollouts if preview.forecast else (),
        target.objects,
        heading,
        key=key,
        findings=(*(base.warnings if base else ()), *target.findings, *preview.unplayed),
    )


def _guarded(
    changes: Sequence[ObjectChange], base: PlanSide
) -> tuple[Sequence[ObjectChange], tuple[str, ...]]:
    """(changes without deletions that no sync would do, what the guards of pruning say)."""
    gone: dict[str, list[ObjectKey]] = {}
    for c in changes:
        if c.kind is ChangeKind.PRUNE and c.key in base.units and not kept(c.before or {}):
            gone.setdefault(base.units[c.key].id, []).append(c.key)
    sizes = Counter(unit.id for unit in base.units.values())
    said, staying = [], set()
    for name, keys in sorted(gone.items()):
        rules, count = prune_rules(base.units[keys[0]]), len(keys)
        limit = limit_of(rules, sizes[name])
        never = "" if rules.enabled else "prune.enabled is off"
        if count == sizes[name] and not rules.allow_empty:
            never = never or "it would be EMPTY"
        if never:
            staying |= set(keys)
            stay = "STAYS" if count == 1 else "STAY"
            said.append(f"{many(count, 'object')} of unit {name} left git and {stay}: {never}")
        elif count > limit:
            part = f"{count} of {sizes[name]} objects of unit {name}"
            said.append(f"{part} WAIT FOR APPROVAL, limit {limit}")
    kept_ones = [replace(c, kind=ChangeKind.UNCHANGED) if c.key in staying else c for c in changes]
    return kept_ones, tuple(said)
