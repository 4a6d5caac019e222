"""Holds of a promotion in git: commits of `gitkruise hold` and `gitkruise resume`."""

from __future__ import annotations

from collections.abc import Iterable

from gitkruise.git.plumbing.commits import parse_trailers
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomized import KustomizedFolder
from gitkruise.gitops.actions.rollback import commit_of_partition, paths_of
from gitkruise.model.gitops.document import GitCommit
from gitkruise.wire.primitives.names import ObjectKey

ACTION, OBJECT, FILE = "Gitkruise-Action", "Gitkruise-Object", "Gitkruise-File"
HOLD = "hold"


def action_of(repository: Repository, commit: str, key: ObjectKey | None) -> str:
    """Return the action on an object (None: on any) that a commit names, or ""."""
    said = dict(parse_trailers(repository.message(commit)))
    return said.get(ACTION, "") if key is None or said.get(OBJECT) == str(key) else ""


def same_action(
    repository: Repository, commit: str, key: ObjectKey, verb: str, files: Iterable[str]
) -> bool:
    """Return whether a commit is this action on this object in `files`: objects of several clusters
    may have the same name. Blocking."""
    same = action_of(repository, commit, key) == verb
    return same and _concerns(repository, repository.commit(commit), files)


def held_by(
    repository: Repository,
    commit: str,
    key: ObjectKey,
    file: str,
    folder: KustomizedFolder | None,
) -> GitCommit | None:
    """The `gitkruise hold` that stops a promotion at the partition the object has at `commit`.

    `folder` is that of its unit where kustomize may render it.

    The newest act on the object since it has that partition decides. An object of another cluster
    may have the same name, but not the same files. Raises SourceFailed.
    """
    set_by = commit_of_partition(repository, commit, key, file, folder)
    if set_by is None:
        return None
    paths = paths_of(repository, commit, file, folder)
    for each in (*repository.commits_between(set_by.id, commit), set_by):
        action = action_of(repository, each.id, key)
        if action and _concerns(repository, each, paths):
            return each if action == HOLD else None
    return None


def _concerns(repository: Repository, commit: GitCommit, paths: Iterable[str]) -> bool:
    """Return whether the commit of an action changes one of `paths`, or changes nothing and names
    one of them; an earlier version named none."""
    if not commit.parents:
        return True
    parent = commit.parents[0]
    if repository.tree_id(parent) != repository.tree_id(commit.id):
        return any(repository.changed_paths(parent, commit.id, path) for path in paths)
    named = dict(parse_trailers(repository.message(commit.id))).get(FILE)
    return named is None or any(named == path or named.startswith(f"{path}/") for path in paths)
