"""Finding the object an act is about: in which unit, on which branch, in which file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, UsageProblem
from gitkruise.git.plumbing.commits import CommitAuthor, format_commit
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.push.status_branch import edit_tree
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionTarget
from gitkruise.gitops.actions.kustomized import Kustomized, KustomizedFolder
from gitkruise.gitops.build.builder import ReadBefore
from gitkruise.gitops.preview.inputs import PlanSide, read_side, whole_repository
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.rollout_kinds import BEARERS, ROLLING_KINDS
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, named
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.selectors import label_selector

DRY_RUN: Final = CommitAuthor(name="dry run", email="")  # of commits that are only previewed
_NAME_IT: Final = ("next", "name the cluster that has its units: --context NAME or --sandbox")
_LABELS: Final = ("spec", "template", "metadata", "labels")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectQuery:
    """An object as the user names it; what is "" may be anything."""

    kind: GroupKind
    name: str
    namespace: str = ""
    unit: str = ""

    def fits(self, d: Desired, kind: GroupKind | None = None) -> bool:
        """Return whether an object is meant; `kind` replaces the kind of the query."""
        here = self.namespace in {"", d.key.namespace} or not d.key.namespace
        return d.key.group_kind == (kind or self.kind) and d.key.name == self.name and here


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchState:
    """A branch that units follow, at its tip: what they have there, read with `catalog`.

    `before` is what was read of it, for commits on top; `absent` are units whose folder it lacks.
    """

    branch: str
    config: Config  # its units alone
    side: PlanSide
    catalog: Catalog
    before: ReadBefore = field(default_factory=ReadBefore)
    absent: tuple[Unit, ...] = ()


def read_branch(
    repository: Repository, branch: str, tip: str, config: Config, catalog: Catalog, gates: Gates
) -> BranchState:
    """Return the objects of the units of a branch at its tip; a missing folder has no objects.

    Raises SourceFailed.
    """
    here = {
        name: unit
        for name, unit in config.units.items()
        if repository.find(tip, unit.spec.path) is not None
    }
    absent = tuple(unit for name, unit in config.units.items() if name not in here)
    config = Config(config.sources, here, config.sinks, config.receivers)
    before = ReadBefore()
    side = read_side(repository, tip, config, catalog, gates, before=before)
    return BranchState(
        branch=branch, config=config, side=side, catalog=catalog, before=before, absent=absent
    )


def readers_of(
    repository: Repository, commit: str, units: Mapping[str, Unit], files: Collection[str]
) -> dict[str, Unit]:
    """Return those of `units` that read any of `files` at a commit, as bases of others too."""
    return {
        name: unit
        for name, unit in units.items()
        if any(_is_below(file, at) for at in _folders(repository, commit, unit) for file in files)
    }


def _folders(repository: Repository, commit: str, unit: Unit) -> tuple[str, ...]:
    kustomized = Kustomized.of(repository, commit, KustomizedFolder.of(unit))
    if kustomized is not None:
        with suppress(InvalidManifests):  # the unit rejects the commit
            return (unit.spec.path, *kustomized.folders(commit))
    return (unit.spec.path,)


def _is_below(file: str, folder: str) -> bool:
    folder = clean_path(folder)
    return not folder or file.startswith(f"{folder}/")


def commit_over(
    repository: Repository,
    tip: str,
    files: Mapping[str, bytes],
    message: str,
    *,
    author: CommitAuthor,
    now: datetime,
    parents: Sequence[str] = (),
) -> str:
    """Write a commit that no branch has: the tree of `tip` with other `files`. Return its id.

    Its parents are `tip` unless they are given.
    """
    tree = edit_tree(repository, repository.tree_id(tip), files, [])
    data = format_commit(tree, parents or [tip], author, now, message)
    return repository.write_object("commit", data)


def find_target(
    states: Sequence[BranchState], query: ObjectQuery
) -> tuple[BranchState, ActionTarget]:
    """The one object that is meant. Raises UsageProblem GK7040 when it is none, or several."""
    found = list(_fitting(states, query))
    if len(found) == 1:
        return found[0]
    raise _none(states, query) if not found else _several(query, found)


def check_in_git(config: Config, query: ObjectQuery) -> None:
    """Raises UsageProblem GK7077 when all units that may have the object follow artifacts."""
    meant = [unit for unit in config.units.values() if query.unit in {"", unit.id, unit.name}]
    urls = {unit.id: config.source_of(unit).spec.url for unit in meant}
    if not meant or not all(config.source_of(unit).spec.is_artifact for unit in meant):
        return
    named = ", ".join(f"{unit} ({url})" for unit, url in sorted(urls.items()))
    raise UsageProblem(
        Finding(
            code="GK7077",
            message="the units follow artifacts of a registry, which no commit changes",
            notes=(
                ("units", named),
                ("unchanged", "nothing was committed or pushed"),
                ("next", "change the files that the artifact is built from, and push it again"),
            ),
        )
    )


def objects_by_unit(side: PlanSide) -> Iterator[tuple[Unit, Desired]]:
    """Yield each object of each unit; one that several contain, once for each of them."""
    later = {key: iter(names) for key, names in side.shared.items()}  # in the order of objects
    for d in side.objects:
        name = next(later[d.key]) if d.key in later else side.units[d.key].id
        yield side.everyone[name], d


def _fitting(
    states: Iterable[BranchState], query: ObjectQuery
) -> Iterator[tuple[BranchState, ActionTarget]]:
    for state in states:
        for unit, d in objects_by_unit(state.side):
            if query.fits(d) and query.unit in {"", unit.id, unit.name}:
                pods = _pods(d, state.side.objects)
                yield (
                    state,
                    ActionTarget(desired=d, unit=unit, commit=state.side.commit.id, pods=pods),
                )


def _pods(d: Desired, objects: Iterable[Desired]) -> int:
    """A CloneSet's own; for a SidecarSet those of the workloads in git that it selects."""
    if d.key.group_kind != SIDECARSET:
        return _replicas(d)
    selector = label_selector(get(d.obj, "spec", "selector", default={}))
    namespace = get(d.obj, "spec", "namespace", default="")
    return sum(
        _replicas(other)
        for other in objects
        if other.key.group_kind in BEARERS
        and namespace in {"", other.key.namespace}
        and selector.matches(get(other.obj, *_LABELS, default={}))
    )


