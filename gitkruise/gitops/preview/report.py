"""The report of a plan that was made: commits, changes, rollouts and findings in one."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gitkruise.gitops.charts.cache import kept_chart
from gitkruise.gitops.config.dependencies import suspension_details
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.preview.ownership import moves
from gitkruise.gitops.preview.rejection import folded, refusing, rejected_as_whole
from gitkruise.gitops.reconcile.pruner import prune_rules
from gitkruise.kube.system.wall_clock import wall_time
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.config import Reference, resolve_reference
from gitkruise.model.planning.forecast import STUCK
from gitkruise.planner.report.report import Heading, plan_report
from gitkruise.planner.sync.apply_order import FIRST, place_of
from gitkruise.planner.sync.hooks import JOB, LAST, POST, PRE, hook_of, over
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.planner.sync.prune import (
    TRAILER,
    Guarded,
    guard,
    prune_hash,
    rules_at_end,
    stays,
)
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.names import CONFIG_FILE, Obj, ObjectKey

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.preview import Preview
    from gitkruise.model.gitops.config import Unit
    from gitkruise.model.gitops.report import PlanReport

# Key of the fingerprints of secrets. It never leaves the process: readers cannot try out values.
SECRET_KEY: Final = secrets.token_bytes(32)
_NAMED: Final = 3  # units that reject a commit
_APPROVED: Final = {
    "always": "waits for approval of each commit",
    "risky": "waits for approval if the commit is risky",
}
_UNITS_KEPT: Final = f"{CONFIG_FILE} is deleted, and a controller that runs keeps its units"
_ASKS: Final = (
    "MAY WAIT FOR APPROVAL, OR CHANGE ITS UNIT: more is said to those who see every object"
)


def report_of(
    preview: Preview,
    base: PlanSide | None,
    target: PlanSide,
    *,
    cluster: str = "",
    dirty: bool = False,
    shown: Set[ObjectKey] | None = None,
) -> PlanReport:
    """Return the report of a preview from `base` to `target`; `cluster` is "" offline.

    With `shown` it is about those objects only: nothing in it names or counts another one, and
    what is said of units as a whole is left out.
    """
    changes, asks = _guarded(preview, base, target)
    moving = moves(preview, base, target)
    heading = Heading(
        target=target.commit,
        base=base.commit if base else None,
        cluster=cluster,
        dirty=dirty,
        live=preview.live,
        asks=(
            *asks,
            *_behind_stuck(preview, changes, base, target),
            *_moved(moving, live=preview.live),
        ),
        notes=(
            *([_UNITS_KEPT] if CONFIG_FILE in target.outside else ()),
            *preview.notes,
            *_gates(preview, changes, target, moving),
            *_charts(base, target),
            *_bases(base, target),
            *_hooks(preview, base, target),
            *_last_hooks(changes, _units(preview, base, target), target),
        ),
        staged=preview.staged,
        outside=target.outside if shown is None else (),
        unknown=preview.unknown,
    )
    rejected = _rejected(preview, base, target)
    unplayed = (rejected_as_whole(f) if f.is_error else f for f in preview.unplayed)
    findings = folded((*(base.warnings if base else ()), *target.findings, *unplayed))
    if shown is not None:
        changes, findings = [change for change in changes if change.key in shown], ()
        heading = replace(heading, asks=(_ASKS,) if heading.asks else (), notes=())
    return plan_report(
        changes,
        preview.forecast.rollouts if preview.forecast else (),
        target.objects,
        heading,
        key=SECRET_KEY,
        findings=findings,
        rejected=rejected,
    )


def _units(preview: Preview, base: PlanSide | None, target: PlanSide) -> Mapping[ObjectKey, Unit]:
    """Return the unit of each object. The one that owns it deletes what the target lacks: the
    cluster may have rejected the commit with which another one contained it."""
    everyone = {**(base.everyone if base else {}), **target.everyone}
    owned = {k: everyone[name] for k, name in preview.inventory.items() if name in everyone}
    return {**(base.units if base else {}), **owned, **target.units}


def _rejected(preview: Preview, base: PlanSide | None, target: PlanSide) -> Mapping[ObjectKey, str]:
    """Return the code of the error by each object of a unit that rejects the commit: it applies
    nothing of it."""
    units = _units(preview, base, target)
    codes = refusing(preview.unplayed, units)
    return {key: codes[unit.id] for key, unit in units.items() if unit.id in codes}


def _gates(
    preview: Preview,
    changes: Iterable[ObjectChange],
    target: PlanSide,
    moving: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Say for each unit that changes, or gets objects of others, what lets it take a commit, or
    keeps it from that."""
    stuck = _stuck(preview, target)
    moved = {c.key for c in changes if c.kind is not ChangeKind.UNCHANGED}
    takers = {new for _, new in moving}
    units = {u.id: u for key, u in target.units.items() if key in moved or u.id in takers}
    for name, unit in sorted(units.items()):
        spec = unit.spec
        if spec.suspended(wall_time()) is not None:
            how = suspension_details(unit)
            yield f"unit {name} is suspended{how}: it applies nothing meanwhile"
        if spec.windows:
            several = f"{len(spec.windows)} windows allow"
            allow = "window allows" if len(spec.windows) == 1 else several
            yield f"unit {name} takes commits as its {allow}"
        if spec.approval != "never":
            yield f"unit {name} {_approval(preview, unit, target)}"
        for other in spec.depends_on:
            before = resolve_reference(Reference(other.name, other.namespace), unit.namespace)
            why = ": the plan sees it get stuck" if before in stuck else ""
            yield f"unit {name} takes commits when unit {before} is ready{why}"


