"""Pull request of a pushed branch, if the Sink of its unit names a forge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.context.cluster import ClusterChoice, connected
from gitkruise.errors import ApiError, Finding, SourceFailed
from gitkruise.gitops.config.forge_checks import page_for

if TYPE_CHECKING:
    from gitkruise.gitops.forges.provider import ForgeRepository
    from gitkruise.model.gitops.config import Sink
    from gitkruise.model.gitops.notifications import Pull


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A pushed branch, and the texts of its pull request."""

    branch: str
    base: str
    title: str
    body: str
    same_action: Callable[
        [str], bool
    ]  # returns whether a branch contains the same action; blocking


def open_pull(pushed: Pushed, sink: Sink | None, choice: ClusterChoice) -> tuple[str, str]:
    """Return (URL of the pull request, URL of the page that opens it): one of them, or neither.

    An open pull request of the branch is updated; others with the same action are closed. The
    token is in the Secret that the Sink names, so opening one needs a cluster. Raises
    SourceFailed GK3504 when the forge rejects it, or the end of an earlier one; the branch stays.
    """
    forge = sink.spec.forge if sink is not None else None
    if sink is None or forge is None:
        return "", ""
    page = page_for(forge, pushed.base, pushed.branch)
    if not choice.given:
        return "", page
    return asyncio.run(_with_forge(pushed, sink, choice, page)).url, ""


async def _with_forge(pushed: Pushed, sink: Sink, choice: ClusterChoice, page: str) -> Pull:
    from gitkruise.gitops.actions.pull_requests import (  # noqa: PLC0415  imports the schemas
        withdraw_others,
    )
    from gitkruise.gitops.forges.factory import open_forge  # noqa: PLC0415  imports aiohttp

    assert sink.spec.forge is not None
    async with AsyncExitStack() as stack:
        chosen = await stack.enter_async_context(connected(choice, read_environment()))
        try:
            forge = await open_forge(
                sink.spec.forge, sink.namespace, chosen.transport, chosen.clock, stack
            )
            pull = await _open_or_update(forge, pushed)
        except ApiError as error:
            message, next_ = "cannot open the pull request", f"open it at {page}"
            raise _refused(pushed, message, next_, error) from error
        prefix, _, _ = pushed.branch.partition("-")
        try:
            await withdraw_others(
                forge, pushed.base, prefix, pushed.branch,
                lambda other: pushed.same_action(other.branch), f"Overtaken by #{pull.number}.",
            )  # fmt: skip
        except ApiError as error:
            message = f"{pull.url} is open, and an earlier one may be, too"
            next_ = "close earlier pull requests of the same action, and merge this one"
            raise _refused(pushed, message, next_, error) from error
    return pull


def _refused(pushed: Pushed, message: str, next_: str, error: ApiError) -> SourceFailed:
    notes = (("done", f"branch {pushed.branch} is pushed"), ("next", next_))
    return SourceFailed(Finding(code="GK3504", message=f"{message}: {error.message}", notes=notes))


async def _open_or_update(forge: ForgeRepository, pushed: Pushed) -> Pull:
    """Open or update the pull request of the branch. Raises ApiError."""
    for pull in await forge.pulls_from(pushed.branch):
        if (pull.state, pull.base) == ("open", pushed.base):
            await forge.edit_pull(pull.number, pushed.title, pushed.body)
            return pull
    return await forge.open_pull(pushed.branch, pushed.base, pushed.title, pushed.body)
