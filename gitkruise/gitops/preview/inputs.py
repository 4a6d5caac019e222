"""Inputs of a preview: the commits and units that it compares, read and built."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from gitkruise.errors import (
    Finding,
    InvalidManifests,
    PathMissing,
    RendererMissing,
    Severity,
    SourceFailed,
    UsageProblem,
)
from gitkruise.git.manifests.reader import Manifests, ParseCache, read_desired
from gitkruise.git.parsing.documents import LIMITS, parse_file
from gitkruise.git.plumbing.refs import hide_password, repository_place
from gitkruise.git.plumbing.trees import TreeEntry
from gitkruise.git.repository.merge import merged
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import rendering_of
from gitkruise.gitops.build.builder import ReadBefore
from gitkruise.gitops.build.post_build import PostBuild, offline
from gitkruise.gitops.build.release import about_templates, known_values, release_of
from gitkruise.gitops.build.validate import check_documents, with_definitions
from gitkruise.gitops.charts.cache import kept_chart, wanted_of
from gitkruise.gitops.config.loader import make_config
from gitkruise.gitops.preview.rejection import rejected_after
from gitkruise.gitops.reconcile.drift_correction import ignore_rules
from gitkruise.model.gitops.config import (
    Config,
    GitSource,
    GitSourceSpec,
    Reference,
    Unit,
    UnitSpec,
)
from gitkruise.model.gitops.document import Desired, Document, GitCommit
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.model.gitops.sync_round import IgnoreRule
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.prune import leaves_nothing
from gitkruise.printable import shown
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import CONFIG_FILE, OWN_API, ObjectKey

DEFAULT_BRANCH: Final = "main"
_OURS: Final = re.compile(rb"\bgitkruise\.io/")
_MANIFESTS: Final = (".yaml", ".yml", ".json")
_LOOK_BACK: Final = 100  # commits, for the last one that was valid


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSide:
    """One of the two commits of a plan: its objects over all units.

    `ignore` holds the rules of the object's unit about drift, for objects of units that have any;
    `units` whose each object is, and `shared` the names of several; `everyone` is every unit of the
    configuration, `rejected` has the errors of those that reject the commit, and `bases` are the
    remote bases of each. `warnings` say what a plan starts from
    instead of a commit that is invalid. `followed_by` names the units whose branch leads to the
    commit, as far as that was asked. `uncertain` are the objects that were rendered without all of
    their values, which are in the cluster. `outside` are the manifests that changed in no folder of
    a unit, where a file of the commit has the units.
    """

    commit: GitCommit
    objects: tuple[Desired, ...]
    findings: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    ignore: Mapping[ObjectKey, Sequence[IgnoreRule]] = field(default_factory=dict)
    units: Mapping[ObjectKey, Unit] = field(default_factory=dict)
    shared: Mapping[ObjectKey, tuple[str, ...]] = field(default_factory=dict)
    everyone: Mapping[str, Unit] = field(default_factory=dict)
    followed_by: frozenset[str] = frozenset()
    bases: Mapping[str, tuple[BaseRecord, ...]] = field(default_factory=dict)
    uncertain: frozenset[ObjectKey] = frozenset()
    outside: tuple[str, ...] = ()
    rejected: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    approved: frozenset[str] = frozenset()  # hashes in the history of the commit, if it was asked

    def of_units(self, names: Collection[str]) -> tuple[Desired, ...]:
        """Return the objects of some units."""
        return tuple(d for d in self.objects if self.unit_among(d.key, names) is not None)

    def unit_among(self, key: ObjectKey, names: Collection[str]) -> Unit | None:
        """Return the one of some units that contains an object, None if none does."""
        return next((self.everyone[name] for name in self._containing(key) if name in names), None)

    def filled(self) -> frozenset[str]:
        """Return the units that contain an object."""
        return frozenset(name for key in self.units for name in self._containing(key))

    def _containing(self, key: ObjectKey) -> tuple[str, ...]:
        return self.shared.get(key) or (self.units[key].id,)


def whole_repository() -> Config:
    """The configuration of a repository without one: a single unit that takes everything."""
    source = GitSource("default", "repository", GitSourceSpec(url="."))
    unit = Unit("default", "repository", UnitSpec(source_ref=Reference(name="repository")))
    return Config({"default/repository": source}, {"default/repository": unit}, {})


def name_in_config(unit: Unit) -> str:
    """Return the id of a unit; "" for that of a repository without a configuration."""
    return "" if unit in whole_repository().units.values() else unit.id


def config_at(repository: Repository, commit: str) -> Config:
    """The gitkruise.yaml at the top of a commit, without its units that follow another repository;
    without one the Units among its manifests that follow this repository; without those the whole
    repository as one unit.

    Raises UsageProblem for a broken one, and for Units that are declared more than once.
    """
    return config_here(repository, commit, whole_config_at(repository, commit))


def config_here(repository: Repository, commit: str, config: Config) -> Config:
    """Return a configuration without its units that follow another repository."""
    there = units_elsewhere(repository, config)
    if there == config.units.keys():
        return config  # artifacts are built from a repository that may have their units
    units = {
        name: unit
        for name, unit in config.units.items()
        if name not in there or _is_built_here(repository, commit, config, unit)
    }
    return Config(config.sources, units, config.sinks, config.receivers)


def _is_built_here(repository: Repository, commit: str, config: Config, unit: Unit) -> bool:
    """Return whether an artifact has a folder that this repository has, too."""
    named = config.source_of(unit).spec.is_artifact and unit.spec.path not in {"", "."}
    return named and repository.find(commit, unit.spec.path) is not None


def units_elsewhere(repository: Repository, config: Config) -> frozenset[str]:
    """Return the units of a configuration whose files are not in this repository: those of
    artifacts, and those of other addresses where it has units of its own."""
    urls = {name: config.source_of(unit).spec.url for name, unit in config.units.items()}
    artifacts = {n for n, unit in config.units.items() if config.source_of(unit).spec.is_artifact}
    others = urls.keys() - artifacts
    if not artifacts and len({urls[name] for name in others}) < 2:
        return frozenset()
    from gitkruise.git.push.worktree import addresses  # noqa: PLC0415  seldom needed

    here = {repository_place(address) for address in addresses(repository.git_dir)}
    away = {name for name in others if repository_place(urls[name]) not in here}
    return frozenset(artifacts | away if away < others else artifacts)


def not_here(config: Config, unit: Unit, *, unchanged: str) -> Finding:
    """Return GK7049 for a unit of `units_elsewhere`."""
    url = shown(hide_password(config.source_of(unit).spec.url))
    following = "gitkruise status, or gitkruise drift without a cluster, show what was recorded"
    return Finding(
        code="GK7049",
        message=f"unit {unit.id} follows {url}, not this repository",
        notes=(("unchanged", unchanged), ("next", following)),
    )


def whole_config_at(repository: Repository, commit: str) -> Config:
    """`config_at` with every unit of a gitkruise.yaml."""
    entries = repository.list_tree(commit)
    found = [e for e in entries if e.path == CONFIG_FILE]
    if not found:
        return _declared_units(repository, entries) or whole_repository()
    parsed = parse_file(repository.read_blob(found[0].id), CONFIG_FILE)
    if not parsed.ok:
        raise InvalidManifests(*parsed.findings)
    folder = repository.git_dir
    return make_config(list(parsed.documents), folder.parent if folder.name == ".git" else folder)


def _declared_units(repository: Repository, entries: Sequence[TreeEntry]) -> Config | None:
    """The Units among manifests that follow this repository, as their cluster does."""

    files = [e for e in entries if e.is_file and e.path.lower().endswith(_MANIFESTS)]
    sizes = repository.sizes([e.id for e in files])
    documents: list[Document] = []
    for entry in files:
        data = repository.read_blob(entry.id) if sizes[entry.id] <= LIMITS.file_bytes else b""
        if _OURS.search(data):
            documents += (d for d in parse_file(data, entry.path).documents if _is_ours(d.obj))
    if not documents:
        return None
    from gitkruise.git.push.worktree import addresses  # noqa: PLC0415  seldom needed
    from gitkruise.gitops.config.cluster_units import units_among  # noqa: PLC0415  as above

    return units_among(documents, addresses(repository.git_dir))


def _is_ours(obj: object) -> bool:
    return isinstance(obj, Mapping) and obj.get("apiVersion") == OWN_API


def units_by_branch(config: Config, default: str) -> dict[str, Config]:
    """The units of each branch; `default` is what a source without a ref follows.

    Units that follow a tag, a range, a commit or an artifact of a registry are left out: a commit
    alone does not move them.
    """
    found: dict[str, dict[str, Unit]] = {}
    for name, unit in config.units.items():
        spec = config.source_of(unit).spec
        ref = spec.ref
        if ref.is_branch and not spec.is_artifact:
            found.setdefault(ref.branch or default, {})[name] = unit
    return {
        branch: Config(config.sources, units, config.sinks, config.receivers)
        for branch, units in found.items()
    }


def default_range(repository: Repository, config: Config, head: str) -> tuple[str, str]:
    """(from, to) of a plan without arguments: a followed branch, and `head` merged into it.

    The first branch that lacks `head` counts, `main` before those that the units of `config` follow
    besides. Where each contains it already it is the last commit against its parent. Raises
    SourceFailed GK3212 when git cannot merge them.
    """
    branch, tip = followed_branch(repository, config, head)
    return tip, merged(repository, tip, head) if branch else head


def followed_branch(repository: Repository, config: Config, head: str) -> tuple[str, str]:
    """(name, tip) of the first followed branch that lacks `head`, `main` before others.

    ("", the parent of `head` or "") where each contains it already.
    """
    for branch in sorted(units_by_branch(config, DEFAULT_BRANCH), key=DEFAULT_BRANCH.__ne__):
        for followed in _tips(repository, branch):
            if not repository.is_ancestor(head, followed):
                return branch, followed
    parents = repository.commit(head).parents
    return "", parents[0] if parents else ""


def followers(repository: Repository, config: Config, commit: str) -> frozenset[str]:
    """Return the units whose branch leads to a commit wherever it is known here."""
    found: set[str] = set()
    for branch, followed in units_by_branch(config, DEFAULT_BRANCH).items():
        tips = [*_tips(repository, branch)]
        if tips and all(repository.is_ancestor(tip, commit) for tip in tips):
            found |= followed.units.keys()
    return frozenset(found)


def _tips(repository: Repository, branch: str) -> Iterator[str]:
    """Yield the commits of a branch: that of this repository, then those of its remotes."""
    fetched = repository.refs(f"refs/remotes/**/{branch}")
    fetched.sort(key=lambda ref: ref != f"refs/remotes/origin/{branch}")
    yield from filter(None, (_known(repository, ref) for ref in (branch, *fetched)))


def _known(repository: Repository, ref: str) -> str:
    try:
        return repository.resolve(ref)
    except SourceFailed:
        return ""


def read_side(
    repository: Repository, commit: str, config: Config, catalog: Catalog, gates: Gates,
    *, before: ReadBefore | None = None,
) -> PlanSide:  # fmt: skip
    """Every unit's objects at a commit, with what is wrong with them. Raises SourceFailed."""
    read = [*read_units(repository, commit, config, catalog, gates, before=before)]
    return side_of(repository.commit(commit), config, read)