def _stuck(preview: Preview, target: PlanSide) -> Mapping[str, ObjectKey]:
    """Return the first object of each unit whose rollout, played ahead, gets stuck."""
    forecasts = preview.forecast.rollouts if preview.forecast else ()
    stuck = sorted((p.key for p in forecasts if p.hold == STUCK), reverse=True)
    return {target.units[key].id: key for key in stuck if key in target.units}


def _behind_stuck(
    preview: Preview, changes: Iterable[ObjectChange], base: PlanSide | None, target: PlanSide
) -> Iterator[str]:
    """Say what a sync does only after a rollout that, played ahead, gets stuck: later waves of its
    unit, and deletions."""
    units = _units(preview, base, target)
    moving = [c for c in changes if c.kind is not ChangeKind.UNCHANGED and not c.drift]
    places = {d.key: place_of(d) for d in target.objects if not d.hook}
    for name, key in sorted(_stuck(preview, target).items()):
        mine = [c for c in moving if c.key in units and units[c.key].id == name]
        here = places.get(key, FIRST)
        late = sum(
            not stays(c) if c.kind is ChangeKind.PRUNE else places.get(c.key, here) > here
            for c in mine
        )
        if late:
            wait = "WAITS" if late == 1 else "WAIT"
            yield f"{many(late, 'change')} of unit {name} {wait}: {key} gets stuck before"


def _approval(preview: Preview, unit: Unit, target: PlanSide) -> str:
    """Return what a unit says of its approval, with the hash to give it in the same pull request
    where that is known."""
    mark, why = preview.approvals.get(unit.id, ("", ""))
    if not mark:
        return _APPROVED[unit.spec.approval]
    if mark in {*target.approved, unit.approved}:
        return f"has approval, which a commit gave: {why}"
    return f"waits for approval ({why}), which a commit gives by the trailer {TRAILER}: {mark}"


