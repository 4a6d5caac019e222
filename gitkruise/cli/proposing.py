"""A branch that was pushed becomes a pull request, where its unit's Sink names a forge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, connected
from gitkruise.errors import ApiError, Finding, SourceFailed
from gitkruise.gitops.forge_settings import page_for

if TYPE_CHECKING:
    from gitkruise.gitops.telling.forge import Forge
    from gitkruise.model.config import Sink
    from gitkruise.model.telling import Pull


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A branch that is where others see it, and what its pull request is to say."""

    branch: str
    base: str
    title: str
    body: str
    same_act: Callable[[str], bool]  # whether a branch is there to do the same; blocking


def open_pull(pushed: Pushed, sink: Sink | None, choice: ClusterChoice) -> tuple[str, str]:
    """(address of the pull request, address where people open it): one of them, or neither.

    An open one for the branch is brought up to date; others that do the same give way to it.

    The token is in the Secret the Sink names, so it takes a cluster to open one. Raises
    SourceFailed GK3504 when the forge refuses; the branch stays.
    """
    forge = sink.spec.forge if sink is not None else None
    if sink is None or forge is None:
        return "", ""
    page = page_for(forge, pushed.base, pushed.branch)
    if not choice.given:
        return "", page
    return asyncio.run(_opened(pushed, sink, choice, page)).url, ""


async def _opened(pushed: Pushed, sink: Sink, choice: ClusterChoice, page: str) -> Pull:
    from gitkruise.gitops.offering import overtake  # noqa: PLC0415  imports the schemas
    from gitkruise.gitops.telling.opening import open_forge  # noqa: PLC0415  imports aiohttp

    assert sink.spec.forge is not None
    async with AsyncExitStack() as stack:
        chosen = await stack.enter_async_context(connected(choice, read_environment()))
        try:
            forge = await open_forge(
                sink.spec.forge, sink.namespace, chosen.transport, chosen.clock, stack
            )
            pull = await _brought(forge, pushed)
            await overtake(forge, pull, lambda other: pushed.same_act(other.branch))
        except ApiError as error:
            notes = (
                ("done", f"branch {pushed.branch} is pushed"),
                ("next", f"open it yourself: {page}"),
            )
            message = f"the pull request could not be opened: {error.message}"
            raise SourceFailed(Finding(code="GK3504", message=message, notes=notes)) from error
    return pull


async def _brought(forge: Forge, pushed: Pushed) -> Pull:
    """The pull request of the branch, saying what it is to say. Raises ApiError."""
    for pull in await forge.pulls_from(pushed.branch):
        if (pull.state, pull.base) == ("open", pushed.base):
            await forge.edit_pull(pull.number, pushed.title, pushed.body)
            return pull
    return await forge.open_pull(pushed.branch, pushed.base, pushed.title, pushed.body)