def changed_outside(
    repository: Repository, old: str, new: str, units: Iterable[Unit]
) -> tuple[str, ...]:
    """Return the manifests that differ between two commits and are in no folder of `units`.

    Where the newer commit has no file with the units each of them is known: only that file counts.
    """
    if repository.find(new, CONFIG_FILE) is None:
        return (CONFIG_FILE,) if repository.find(old, CONFIG_FILE) is not None else ()
    folders = {unit.spec.path.strip("/") for unit in units}
    if folders & {"", "."}:
        return ()
    inside = tuple(f"{folder.removeprefix('./')}/" for folder in folders)
    return tuple(
        path
        for path in repository.changed_paths(old, new)
        if path.lower().endswith(_MANIFESTS) and not path.startswith((*inside, CONFIG_FILE))
    )


def read_base(
    repository: Repository,
    commit: str,
    config: Config | None,
    target: Config,
    catalog: Catalog,
    gates: Gates,
    *,
    before: ReadBefore | None = None,
) -> PlanSide:
    """The side that a plan starts from: `commit` with its own configuration, or with `config`.

    Where it has none, or a broken one, that of the `target` counts. Raises SourceFailed.
    """
    skipped: tuple[Finding, ...] = ()
    try:
        config = config or config_at(repository, commit)
    except (InvalidManifests, UsageProblem) as error:
        config = target
        short = repository.commit(commit).short
        message = f"the configuration at {short} is broken: the plan uses that of the target"
        skipped = (_passed_over(message, error.findings[0]),)
    if config == whole_repository():  # no unit followed it: none gives up or hands over an object
        config = target
    before = before or ReadBefore()
    side = read_side(repository, commit, config, catalog, gates, before=before)
    side = base_of(repository, side, config, catalog, gates, before=before)
    return replace(side, warnings=(*skipped, *side.warnings))


