"""Pull requests of ours: one for a branch, found again by its name, and ended when overtaken."""

from __future__ import annotations

import asyncio
import logging

from gitkruise.errors import ApiError, BadRequest, Unavailable
from gitkruise.git.trouble import RefMoved
from gitkruise.gitops.acting import Verb
from gitkruise.gitops.holding import action_of
from gitkruise.gitops.proposing import Proposal, Proposer
from gitkruise.gitops.telling.forge import Forge
from gitkruise.model.telling import Pull
from gitkruise.wire.names import ObjectKey

log = logging.getLogger(__name__)


class Offers:
    """What one unit proposes on the forge of its Sink."""

    def __init__(self, forge: Forge, proposer: Proposer) -> None:
        self._forge, self._proposer = forge, proposer

    async def found(self, branch: str) -> Pull | None:
        """The newest pull request for a branch, however it ended. Raises ApiError."""
        pulls = await self._forge.pulls_from(branch)
        return pulls[0] if pulls else None

    async def make(self, branch: str, proposal: Proposal, body: str) -> Pull:
        """Push the branch and open its pull request; older ones of the same name give way.

        A branch that is there already was pushed by an earlier run. Raises SourceFailed, ApiError.
        """
        try:
            await asyncio.to_thread(self._proposer.push, proposal, branch)
        except RefMoved:
            log.info("%s is there already", branch)
        base = self._proposer.branch
        pull = await self._forge.open_pull(branch, base, proposal.subject, body)
        stem = branch.rsplit("-", 2)[0]
        for other in await self._forge.open_pulls():
            mine = other.branch.rsplit("-", 2)[0] == stem and other.base == base
            if mine and not other.foreign and other.number != pull.number:
                await self._forge.add_comment(other.number, f"Overtaken by #{pull.number}.")
                await self._forge.close(other.number)
        return pull

    async def merge(self, pull: Pull, key: ObjectKey) -> None:
        """Merge it if nobody else has pushed to it. Raises BadRequest while the forge refuses."""
        ours = await asyncio.to_thread(self._ours, pull, key)
        if not ours:
            raise BadRequest(f"somebody else pushed to {pull.branch}; merge or close it yourself")
        try:
            await self._forge.merge(pull.number, pull.head)
        except Unavailable:
            raise
        except ApiError as error:
            raise BadRequest(f"the forge does not merge #{pull.number}: {error.message}") from error

    def _ours(self, pull: Pull, key: ObjectKey) -> bool:
        """Whether its head is a commit that gitkruise made. Blocking."""
        repository = self._proposer.repository
        head = repository.fetch(f"refs/heads/{pull.branch}")
        return head == pull.head and action_of(repository, head, key) == Verb.PROMOTE
