"""The live commit of a unit, from the annotations of its objects and from records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.repository.repository import Repository
from gitkruise.kube.cache.store import InformerCache
from gitkruise.model.gitops.change import MISSING
from gitkruise.model.gitops.sync_round import Live
from gitkruise.planner.sync.annotations import COMMIT, annotation
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import ObjectKey

log = logging.getLogger(__name__)


async def newest_applied(
    repository: Repository, store: InformerCache, inventory: Iterable[ObjectKey], recorded: str
) -> str:
    """Return the newest commit that was applied for a unit; "" if there is no trace of one.

    Records are written after the cluster: a run that was killed in between, or in the middle of a
    commit, left objects of a commit that is newer than the `recorded` one.
    """
    marked = [annotation(seen.obj, COMMIT) for key in inventory if (seen := store.seen(key))]
    return await asyncio.to_thread(newest_of, repository, sorted({*marked} - {""}), recorded)


def newest_of(repository: Repository, marked: Iterable[str], recorded: str) -> str:
    """Return the newest of commits that build on each other, starting with `recorded`."""
    best = recorded
    for commit in marked:
        if not best or leads_to(repository, best, commit):
            best = commit
    return best


def newer_than(repository: Repository, marked: Iterable[str], commit: str) -> str:
    """Return one of the `marked` commits that builds on `commit`; "" when there is none.
    Blocking."""
    found = (one for one in sorted(marked) if one != commit and leads_to(repository, commit, one))
    return next(found, "")


def commit_of(live: Live) -> str:
    """Return the commit that a live object carries, which may be that of another process; ""
    without one."""
    for change in live.rewritten:
        if change.path[-1] == COMMIT:
            return "" if change.before is MISSING else str(change.before)
    return annotation(live.obj, COMMIT)


def overtaken(unit: str, commit: str, newer: str) -> Finding:
    """Return GK3211: the cluster holds a newer commit than the one to apply."""
    return Finding(
        code="GK3211",
        message=f"unit {unit}: {commit[:7]} is older than {newer[:7]}, which is live",
        notes=(
            ("why", "an older commit is applied only where the source leads to it now"),
            ("unchanged", f"objects of {newer[:7]} stay as they are"),
            ("next", "push a commit that can be taken, or lead the source to the older one"),
        ),
    )


def leads_to(repository: Repository, old: str, new: str) -> bool:
    """Return whether `new` builds on `old`; False if one of them is no longer in the repository."""
    try:
        return repository.is_ancestor(old, new)
    except SourceFailed:
        log.info(log_line("ancestry-unknown", old=old, new=new))
        return False