def _guarded(
    preview: Preview, base: PlanSide | None, target: PlanSide
) -> tuple[Sequence[ObjectChange], tuple[str, ...]]:
    """(changes without deletions that no sync would do, what the guards of pruning say)."""
    changes = preview.changes
    units = _units(preview, base, target)
    gone: dict[str, dict[ObjectKey, Obj]] = {}
    spared = {c.key: c.spared for c in changes if c.spared}
    for c in changes:
        if c.kind is ChangeKind.PRUNE and c.key in units and c.before is not None:
            gone.setdefault(units[c.key].id, {})[c.key] = c.before
    sentences, staying, agreed = list[str](), set[ObjectKey](), set[ObjectKey]()
    for name, objects in sorted(gone.items()):
        known = {key for key, unit in preview.inventory.items() if unit == name}
        known |= {key for key, unit in target.units.items() if unit.id == name} - preview.withheld
        unit = units[next(iter(objects))]
        if name not in target.everyone:
            stays_at_end, why = _at_its_end(unit, objects, spared)
            staying |= stays_at_end
            sentences += why
            continue
        verdict = guard(objects, prune_rules(unit), total=len(known), spared=spared)
        if verdict.never:
            staying |= objects.keys()
            new = objects.keys() - preview.left.keys()
            sentences += _left(dict.fromkeys(new, verdict.never), name)
            continue
        if preview.live and _is_approved(verdict, objects, unit, target):
            agreed |= objects.keys()
            verdict = replace(verdict, asking={}, too_many=False)
        sentences += _losses(verdict.asking, name)
        if verdict.too_many:
            part = f"{len(verdict.free)} of {len(known)} objects of unit {name}"
            sentences.append(f"{part} WAIT FOR APPROVAL, limit {verdict.limit}")
        if verdict.free and (waiting := _undecided(unit, target)):
            sentences.append(
                f"deletions of unit {name} WAIT until a commit suits {waiting} as well"
            )
    kept_ones = [
        replace(c, kind=ChangeKind.UNCHANGED)
        if c.key in staying
        else replace(c, agreed=c.key in agreed)
        for c in changes
    ]
    return kept_ones, tuple(sentences)


def _at_its_end(
    unit: Unit, objects: Mapping[ObjectKey, Obj], spared: Mapping[ObjectKey, str]
) -> tuple[frozenset[ObjectKey], Sequence[str]]:
    """Return the objects that stay of a unit that leaves the configuration, and why: no user can
    approve a deletion of it."""
    prune = unit.spec.prune
    rules = rules_at_end(prune.policy_at_end, prune.max_delete)
    verdict = guard(objects, rules, total=len(objects), spared=spared)
    if verdict.never or verdict.too_many:
        off = prune.deletion_policy == "MirrorPrune"
        why = verdict.never if off else "prune.deletionPolicy is Orphan"
        why = f"more than prune.maxDelete ({verdict.limit})" if verdict.too_many else why
        reasons = dict.fromkeys(verdict.free if verdict.too_many else objects, why)
    else:
        reasons = dict(verdict.asking)
    return frozenset(reasons), [*_left(reasons, unit.id)]


def _left(reasons: Mapping[ObjectKey, str], name: str) -> Iterator[str]:
    """Say of objects that left git why they stay."""
    for why in sorted({*reasons.values()}):
        count = sum(one == why for one in reasons.values())
        stay = "STAYS" if count == 1 else "STAY"
        yield f"{many(count, 'object')} of unit {name} left git and {stay}: {why}"


def _is_approved(
    verdict: Guarded, objects: Mapping[ObjectKey, Obj], unit: Unit, target: PlanSide
) -> bool:
    """Return whether a person approved the deletion of exactly these live objects."""
    doubtful = {key: objects[key] for key in (verdict.free if verdict.too_many else verdict.asking)}
    if not doubtful:
        return False
    mark = prune_hash(mark_of(next(iter(doubtful.values()))), doubtful)
    return mark in {*target.approved, unit.approved}


def _undecided(unit: Unit, target: PlanSide) -> str:
    """Return the units that reject the commit and might contain what leaves `unit`."""
    names = (n for n in target.rejected if source_of(target.everyone[n]) == source_of(unit))
    return listing(sorted(names), _NAMED)


