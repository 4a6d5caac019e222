"""Changes of refs in a local repository, told within milliseconds."""

from __future__ import annotations

from collections.abc import AsyncIterator

from gitkruise.git.repo import Repository


async def ref_changes(repository: Repository, *, poll_s: float = 1.0) -> AsyncIterator[None]:
    """One item per burst of changes; polls where watching is not possible."""
    raise NotImplementedError
    yield
