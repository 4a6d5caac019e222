"""Holds of a promotion in git: commits of `gitkruise hold` and `gitkruise resume`."""

from __future__ import annotations

from collections.abc import Iterable

from gitkruise.git.plumbing.commits import parse_trailers
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomized import KustomizedFolder
from gitkruise.gitops.actions.rollback import commit_of_partition
from gitkruise.model.gitops.document import GitCommit
from gitkruise.wire.primitives.names import ObjectKey

ACTION, OBJECT = "Gitkruise-Action", "Gitkruise-Object"
HOLD = "hold"


def action_of(repository: Repository, commit: str, key: ObjectKey) -> str:
    """Return the action on an object that a commit names, or ""."""
    said = dict(parse_trailers(repository.message(commit)))
    return said.get(ACTION, "") if said.get(OBJECT) == str(key) else ""


def same_action(
    repository: Repository, commit: str, key: ObjectKey, verb: str, files: Iterable[str]
) -> bool:
    """Return whether a commit is this action on this object, and changes one of `files`: objects of
    several clusters may have the same name. Blocking."""
    if action_of(repository, commit, key) != verb:
        return False
    parents = repository.commit(commit).parents
    return not parents or any(repository.changed_paths(parents[0], commit, f) for f in files)


def held_by(
    repository: Repository,
    commit: str,
    key: ObjectKey,
    file: str,
    folder: KustomizedFolder | None,
) -> GitCommit | None:
    """The `gitkruise hold` that stops a promotion at the partition the object has at `commit`.

    `folder` is that of its unit where kustomize may render it.

    The newest act on the object since it has that partition decides. Raises SourceFailed.
    """
    set_by = commit_of_partition(repository, commit, key, file, folder)
    if set_by is None:
        return None
    for each in (*repository.commits_between(set_by.id, commit), set_by):
        action = action_of(repository, each.id, key)
        if action:
            return each if action == HOLD else None
    return None