def base_of(
    repository: Repository, side: PlanSide, config: Config, catalog: Catalog, gates: Gates,
    *, before: ReadBefore | None = None,
) -> PlanSide:  # fmt: skip
    """Return `side` as a cluster that follows it has it, with a warning for each difference.

    A unit at which the commit is invalid, or that it empties, rejects it: the unit's last valid
    commit stays live.
    """
    empty = side.everyone.keys() - side.filled()
    if not (side.rejected or any(not side.everyone[n].spec.prune.allow_empty for n in empty)):
        return side
    read = [*live_units(repository, side.commit.id, config, catalog, gates, before=before)]
    rejected = rejected_after({name for name, objects, *_ in read if objects}, side)
    # What a unit has that rejects the commit it keeps from others: the last word is its own.
    read.sort(key=lambda one: one[0] in rejected)
    return replace(base_side(side.commit, config, read), rejected=rejected)


def live_units(
    repository: Repository, commit: str, config: Config, catalog: Catalog, gates: Gates,
    *, before: ReadBefore | None = None,
) -> Iterator[UnitRead]:  # fmt: skip
    """(name, objects, warnings, remote bases) of each unit as a cluster that follows the commit has
    it."""
    here, before = repository.commit(commit), before or ReadBefore()
    read = read_units(repository, commit, config, catalog, gates, before=before)
    for name, objects, wrong, bases in read:
        unit = config.units[name]
        errors = _errors(wrong)
        if not errors and (objects or unit.spec.prune.allow_empty):
            yield name, objects, (), bases
            continue
        alone = Config(config.sources, {name: unit}, {})
        valid = _last_valid(repository, here, alone, catalog, gates, before=before)
        if not (errors or valid):
            yield name, objects, (), bases  # it never had an object
            continue
        errors = errors or [leaves_nothing(name)]
        start = f"{valid.commit.short}, the last valid one" if valid else "nothing"
        unknown = wanted_of(unit) is not None and kept_chart(unit) is None
        verb = "has a chart that was not fetched at" if unknown else "rejects"
        message = f"unit {unit.id} {verb} {here.short}: the plan starts from {start}"
        last = (valid.objects, valid.bases[unit.id]) if valid else ((), ())
        yield name, last[0], (_passed_over(message, errors[0]),), last[1]