def _replicas(d: Desired) -> int:
    return int(get(d.obj, "spec", "replicas", default=1))


def _none(states: Sequence[BranchState], query: ObjectQuery) -> UsageProblem:
    there = sorted(
        {
            f"{d.key.namespace}/{d.key.name}"
            for state in states
            for d in state.side.objects
            if d.key.group_kind == query.kind
        }
    )
    near = get_close_matches(f"{query.namespace}/{query.name}", there, 3)
    where = f" in namespace {query.namespace}" if query.namespace else ""
    where += f" in unit {query.unit}" if query.unit else ""
    tips = ", ".join(f"{state.branch} ({state.side.commit.short})" for state in states)
    notes = [("looked at", tips or "no branch: the units follow tags or commits")]
    notes += [("there are", ", ".join(near or there[:8]) or "none")]
    others = dict.fromkeys(
        named(d.key)
        for state in states
        for d in state.side.objects
        if d.key.group_kind in ROLLING_KINDS and query.fits(d, d.key.group_kind)
    )
    notes += [("next", f"name it with its kind: {' or '.join(others)}")] if others else []
    notes += [
        ("no folder", f"{unit.spec.path} of unit {unit.id} on {state.branch}")
        for state in states
        for unit in state.absent
        if query.unit in {"", unit.id, unit.name}
    ]
    if not others and any(state.config == whole_repository() for state in states):
        notes += [("assumed", "the repository is one unit: no gitkruise.yaml has others"), _NAME_IT]
    notes += [("broken", str(f)) for state in states for f in state.side.findings[:1]]
    message = f"git has no {query.kind.kind} {query.name}{where}"
    return UsageProblem(Finding(code="GK7040", message=message, notes=tuple(notes)))


def _several(query: ObjectQuery, found: Sequence[tuple[BranchState, ActionTarget]]) -> UsageProblem:
    rows = [
        f"{target.key.namespace}/{target.key.name} of unit {target.unit.id}" for _, target in found
    ]
    notes = (("there are", ", ".join(rows)), ("next", "say which with -n NAMESPACE or --unit UNIT"))
    message = f"several objects are called {query.name}"
    return UsageProblem(Finding(code="GK7040", message=message, notes=notes))
