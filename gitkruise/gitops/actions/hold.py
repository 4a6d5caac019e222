"""Holds of a promotion in git: commits of `gitkruise hold` and `gitkruise resume`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitkruise.git.plumbing.commits import ACTION, OBJECT, squashed_trailers
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.kustomized import KustomizedFolder
from gitkruise.gitops.actions.rollback import commit_of_partition, paths_of
from gitkruise.model.gitops.document import GitCommit
from gitkruise.wire.primitives.names import ObjectKey

FILE = "Gitkruise-File"
HOLD = "hold"


def action_of(repository: Repository, commit: str, key: ObjectKey | None) -> str:
    """Return the newest action on an object (None: on any) that a commit names, or ""."""
    return _action(repository, commit, key).get(ACTION, "")


def _action(repository: Repository, commit: str, key: ObjectKey | None) -> Mapping[str, str]:
    """Return the trailers of that action; none without one."""
    found = squashed_trailers(repository.message(commit))
    matching = (
        one for one in found if ACTION in one and (key is None or one.get(OBJECT) == str(key))
    )
    return next(matching, {})


def same_action(
    repository: Repository, commit: str, key: ObjectKey, verb: str, files: Iterable[str]
) -> bool:
    """Return whether a commit is this action on this object in `files`: objects of several clusters
    may have the same name. Blocking."""
    trailers = _action(repository, commit, key)
    same = trailers.get(ACTION) == verb
    return same and _concerns(repository, repository.commit(commit), files, trailers)


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
    set_by, files = commit_of_partition(repository, commit, key, file, folder)
    if set_by is None:
        return None
    paths = {*paths_of(repository, commit, file, folder), *files}  # it may have been moved
    for each in (*repository.commits_between(set_by.id, commit), set_by):
        trailers = _action(repository, each.id, key)
        if trailers and _concerns(repository, each, paths, trailers):
            return each if trailers[ACTION] == HOLD else None
    return None


def _concerns(
    repository: Repository, commit: GitCommit, paths: Iterable[str], trailers: Mapping[str, str]
) -> bool:
    """Return whether the commit of an action changes one of `paths`, or says that the action, which
    changes no file, is about one of them; an earlier version did not say so."""
    if not commit.parents:
        return True
    parent = commit.parents[0]
    changes = repository.tree_id(parent) != repository.tree_id(commit.id)
    named = trailers.get(FILE)
    if named is None:
        return not changes or any(
            repository.changed_paths(parent, commit.id, path) for path in paths
        )
    return any(named == path or named.startswith(f"{path}/") for path in paths)