def base_side(commit: GitCommit, config: Config, read: Iterable[UnitRead]) -> PlanSide:
    """Return what `live_units` read as the side that a plan starts from."""
    side = side_of(commit, config, read)
    return replace(side, findings=(), warnings=side.findings)


def _last_valid(
    repository: Repository, commit: GitCommit, config: Config, catalog: Catalog, gates: Gates,
    *, before: ReadBefore,
) -> PlanSide | None:  # fmt: skip
    """The newest first parent that the one unit of `config` takes."""
    (unit,) = config.units.values()
    for _ in range(_LOOK_BACK):
        if not commit.parents:
            return None
        commit = repository.commit(commit.parents[0])
        if repository.find(commit.id, unit.spec.path) is not None:
            side = read_side(repository, commit.id, config, catalog, gates, before=before)
            filled = side.objects or unit.spec.prune.allow_empty
            if filled and not _errors(side.findings):
                return side
    return None


def _errors(findings: Iterable[Finding]) -> list[Finding]:
    return [f for f in findings if f.is_error]


def _passed_over(message: str, error: Finding) -> Finding:
    """GK2108 with the error that makes a plan start from another commit."""
    why = ("why", f"{error.code}: {error.message}")
    return Finding(
        code="GK2108",
        message=message,
        places=error.places[:1],
        notes=(why,),
        severity=Severity.WARNING,
    )


