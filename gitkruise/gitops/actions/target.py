"""Finding the object an act is about: in which unit, on which branch, in which file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionTarget
from gitkruise.gitops.preview.inputs import PlanSide, read_side
from gitkruise.model.gitops.change import Desired
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.rollout_kinds import BEARERS
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.selectors import label_selector

_LABELS: Final = ("spec", "template", "metadata", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """An object as the user names it; what is "" may be anything."""

    kind: GroupKind
    name: str
    namespace: str = ""
    unit: str = ""

    def fits(self, d: Desired) -> bool:
        here = self.namespace in {"", d.key.namespace} or not d.key.namespace
        return d.key.group_kind == self.kind and d.key.name == self.name and here


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A branch that units follow, at its tip: what they have there."""

    branch: str
    config: Config  # its units alone
    side: PlanSide


def units_by_branch(config: Config, default: str) -> dict[str, Config]:
    """The units of each branch; `default` is what a source without a ref follows.

    Units that follow a tag, a range or a commit are left out: a commit alone does not move them.
    """
    found: dict[str, dict[str, Unit]] = {}
    for name, unit in config.units.items():
        ref = config.source_of(unit).spec.ref
        if not (ref.commit or ref.name or ref.semver or ref.tag):
            found.setdefault(ref.branch or default, {})[name] = unit
    return {
        branch: Config(config.sources, units, config.sinks, config.receivers)
        for branch, units in found.items()
    }


def read_stand(
    repository: Repository, branch: str, tip: str, config: Config, rules: tuple[Catalog, Gates]
) -> Stand:
    """Return the objects of the units of a branch at its tip; a missing folder has no objects.

    Raises SourceFailed.
    """
    here = {
        name: unit
        for name, unit in config.units.items()
        if repository.find(tip, unit.spec.path) is not None
    }
    config = Config(config.sources, here, config.sinks, config.receivers)
    side = read_side(repository, tip, config, *rules)
    return Stand(branch=branch, config=config, side=side)


def find_aim(stands: Sequence[Stand], sought: Sought) -> tuple[Stand, ActionTarget]:
    """The one object that is meant. Raises UsageProblem GK7040 when it is none, or several."""
    found = list(_fitting(stands, sought))
    if len(found) == 1:
        return found[0]
    raise _none(stands, sought) if not found else _several(sought, found)


def _fitting(stands: Iterable[Stand], sought: Sought) -> Iterator[tuple[Stand, ActionTarget]]:
    for stand in stands:
        for d in stand.side.objects:
            unit = stand.side.units[d.key]
            if sought.fits(d) and sought.unit in {"", unit.id, unit.name}:
                pods = _pods(d, stand.side.objects)
                yield (
                    stand,
                    ActionTarget(desired=d, unit=unit, commit=stand.side.commit.id, pods=pods),
                )


def _pods(d: Desired, objects: Iterable[Desired]) -> int:
    """A CloneSet's own; for a SidecarSet those of the workloads in git that it selects."""
    if d.key.group_kind != SIDECARSET:
        return _replicas(d)
    selector = label_selector(get(d.obj, "spec", "selector", default={}))
    space = get(d.obj, "spec", "namespace", default="")
    return sum(
        _replicas(other)
        for other in objects
        if other.key.group_kind in BEARERS
        and space in {"", other.key.namespace}
        and selector.matches(get(other.obj, *_LABELS, default={}))
    )


def _replicas(d: Desired) -> int:
    return int(get(d.obj, "spec", "replicas", default=1))


def _none(stands: Sequence[Stand], sought: Sought) -> UsageProblem:
    there = sorted(
        {
            f"{d.key.namespace}/{d.key.name}"
            for stand in stands
            for d in stand.side.objects
            if d.key.group_kind == sought.kind
        }
    )
    near = get_close_matches(f"{sought.namespace}/{sought.name}", there, 3)
    where = f" in namespace {sought.namespace}" if sought.namespace else ""
    where += f" in unit {sought.unit}" if sought.unit else ""
    tips = ", ".join(f"{stand.branch} ({stand.side.commit.short})" for stand in stands)
    notes = [("looked at", tips or "no branch: the units follow tags or commits")]
    notes += [("there are", ", ".join(near or there[:8]) or "none")]
    notes += [("broken", str(f)) for stand in stands for f in stand.side.findings[:1]]
    message = f"git has no {sought.kind.kind} {sought.name}{where}"
    return UsageProblem(Finding(code="GK7040", message=message, notes=tuple(notes)))


def _several(sought: Sought, found: Sequence[tuple[Stand, ActionTarget]]) -> UsageProblem:
    rows = [f"{aim.key.namespace}/{aim.key.name} of unit {aim.unit.id}" for _, aim in found]
    notes = (("there are", ", ".join(rows)), ("next", "say which with -n NAMESPACE or --unit UNIT"))
    message = f"several objects are called {sought.name}"
    return UsageProblem(Finding(code="GK7040", message=message, notes=notes))
