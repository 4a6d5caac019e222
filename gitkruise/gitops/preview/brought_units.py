"""Units that are objects in git: a commit brings, changes or removes them, and a plan reads it as
the units do that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from gitkruise.git.plumbing.refs import repository_place
from gitkruise.gitops.config.dependency_checks import missing_for
from gitkruise.gitops.config.loader import check_document, declared
from gitkruise.gitops.preview.inputs import read_base, read_side
from gitkruise.model.gitops.config import UNIT_KIND, Config, GitSource, Unit
from gitkruise.planner.sync.annotations import kept
from gitkruise.wire.primitives.names import OWN_GROUP, GroupKind, ObjectKey

if TYPE_CHECKING:
    from gitkruise.git.repository.repository import Repository
    from gitkruise.gitops.build.builder import ReadBefore
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.model.gitops.document import Desired
    from gitkruise.model.workloads.feature_gates import Gates
    from gitkruise.wire.catalog.catalog import Catalog

DEEP: Final = 5  # units that bring units that bring units
_SOURCE: Final = GroupKind(OWN_GROUP, "GitSource")


def with_brought_units(
    repository: Repository, config: Config, catalog: Catalog, gates: Gates,
    base: PlanSide | None, target: PlanSide, *, before: ReadBefore,
) -> tuple[PlanSide | None, PlanSide]:  # fmt: skip
    """Return both sides of a plan, whose target was read by `config`, each as the units read it
    that it leaves. Raises SourceFailed."""
    if base is not None:
        commit, own = base.commit.id, msgspec.structs.replace(config, units={**base.everyone})

        def read_again(left: Config) -> PlanSide:
            return read_base(repository, commit, left, left, catalog, gates, before=before)

        base = _as_left(own, None, base, read_again)

    def read(left: Config) -> PlanSide:
        return read_side(repository, target.commit.id, left, catalog, gates, before=before)

    return base, _as_left(config, base, target, read)


def _as_left(
    config: Config, base: PlanSide | None, side: PlanSide, read: Callable[[Config], PlanSide]
) -> PlanSide:
    """Return a side, read by `config`, as `read` by the units that it leaves."""
    for _ in range(DEEP):
        if (left := config_left(config, base, side)) == config:
            break
        config, side = left, read(left)
    return side


def config_left(config: Config, base: PlanSide | None, target: PlanSide) -> Config:
    """Return `config` as the Units and GitSources among the objects of the target leave it; those
    that it has count only where the target changes them.

    A unit that rejects the target brings none and removes none; one that is suspended does so when
    it is resumed. One that follows another repository than those of `config` is not read, and
    neither is one that could not run.
    """
    digests = {d.key: d.digest for d in _ours(base)}
    known = {(UNIT_KIND, name) for name in config.units} | {(_SOURCE, n) for n in config.sources}
    brought = [
        d for d in _ours(target)
        if target.units[d.key].id not in target.rejected
        and ((d.key.group_kind, _name(d.key)) not in known
             or digests.get(d.key, d.digest) != d.digest)
    ]  # fmt: skip
    removed = [*_removed(base, target)]
    if not (brought or removed):
        return config
    sources, units = dict(config.sources), dict(config.units)
    for one in _declared(brought):
        name = f"{one.namespace}/{one.name}"
        if isinstance(one, GitSource):
            sources[name] = msgspec.structs.replace(sources.get(name, one), spec=one.spec)
        else:
            unit = units.get(name, msgspec.structs.replace(one, custom=True))
            units[name] = msgspec.structs.replace(unit, spec=one.spec)
    for name in removed:
        units.pop(name, None)
    found = msgspec.structs.replace(config, sources=sources, units=units)
    here = {_place(unit, config) for unit in config.units.values()} - {None}
    kept_ones = {n: u for n, u in units.items() if n in config.units or _place(u, found) in here}
    return msgspec.structs.replace(found, units=kept_ones)


def _ours(side: PlanSide | None) -> Iterator[Desired]:
    return (d for d in (side.objects if side else ()) if d.key.group_kind in {UNIT_KIND, _SOURCE})


def _name(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}"


def _declared(brought: Iterable[Desired]) -> Iterator[GitSource | Unit]:
    for d in brought:
        document = replace(d.document, obj=d.obj)
        if next(check_document(document), None) is None:
            one = declared(document, d.obj)
            if isinstance(one, GitSource | Unit):
                yield one


def _removed(base: PlanSide | None, target: PlanSide) -> Iterator[str]:
    """Yield the units that the base contains and the target does not."""
    if base is None:
        return
    wanted = {d.key for d in _ours(target)}
    for d in _ours(base):
        if d.key.group_kind != UNIT_KIND or d.key in wanted or kept(d.obj):
            continue
        owner = target.everyone.get(base.units[d.key].id)
        if owner is not None and owner.spec.prune.enabled and owner.id not in target.rejected:
            yield _name(d.key)


def _place(unit: Unit, config: Config) -> tuple[str, str] | None:
    """Return the repository of a unit; None for one that could not run."""
    if next(missing_for(unit, config), None) is not None:
        return None
    return repository_place(config.source_of(unit).spec.url)
