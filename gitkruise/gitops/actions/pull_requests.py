"""Pull requests of ours: one for a branch, found again by its name, and ended when overtaken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from gitkruise.errors import BadRequest, RefMissing
from gitkruise.git.plumbing.commits import closing_trailers
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionVerb
from gitkruise.gitops.actions.hold import action_of
from gitkruise.gitops.actions.proposals import ActionProposal, Proposal, Proposer
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.model.gitops.notifications import Pull
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import ObjectKey

log = logging.getLogger(__name__)
WITHDRAWN: Final = "Withdrawn: "  # begins the title of a pull request that gitkruise closed


class ActionPullRequests:
    """Pull requests of one unit on the forge of its Sink."""

    def __init__(self, forge: ForgeRepository, proposer: Proposer) -> None:
        self._forge, self._proposer = forge, proposer

    async def found(self, branch: str) -> Pull | None:
        """The newest pull request that asks for a branch to be merged into the followed one,
        however people ended it; None for one that was withdrawn. Raises ApiError."""
        pulls = await self._forge.pulls_from(branch)
        pull = next((one for one in pulls if one.base == self._proposer.branch), None)
        gone = pull is not None and pull.state == "closed" and pull.title.startswith(WITHDRAWN)
        return None if gone else pull

    async def make(self, branch: str, proposal: ActionProposal, body: str) -> Pull:
        """Push the branch and open its pull request.

        A branch that is there already was pushed by an earlier run. Raises SourceFailed, ApiError.
        """
        try:
            await asyncio.to_thread(self._proposer.push, proposal, branch)
        except RefMoved:
            log.info(log_line("branch-exists", branch=branch))
        body = await asyncio.to_thread(self._described, proposal, body)
        return await self._forge.open_pull(branch, self._proposer.branch, proposal.subject, body)

    def _described(self, proposal: Proposal, body: str) -> str:
        """Return the description with the trailers of the commit: a squash keeps them so."""
        message = self._proposer.repository.message(proposal.commit)
        return "\n\n".join(filter(None, (body, closing_trailers(message))))

    async def retire(
        self, prefix: str, keep: str, verb: ActionVerb, key: ObjectKey | None, why: str
    ) -> None:
        """Withdraw the open pull requests of an action on an object (None: on any) whose branches
        start with `prefix`, except that of `keep`. Raises ApiError."""
        base = self._proposer.branch
        ours = partial(is_of_action, self._proposer.repository, verb=verb, key=key)
        await withdraw_others(self._forge, base, prefix, keep, ours, why)

    async def put(
        self, branch: str, proposal: Proposal, body: str, *, over: str, pull: Pull | None
    ) -> Pull:
        """Push a proposal to a branch that is at `over` ("": there is none), and update its open
        pull request, or open one. Raises SourceFailed, RefMoved, ApiError."""
        if proposal.commit != over:
            await asyncio.to_thread(self._proposer.push, proposal, branch, over)
        body = await asyncio.to_thread(self._described, proposal, body)
        if pull is None or pull.state != "open":
            base = self._proposer.branch
            return await self._forge.open_pull(branch, base, proposal.subject, body)
        if proposal.commit != over or pull.title != proposal.subject:
            await self._forge.edit_pull(pull.number, proposal.subject, body)
        return pull

    async def withdraw(self, pull: Pull, title: str, body: str) -> None:
        """Close a pull request of ours; its title and body say why. Raises ApiError."""
        await self._forge.edit_pull(pull.number, title, body)
        await self._forge.close(pull.number)

    async def merge(self, pull: Pull, key: ObjectKey) -> None:
        """Merge it if every commit is from gitkruise. Raises ApiError, also while the forge
        refuses."""
        repository = self._proposer.repository
        ours = await asyncio.to_thread(is_of_action, repository, pull, ActionVerb.PROMOTE, key)
        if not ours:
            raise BadRequest(f"a user pushed to {pull.branch}; merge or close it yourself")
        await self._forge.merge(pull.number, pull.head)


def is_of_action(repository: Repository, pull: Pull, verb: str, key: ObjectKey | None) -> bool:
    """Return whether the head of a pull request is a commit of gitkruise with this action on an
    object (None: on any). Blocking."""
    try:
        head = repository.fetch(f"refs/heads/{pull.branch}")
    except RefMissing:
        return False
    return head == pull.head and action_of(repository, head, key) == verb


def action_branch(what: str, record: UnitRecord, name: str) -> str:
    """Return the branch of a pull request that one cluster opens for one of its units.

    Several clusters may follow one repository, with units and objects of the same names.
    """
    return f"gitkruise/{what}/{record.cluster}/{record.unit}/{name}"


async def withdraw_others(
    forge: ForgeRepository,
    base: str,
    prefix: str,
    keep: str,
    ours: Callable[[Pull], bool],
    why: str,
) -> None:
    """Withdraw open pull requests into `base` whose branches start with `prefix`, except that of
    `keep`, and that are `ours` (asked in a thread): other ways to do the same to the same object,
    by an older state of it."""
    for other in await forge.open_pulls():
        named = other.branch.startswith(prefix) and other.branch != keep
        if not named or other.foreign or other.base != base:
            continue
        if await asyncio.to_thread(ours, other):
            await withdraw(forge, other, why)


async def withdraw(forge: ForgeRepository, pull: Pull, why: str) -> None:
    """Close a pull request of ours. A comment says why, and the title that it was no user: its
    branch may be proposed again. Raises ApiError."""
    if not pull.title.startswith(WITHDRAWN):  # an earlier try did not get further
        await forge.edit_pull(pull.number, WITHDRAWN + pull.title)
    comments = {comment.body.strip() async for comment in forge.comments(pull.number)}
    if why.strip() not in comments:
        await forge.add_comment(pull.number, why)
    await forge.close(pull.number)
