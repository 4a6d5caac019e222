"""Where a commit arrived on the branch that is followed: people look at merges, not behind them."""

from __future__ import annotations

from typing import Final

from gitkruise.git.repo import Repository

_BACK_MAX: Final = 500  # commits of the branch itself that are looked at


def landing(repository: Repository, commit: str, tip: str) -> str:
    """The commit of the branch at `tip` that brought `commit`: itself, or the merge it came by.

    Itself, too, when the branch does not have it. Blocking. Raises SourceFailed.
    """
    chain: list[str] = []  # the branch itself, newest first
    here = tip
    while here and here != commit and len(chain) < _BACK_MAX:
        chain.append(here)
        parents = repository.commit(here).parents
        here = parents[0] if parents else ""
    if here == commit or not chain or not repository.is_ancestor(commit, chain[0]):
        return commit
    low, high = 0, len(chain)  # chain[low] has it, chain[high] has not
    while high - low > 1:
        middle = (low + high) // 2
        if repository.is_ancestor(commit, chain[middle]):
            low = middle
        else:
            high = middle
    return chain[low]
