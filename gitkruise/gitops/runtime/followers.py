"""Sources of one repository, followed for the units that read from them; fan-out of commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gitkruise.errors import ApiError, ClusterFailed, Crashed, Finding, SourceFailed
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import BuiltCommit
from gitkruise.gitops.build.untrusted import BuiltUnit, Workers
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.source.accepted_commits import Memory
from gitkruise.gitops.source.accepted_rewrites import AcceptedRewrites
from gitkruise.gitops.source.follower import FollowPolicy, SourceFollower
from gitkruise.gitops.source.poller import Polling, Resolve
from gitkruise.gitops.source.repositories import Renewal, unknown_live
from gitkruise.gitops.source.verification import Trusted
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import GitSource
from gitkruise.model.gitops.document import GitCommit


@dataclass(frozen=True, slots=True)
class Followers:
    """The followers of one repository, which is polled once for all of them."""

    by_source: Mapping[str, SourceFollower]
    polling: Polling


@dataclass(frozen=True, slots=True)
class FollowerDeps:
    """Dependencies of followers: state directory, clock, and callbacks for moved sources."""

    state_dir: Path
    cluster: str
    clock: Clock
    renewal: Renewal
    moved: Callable[[str], None]
    authority: WriteAuthority
    workers: Workers
    containment: Containment = UNREPORTED
    rewrites: AcceptedRewrites | None = None
    offering: Callable[[str, str], None] = lambda *_: None  # a source, and its new commit


def follow(
    sources: Mapping[str, GitSource],
    opened: Mapping[str, tuple[Repository, Trusted]],
    units: Mapping[str, UnitReconciler],
    deps: FollowerDeps,
) -> Followers:
    """Followers for `sources` of one repository, whose commits go to those of `units` that read
    from them."""
    followers = {}
    for name, source in sources.items():
        memory = Memory(deps.state_dir, source, deps.cluster)
        # `units` is the supervisor's, which goes on to add units while followers wait.
        mine = [unit for unit in units.values() if source_of(unit.unit) == name]
        renew = partial(_renew, deps.renewal, name, source, mine)
        policy = FollowPolicy(
            opened[name][1], memory=memory, rewrites=deps.rewrites, renew=renew,
            containment=deps.containment,
        )  # fmt: skip
        followers[name] = _follower(name, source, opened[name][0], mine, policy, deps)
    first, source = next(iter(sources.items()))
    polling = Polling(
        opened[first][0], list(followers.values()), deps.clock,
        partial(deps.renewal.credentials, first, source),
        authority=deps.authority, containment=deps.containment,
        resolve=_resolve(opened[first][0], sources, deps),
    )  # fmt: skip
    return Followers(followers, polling)


def _resolve(
    repository: Repository, sources: Mapping[str, GitSource], deps: FollowerDeps
) -> Resolve | None:
    """Return the resolver of refs for artifacts; None for a git repository."""
    if not any(source.spec.is_artifact for source in sources.values()):
        return None
    from gitkruise.gitops.source.artifacts import ArtifactReader  # noqa: PLC0415  imports aiohttp

    reader = ArtifactReader(
        repository=repository, sources=dict(sources), renewal=deps.renewal, clock=deps.clock
    )
    return reader.resolve


async def _renew(
    renewal: Renewal, name: str, source: GitSource, units: Sequence[UnitReconciler]
) -> None:
    """Have everything that signatures are judged by. Raises SourceFailed GK3306 or GK3308."""

    async def live() -> frozenset[str]:
        return frozenset().union(*[await unit.cluster.live_commits() for unit in units])

    try:
        for unit in units:
            await unit.confirm()
    except (ApiError, ClusterFailed) as error:
        raise SourceFailed(unknown_live(name, error)) from error
    await renewal.signers(name, source)
    await renewal.live(name, live)


def _follower(
    name: str,
    source: GitSource,
    repository: Repository,
    mine: list[UnitReconciler],
    policy: FollowPolicy,
    deps: FollowerDeps,
) -> SourceFollower:
    moved, offering = deps.moved, deps.offering
    fan_out = FanOut(mine, deps.workers, policy.containment)

    def on_commit(commit: str) -> None:
        offering(name, commit)
        fan_out.offer(commit)
        moved(name)

    def on_problem(problem: Finding | None, refused: GitCommit | None) -> None:
        for unit in mine:
            unit.source_problem(problem, refused)
        moved(name)

    return SourceFollower(
        source,
        repository,
        on_commit=on_commit,
        on_problem=on_problem,
        live=lambda: [commit for unit in mine if (commit := unit.live_commit)],
        policy=replace(
            policy, paths=tuple(unit.unit.spec.path for unit in mine), prepare=fan_out.prepare
        ),
    )


class FanOut:
    """Offers commits to units. One that changes nothing for a unit costs it no round."""

    def __init__(
        self, units: Sequence[UnitReconciler], workers: Workers, containment: Containment
    ) -> None:
        self._units, self._workers, self._containment = units, workers, containment
        self._prepared: tuple[str, dict[int, tuple[BuiltCommit, BuiltCommit]]] = ("", {})

    async def prepare(self, commit: str) -> None:
        """Find the units that `commit` changes, before it is offered."""
        asked: list[tuple[int, BuiltCommit, BuiltUnit]] = []
        for number, unit in enumerate(self._units):
            was = unit.built
            if was is not None and was.desired is not None:
                asked.append((number, was, (unit.reader, was.commit.id, was.desired.tree)))
        self._prepared = (commit, {})
        if not asked or await asyncio.to_thread(self._refused, commit):
            return
        try:
            with self._containment.of("the units of a commit"):
                info, found = await self._workers.find_unchanged(
                    [stood for *_, stood in asked], commit
                )
        except (Crashed, SourceFailed):
            return  # the unit that reads it reports the error
        unchanged = {
            number: (was, replace(was, commit=info, overtaken=()))
            for (number, was, _), same in zip(asked, found, strict=True)
            if same
        }
        self._prepared = (commit, unchanged)

    def _refused(self, commit: str) -> bool:
        """Return whether the commit is not trusted; the units of a source agree on that."""
        return any(unit.reader.trusted(commit) is not None for unit in self._units)

    def offer(self, commit: str) -> None:
        """Offer the commit to every unit: immediately to those that it changes."""
        (prepared, unchanged), self._prepared = self._prepared, ("", {})
        if prepared != commit:
            unchanged = {}
        for number, unit in enumerate(self._units):
            if number not in unchanged:
                unit.offer(commit)
        for number, (was, now) in unchanged.items():
            if not self._units[number].accept_unchanged(was, now):
                self._units[number].offer(commit)
