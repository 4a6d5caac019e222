"""Pull requests of ours: one for a branch, found again by its name, and ended when overtaken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gitkruise.errors import ApiError, BadRequest, Unavailable
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.gitops.actions.actions import ActionVerb
from gitkruise.gitops.actions.hold import action_of
from gitkruise.gitops.actions.proposals import ActionProposal, Proposal, Proposer
from gitkruise.gitops.forges.provider import ForgeRepository
from gitkruise.model.gitops.notifications import Pull
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import ObjectKey

log = logging.getLogger(__name__)


class ActionPullRequests:
    """Pull requests of one unit on the forge of its Sink."""

    def __init__(self, forge: ForgeRepository, proposer: Proposer) -> None:
        self._forge, self._proposer = forge, proposer

    async def found(self, branch: str) -> Pull | None:
        """The newest pull request for a branch, however it ended. Raises ApiError."""
        pulls = await self._forge.pulls_from(branch)
        return pulls[0] if pulls else None

    async def make(self, branch: str, proposal: ActionProposal, body: str) -> Pull:
        """Push the branch and open its pull request; older ones of its kind give way.

        A branch that is there already was pushed by an earlier run. Raises SourceFailed, ApiError.
        """
        try:
            await asyncio.to_thread(self._proposer.push, proposal, branch)
        except RefMoved:
            log.info(log_line("branch-exists", branch=branch))
        base = self._proposer.branch
        pull = await self._forge.open_pull(branch, base, proposal.subject, body)
        verb, key = proposal.edit.verb, proposal.key
        kin, _, _ = branch.rpartition("/")
        await overtake(self._forge, pull, f"{kin}/", lambda other: self._ours(other, verb, key))
        return pull

    async def put(
        self, branch: str, proposal: Proposal, body: str, *, over: str, pull: Pull | None
    ) -> Pull:
        """Push a proposal to a branch that is at `over` ("": there is none), and update its open
        pull request, or open one. Raises SourceFailed, RefMoved, ApiError."""
        if proposal.commit != over:
            await asyncio.to_thread(self._proposer.push, proposal, branch, over)
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
        """Merge it if every commit is from gitkruise. Raises BadRequest while the forge refuses."""
        ours = await asyncio.to_thread(self._ours, pull, ActionVerb.PROMOTE, key)
        if not ours:
            raise BadRequest(f"a user pushed to {pull.branch}; merge or close it yourself")
        try:
            await self._forge.merge(pull.number, pull.head)
        except Unavailable:
            raise
        except ApiError as error:
            raise BadRequest(f"the forge does not merge #{pull.number}: {error.message}") from error

    def _ours(self, pull: Pull, verb: ActionVerb, key: ObjectKey) -> bool:
        """Return whether its head is a commit of gitkruise with this action. Blocking."""
        repository = self._proposer.repository
        head = repository.fetch(f"refs/heads/{pull.branch}")
        return head == pull.head and action_of(repository, head, key) == verb


def action_branch(what: str, record: UnitRecord, name: str) -> str:
    """Return the branch of a pull request that one cluster opens for one of its units.

    Several clusters may follow one repository, with units and objects of the same names.
    """
    return f"gitkruise/{what}/{record.cluster}/{record.unit}/{name}"


async def overtake(
    forge: ForgeRepository, pull: Pull, kin: str, ours: Callable[[Pull], bool]
) -> None:
    """Close open pull requests whose branches start with `kin` and that are `ours` (asked in a
    thread): other ways to do the same to the same object, by an older state of it."""
    for other in await forge.open_pulls():
        if (
            not other.branch.startswith(kin)
            or other.foreign
            or other.base != pull.base
            or other.number == pull.number
        ):
            continue
        if await asyncio.to_thread(ours, other):
            await forge.add_comment(other.number, f"Overtaken by #{pull.number}.")
            await forge.close(other.number)
