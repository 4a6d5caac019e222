"""Units that reject a commit: a plan is of the others, as the cluster takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.planner.sync.prune import leaves_nothing

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.model.gitops.config import Unit
    from gitkruise.wire.primitives.names import ObjectKey

_NAMED: Final = 3  # objects that have a finding each, where it is the same


def rejected_after(filled: Set[str], after: PlanSide) -> Mapping[str, tuple[Finding, ...]]:
    """Return the errors of each unit that rejects `after`; `filled` are those with an object
    before it, which they may not lose."""
    rejected = dict(after.rejected)
    for name in sorted((filled - after.filled()) & after.everyone.keys()):
        if not after.everyone[name].spec.prune.allow_empty:
            rejected.setdefault(name, (leaves_nothing(name),))
    return rejected


def as_taken(before: PlanSide | None, after: PlanSide) -> PlanSide:
    """Return `after` as a cluster takes it: units that reject the commit, or that it would empty,
    keep what `before` has of them. Those are its `rejected`; its findings are warnings."""
    before = before or replace(after, objects=(), ignore={}, units={}, shared={})
    rejected = rejected_after(before.filled(), after)
    taking = after.everyone.keys() - rejected.keys()
    taken, kept = after.of_units(taking), before.of_units(rejected)
    units = {d.key: before.unit_among(d.key, rejected) for d in kept}
    units |= {d.key: after.unit_among(d.key, taking) for d in taken}
    return replace(
        after,
        objects=(*kept, *taken),
        findings=tuple(f for f in after.findings if not f.is_error),
        ignore={**before.ignore, **after.ignore},
        units={key: unit for key, unit in units.items() if unit is not None},
        rejected=rejected,
    )


def rejecting(before: PlanSide | None, taken: PlanSide) -> tuple[str, ...]:
    """Return the units that reject a commit for another reason than the one before it, in order."""
    known = before.rejected if before is not None else {}
    wrong = taken.rejected.items()
    return tuple(sorted(name for name, errors in wrong if errors != known.get(name, ())))


def taken_by(unit: Unit, before: PlanSide, after: PlanSide) -> PlanSide:
    """Return `after`, a commit for `unit`, `as_taken`: a unit that is broken already hinders no
    other.

    Raises InvalidManifests where the unit rejects it, or another one that does not reject `before`.
    """
    taken = as_taken(before, after)
    names = {unit.id, *rejecting(before, taken)} & taken.rejected.keys()
    if errors := [f for name in sorted(names) for f in taken.rejected[name]]:
        raise InvalidManifests(*errors)
    return taken


def taken_by_some(before: PlanSide | None, after: PlanSide) -> PlanSide:
    """Return `after` `as_taken`, with the errors of the units that begin to reject it.

    Raises InvalidManifests where each unit rejects it.
    """
    taken = as_taken(before, after)
    check_taken(after, taken.rejected)
    errors = [
        _kept(f, f"unit {name} would keep what is live; the plan is of the other units")
        for name in rejecting(before, taken)
        for f in taken.rejected[name]
    ]
    return replace(taken, findings=(*taken.findings, *errors))


def check_taken(side: PlanSide, rejected: Mapping[str, Sequence[Finding]]) -> None:
    """Raise InvalidManifests with the errors of all units where each one rejects a side."""
    if rejected and rejected.keys() == side.everyone.keys():
        nothing = "nothing was planned, and a plan applies nothing"
        raise InvalidManifests(*(_kept(f, nothing) for own in rejected.values() for f in own))


def rejected_as_whole(finding: Finding) -> Finding:
    """Return the error of an object for which its unit would reject all of a commit."""
    return _kept(finding, "the unit of this object would reject the commit and keep what is live")


def refusing(errors: Iterable[Finding], units: Mapping[ObjectKey, Unit]) -> Mapping[str, str]:
    """Return the code of the error by each unit with an object that the cluster would refuse:
    it applies nothing of the commit. `units` are by object."""
    codes = {f.object: f.code for f in errors if f.is_error}
    return {unit.id: code for key, unit in units.items() if (code := codes.get(str(key)))}


def folded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings that say the same of many objects as one, in the place of their first."""
    alike: dict[object, list[Finding]] = {}
    for f in findings:
        text = f.message.removeprefix(f"{f.object}: ")
        alike.setdefault((f.code, text, f.notes, f.severity), []).append(f)
    return tuple(f for group in alike.values() for f in _as_one(group))


def _as_one(group: Sequence[Finding]) -> Iterable[Finding]:
    first = group[0]
    if len(group) <= _NAMED or not first.object:
        return group
    text = first.message.removeprefix(f"{first.object}: ")
    words = f"{first.object} and {len(group) - 1} more objects: {text}"
    return (replace(first, message=words),)


def _kept(finding: Finding, unchanged: str) -> Finding:
    from gitkruise.gitops.build.builder import completed  # noqa: PLC0415  imports asyncio

    return completed(finding, ("unchanged", unchanged))