def _charts(base: PlanSide | None, target: PlanSide) -> Iterator[str]:
    """Yield the chart of each unit that takes one from a repository, as it was fetched last."""
    before = base.everyone if base is not None else {}
    for name, unit in sorted(target.everyone.items()):
        new, old = kept_chart(unit), kept_chart(before[name]) if name in before else None
        if new is not None:
            moved = old is not None and (old.name, old.version) != (new.name, new.version)
            was = f"{old.version} → " if old is not None and moved else ""
            yield f"unit {name}: chart {new.name} {was}{new.version}, sha256:{new.digest[:12]}"


def _bases(base: PlanSide | None, target: PlanSide) -> Iterator[str]:
    """Yield the remote bases of each unit, with the commits that their refs name."""
    for name, found in sorted(target.bases.items()):
        before = base.bases.get(name, ()) if base is not None else ()
        for new in found:
            old = next((one for one in before if one.url == new.url), new)
            was = f"{old.named} → " if old != new else ""
            yield f"unit {name}: base {was}{new.named} of {new.url}"


def _hooks(preview: Preview, base: PlanSide | None, target: PlanSide) -> Iterator[str]:
    """Yield the hooks that run again, as they are, for the changes of their units."""
    mine = {key: unit.id for key, unit in target.units.items()}
    before = {key: unit.id for key, unit in base.units.items()} if base is not None else {}
    units = {**preview.left, **before, **mine}
    same = {c.key for c in preview.changes if c.kind is ChangeKind.UNCHANGED}
    changed = (c.key for c in preview.changes if c.key not in same and not c.drift)
    moving = {units[key] for key in changed if key in units}  # the rest has no unit of git
    moving |= _regrouped(preview.inventory, mine)
    for d in target.objects:
        due = d.hook in {PRE, POST} and d.key not in preview.withheld
        if due and d.key in same and mine.get(d.key) in moving:
            yield f"hook {d.key} runs again ({d.hook}), as for each commit that changes its unit"


def _last_hooks(
    changes: Sequence[ObjectChange], units: Mapping[ObjectKey, Unit], target: PlanSide
) -> Iterator[str]:
    """Yield the pre-delete hooks of units that leave and have objects to delete."""
    gone = {c.key: units[c.key].id for c in changes if c.before is not None and c.key in units}
    ending = {key: name for key, name in gone.items() if name not in target.everyone}
    deleting = {ending[c.key] for c in changes if c.kind is ChangeKind.PRUNE and c.key in ending}
    for c in changes:
        job = c.before if c.key.group_kind == JOB and ending.get(c.key) in deleting else None
        if job is not None and hook_of(job) == LAST and not over(job):
            end = f"before objects of unit {ending[c.key]} are deleted"
            yield f"hook {c.key} runs ({LAST}), {end}"


def _regrouped(before: Mapping[ObjectKey, str], after: Mapping[ObjectKey, str]) -> Set[str]:
    """Return the units of `after` that give or take objects, by the unit of each. One that has
    all objects of another is that one by a new name."""
    known = before.keys() & after.keys()
    old, new = (
        {unit: frozenset(k for k in known if side[k] == unit) for unit in {side[k] for k in known}}
        for side in (before, after)
    )
    kept = set(old.values())
    return {unit for unit, keys in new.items() if keys not in kept}


def _moved(moving: Mapping[tuple[str, str], int], *, live: bool) -> Iterator[str]:
    """Objects that change their unit; only the cluster knows which unit owns them now."""
    for (old, new), count in moving.items():
        goes, them = ("moves", "it") if count == 1 else ("move", "them")
        unknown = "" if live else f"; unknown without a cluster: the unit that owns {them} now"
        yield f"{many(count, 'object')} {goes} from unit {old} to unit {new}{unknown}"


def _losses(asking: Mapping[ObjectKey, str], name: str) -> Iterator[str]:
    """Deletions that wait for approval for their own sake, loss of data first."""
    reasons = sorted(set(asking.values()), key=lambda why: (why.startswith("annotation"), why))
    for reason in reasons:
        keys = [key for key, why in asking.items() if why == reason]
        wait = "WAITS" if len(keys) == 1 else "WAIT"
        yield f"{many(len(keys), 'object')} of unit {name} {wait} FOR APPROVAL: {reason}"
