"""The interface that all forges implement."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from gitkruise.errors import BadRequest
from gitkruise.gitops.forges.http import JsonClient
from gitkruise.model.gitops.notifications import Comment, CommitStatusItem, DeploymentItem, Pull

PAGES_MAX: Final = 50
# Where forges keep the head of a pull or merge request.
PULL_REF: Final = "refs/pull/{}/head"
MERGE_REQUEST_REF: Final = "refs/merge-requests/{}/head"
_NEXT: Final = re.compile(r""";\s*rel="?next\b""", re.IGNORECASE)  # in a Link header
_T = TypeVar("_T")
_FIELDS: Final = (KeyError, TypeError, ValueError, AttributeError)


class ForgeRepository(Protocol):
    """One repository of a forge. Every call raises ApiError for a refusal or silence."""

    async def set_status(self, item: CommitStatusItem) -> None: ...

    async def set_deployment(self, item: DeploymentItem) -> None:
        """Set the state of a deployment; create it if it is missing."""
        ...

    async def me(self) -> str:
        """The login we write as."""
        ...

    async def open_pulls(self) -> list[Pull]: ...

    async def queued(self) -> list[Pull]:
        """Return what a merge queue tries before it merges, without a number; none where a forge
        has no queue, or the token may not look."""
        ...

    async def pull(self, number: int) -> Pull: ...

    async def pulls_from(self, branch: str) -> list[Pull]:
        """Those that ask for a branch of this repository, newest first. Of a branch with an open
        one, ended ones may be left out."""
        ...

    async def open_pull(self, branch: str, base: str, title: str, body: str) -> Pull: ...

    async def edit_pull(self, number: int, title: str, body: str | None = None) -> None:
        """Set the title, and the body unless it is None."""
        ...

    async def merge(self, number: int, head: str) -> None:
        """Merge it as long as its branch is at `head`, in a way that the repository allows. A forge
        may refuse what its rules forbid."""
        ...

    async def close(self, number: int) -> None: ...

    def comments(self, number: int) -> AsyncIterator[Comment]:
        """All comments of a pull request, oldest first."""
        ...

    async def add_comment(self, number: int, body: str) -> None: ...

    async def edit_comment(self, number: int, comment: int, body: str) -> None: ...

    def ref_of(self, number: int) -> str:
        """The ref under which the forge keeps a pull request's branch."""
        ...


async def pages(
    client: JsonClient, path: str, *, size_name: str, size: int
) -> AsyncIterator[list[Any]]:
    """Every page of a list, until one is not full and names no next one; PAGES_MAX at most.

    A forge may send shorter pages than those that it was asked for: its administrator sets a limit.
    """
    joint = "&" if "?" in path else "?"
    for number in range(1, PAGES_MAX + 1):
        page, headers = await client.page(f"{path}{joint}{size_name}={size}&page={number}")
        if not isinstance(page, list):
            raise BadRequest("the forge answered something that is no list")
        yield page
        if len(page) < size and not (page and _NEXT.search(headers.get("Link", ""))):
            return


def read_one(item: Any, read: Callable[[Any], _T]) -> _T:
    """An item by `read`. Raises BadRequest when it has another shape."""
    return read_all([item], read)[0]


def read_all(items: Sequence[Any], read: Callable[[Any], _T]) -> list[_T]:
    """Each item by `read`. Raises BadRequest when one has another shape."""
    try:
        return [read(item) for item in items]
    except _FIELDS as error:
        raise BadRequest(f"the forge answered in a shape we do not know: {error!r}") from error
