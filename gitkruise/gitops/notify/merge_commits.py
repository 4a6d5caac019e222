"""Merge commits that brought commits to the followed branch: users look at merges."""

from __future__ import annotations

from typing import Final

from gitkruise.git.repository.repository import Repository

BACK_MAX: Final = 500  # commits of the branch itself that are looked at
_KNOWN_MAX: Final = 10_000


class MergeCommits:
    """Cache of the merges of one repository. Blocking."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._tip = ""
        self._chain: list[str] = []  # the branch itself, newest first
        self._places: dict[str, int] = {}
        self._known: dict[str, str] = {}

    def merge_of(self, commit: str, tip: str) -> str:
        """Return the commit of the branch at `tip` that brought `commit`: itself, or a merge.

        Itself, too, when the branch does not have it, or had it long ago. Raises SourceFailed.
        """
        if commit in self._known:
            return self._known[commit]
        self._walk(tip)
        if commit not in self._places and not self._repository.is_ancestor(commit, tip):
            return commit  # it may come yet
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[commit] = self._find(commit)
        return self._known[commit]

    def _find(self, commit: str) -> str:
        chain, has = self._chain, self._repository.is_ancestor
        if commit in self._places or has(commit, chain[-1]):
            return commit
        low, high = 0, len(chain) - 1  # chain[low] has it, chain[high] has not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if has(commit, chain[middle]) else (low, middle)
        return chain[low]

    def _walk(self, tip: str) -> None:
        """Read the first parents of `tip`, BACK_MAX of them."""
        if tip == self._tip:
            return
        chain, here = [tip], self._parent(tip)
        while here and len(chain) < BACK_MAX:
            chain.append(here)
            here = self._parent(here)
        self._tip, self._chain = tip, chain
        self._places = {name: place for place, name in enumerate(chain)}

    def _parent(self, commit: str) -> str:
        parents = self._repository.commit(commit).parents
        return parents[0] if parents else ""