UnitRead: TypeAlias = tuple[str, Sequence[Desired], Sequence[Finding], tuple[BaseRecord, ...]]


def read_units(
    repository: Repository, commit: str, config: Config, catalog: Catalog, gates: Gates,
    *, before: ReadBefore | None = None,
) -> Iterator[UnitRead]:  # fmt: skip
    """(name, objects, findings, remote bases) of each unit at a commit. Raises SourceFailed."""
    before = before or ReadBefore()
    found = {
        name: _manifests(repository, commit, config, unit, catalog, before.files)
        for name, unit in config.units.items()
    }
    readable = (one for one in found.values() if isinstance(one, Manifests))
    known = with_definitions(catalog, (d for one in readable for d in one.documents))
    for name, manifests in found.items():
        unit = config.units[name]
        if not isinstance(manifests, Manifests):
            yield name, (), manifests, ()
            continue
        namespace = unit.spec.target.namespace or unit.namespace
        memo = before.checked.setdefault((name, namespace), {})
        objects, wrong = check_documents(
            manifests.documents, known, namespace=namespace, gates=gates, memo=memo
        )
        yield name, objects, about_templates(unit, (*manifests.findings, *wrong)), manifests.bases


def side_of(commit: GitCommit, config: Config, read: Iterable[UnitRead]) -> PlanSide:
    """Return everything that was read of all units as one side of a plan."""
    objects: list[Desired] = []
    findings: list[Finding] = []
    ignore: dict[ObjectKey, Sequence[IgnoreRule]] = {}
    units: dict[ObjectKey, Unit] = {}
    wanting: dict[ObjectKey, tuple[str, ...]] = {}
    bases: dict[str, tuple[BaseRecord, ...]] = {}
    rejected: dict[str, tuple[Finding, ...]] = {}
    uncertain: set[ObjectKey] = set()
    for name, got, wrong, based in read:
        unit = config.units[name]
        bases[unit.id] = based
        for d in got:
            wanting[d.key] = (*wanting.get(d.key, ()), unit.id)
        objects += got
        findings += wrong
        if errors := _errors(wrong):
            rejected[unit.id] = tuple(errors)
        units |= dict.fromkeys((d.key for d in got), unit)
        whole = unit.spec.render.kind == "helm" and bool(known_values(unit)[1])
        uncertain.update(d.key for d in got if whole or d.document.unread)
        if rules := ignore_rules(unit.spec.drift):
            ignore |= dict.fromkeys((d.key for d in got), rules)
    return PlanSide(
        commit=commit,
        objects=tuple(objects),
        findings=tuple(findings),
        ignore=ignore,
        units=units,
        shared={key: names for key, names in wanting.items() if len(names) > 1},
        everyone={unit.id: unit for unit in config.units.values()},
        bases=bases,
        uncertain=frozenset(uncertain),
        rejected=rejected,
    )


def _manifests(
    repository: Repository,
    commit: str,
    config: Config,
    unit: Unit,
    catalog: Catalog,
    cache: ParseCache,
) -> Manifests | Sequence[Finding]:
    """Return what a unit has at a commit, not checked yet, or why it cannot be read."""
    try:
        given = offline(unit)
        rendering = rendering_of(unit, release_of(unit, catalog, given.release))
        lines = config.source_of(unit).spec.ignored
        manifests = read_desired(
            repository, commit, unit.spec.path, rendering=rendering, ignore=lines, cache=cache
        )
        return PostBuild(repository, unit).finish(manifests, given)
    except (InvalidManifests, PathMissing, RendererMissing) as error:
        return error.findings
