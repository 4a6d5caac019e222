"""Sources of one repository, followed for the units that read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gitkruise.errors import Finding
from gitkruise.git.repo import Repository
from gitkruise.gitops.makeup import source_of
from gitkruise.gitops.memory import Memory
from gitkruise.gitops.polling import Polling
from gitkruise.gitops.source import SourceFollower, Terms
from gitkruise.gitops.sources import Renewal
from gitkruise.gitops.spreading import Spread
from gitkruise.gitops.sync import UnitSync
from gitkruise.gitops.trust import Trusted
from gitkruise.kube.clock import Clock
from gitkruise.model.config import GitSource


@dataclass(frozen=True, slots=True)
class Followers:
    """Those of one repository, which is looked at once for all of them."""

    by_source: Mapping[str, SourceFollower]
    polling: Polling


@dataclass(frozen=True, slots=True)
class Habits:
    """How sources are followed: what is remembered where, and who hears that one moved."""

    state_dir: Path
    cluster: str
    clock: Clock
    renewal: Renewal
    moved: Callable[[str], None]


def follow(
    sources: Mapping[str, GitSource],
    opened: Mapping[str, tuple[Repository, Trusted]],
    units: Mapping[str, UnitSync],
    habits: Habits,
) -> Followers:
    """Followers for `sources` of one repository, whose commits go to those of `units` that read
    from them."""
    followers = {}
    for name, source in sources.items():
        memory = Memory(habits.state_dir, source, habits.cluster)
        renew = partial(habits.renewal.signers, name, source)
        terms = Terms(opened[name][1], memory=memory, renew=renew)
        mine = [unit for unit in units.values() if source_of(unit.unit) == name]
        followers[name] = _follower((name, source), opened[name][0], mine, terms, habits.moved)
    first, source = next(iter(sources.items()))
    renew = partial(habits.renewal.credentials, first, source)
    polling = Polling(opened[first][0], list(followers.values()), habits.clock, renew)
    return Followers(followers, polling)


def _follower(
    named: tuple[str, GitSource],
    repository: Repository,
    mine: list[UnitSync],
    terms: Terms,
    moved: Callable[[str], None],
) -> SourceFollower:
    name, source = named
    spread = Spread(mine)

    def on_commit(commit: str) -> None:
        spread.offer(commit)
        moved(name)

    def on_problem(problem: Finding | None) -> None:
        for unit in mine:
            unit.source_problem(problem)
        moved(name)

    return SourceFollower(
        source,
        repository,
        on_commit=on_commit,
        on_problem=on_problem,
        live=lambda: [commit for unit in mine if (commit := unit.live_commit)],
        terms=replace(terms, paths=tuple(unit.unit.spec.path for unit in mine), sift=spread.sift),
    )
