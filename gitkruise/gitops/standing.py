"""Which commit a unit stands on in the cluster, by the marks on its objects and by the records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from gitkruise.errors import SourceFailed
from gitkruise.git.repo import Repository
from gitkruise.kube.store import Store
from gitkruise.planner.sync.marks import COMMIT, annotation
from gitkruise.wire.names import ObjectKey

log = logging.getLogger(__name__)


async def newest_applied(
    repository: Repository, store: Store, inventory: Iterable[ObjectKey], recorded: str
) -> str:
    """The newest commit that was taken for a unit; "" when nothing tells of any.

    Records are written after the cluster is: a run that was killed in between, or in the middle
    of a commit, left objects of a commit that is newer than the `recorded` one.
    """
    marked = [annotation(seen.obj, COMMIT) for key in inventory if (seen := store.seen(key))]
    return await asyncio.to_thread(newest_of, repository, sorted({*marked} - {""}), recorded)


def newest_of(repository: Repository, marked: Iterable[str], recorded: str) -> str:
    """The newest of commits that build on each other, from `recorded` on."""
    best = recorded
    for commit in marked:
        if not best or leads_to(repository, best, commit):
            best = commit
    return best


def leads_to(repository: Repository, old: str, new: str) -> bool:
    """Whether `new` builds on `old`; a commit that is not here any more leads nowhere."""
    try:
        return repository.is_ancestor(old, new)
    except SourceFailed:
        log.info("%s does not lead to %s: one of them is not here any more", old, new)
        return False
