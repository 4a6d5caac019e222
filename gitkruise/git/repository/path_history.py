"""Commits that changed a folder, found for many folders in one pass over the history."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

from gitkruise.errors import HistoryMissing
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.document import GitCommit

COMMITS_MAX: Final = 2_000  # of one pass; what is further away is asked for by itself
_PASSES_KEPT: Final = 4
_ASKERS_KEPT: Final = 1_000
_FEW: Final = 4  # folders of one commit that are asked for one by one


class PathHistory:
    """Commits of one repository by the folders they changed. Blocking, for many threads.

    One `git rev-list` a folder is right for a handful of folders; a thousand units that follow
    one repository would start a thousand of them for each push.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._passes: OrderedDict[tuple[str, str], dict[str, str] | None] = OrderedDict()
        self._asked: Counter[tuple[str, str]] = Counter()

    def touching(self, old: str, new: str, folders: Sequence[str]) -> list[GitCommit]:
        """Commits after `old` that change `folders`, newest first; without `old` the newest.

        Nothing that is read of a repository is changed by no commit. A repository that was deleted
        and made again lacks `old`, and its newest commit is as new as all others.
        """
        try:
            return self._touching(old, new, folders)
        except HistoryMissing:
            if not old or self._repository.has(old):
                raise
            return self._touching("", new, folders)

    def _touching(self, old: str, new: str, folders: Sequence[str]) -> list[GitCommit]:
        if old == new or (old and not folders):
            return []
        paths = [clean_path(folder) for folder in folders]
        if all(paths):
            known = self._from_pass(old, new, paths)
            if known is not None:
                return known
        limited = paths if all(paths) else []
        return self._repository.commits_between(old, new, paths=limited, limit=100 if old else 1)

    def _from_pass(self, old: str, new: str, paths: Sequence[str]) -> list[GitCommit] | None:
        """The answer as far as one pass has it; None where git must be asked."""
        newest = self._newest(old, new)
        if newest is None:
            return None
        touched = {newest[path] for path in paths if path in newest}
        if old:
            quiet = not touched and self._same(old, new, paths)
            return [] if quiet else None
        if len(paths) > 1 or not touched:
            return None
        (commit,) = touched
        return [self._repository.commit(commit)] if self._same(commit, new, paths) else None

    def _same(self, one: str, other: str, paths: Sequence[str]) -> bool:
        """Return whether two commits have the same content at `paths`.

        A merge that discards one side's change is no change.
        """
        find = self._repository.find
        return all(find(one, path) == find(other, path) for path in paths)

    def _newest(self, old: str, new: str) -> dict[str, str] | None:
        """The newest commit after `old` that changed each file and folder; None for few askers
        and for too long a history."""
        key = (old, new)
        with self._lock:
            if key not in self._passes:
                if len(self._asked) > _ASKERS_KEPT:
                    self._asked.clear()
                self._asked[key] += 1
                if self._asked[key] <= _FEW:
                    return None
                self._passes[key] = self._pass(old, new)
                while len(self._passes) > _PASSES_KEPT:
                    self._passes.popitem(last=False)
            return self._passes[key]

    def _pass(self, old: str, new: str) -> dict[str, str] | None:
        commits = self._repository.files_touched(old, new, limit=COMMITS_MAX)
        if old and len(commits) == COMMITS_MAX:
            return None
        newest: dict[str, str] = {}
        for commit, files in commits:
            for file in files:
                for path in _upwards(file):
                    if path in newest:
                        break  # and so is all above it
                    newest[path] = commit
        return newest


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
