"""For which content of git the hooks of each unit ran to their end, remembered in the cluster.

A finished Job is a memory of its own, but may be deleted. A record of the status branch is none:
a user who may push the branch could suppress or repeat a hook with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.errors import Forbidden
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
HOOKS: Final = "gitkruise.io/hooks"  # annotation: the content that hooks last ran for, by unit


class HookRuns:
    """The last content for which all hooks of a unit ran, shared by the units of a process.

    The Lease is read in each term, because another process may have led before. Without the right
    to it the memory lasts as long as the process, and a later one goes by the Jobs.
    """

    def __init__(self, lease: LeaseAnnotation, authority: WriteAuthority) -> None:
        self._lease, self._authority = lease, authority
        self._term = -1
        self._known: Mapping[str, str] = {}
        self._turn = asyncio.Lock()

    async def ran(self, unit: str, content: str) -> bool:
        """Return whether the unit's hooks last ran for `content`; "" is none. Raises ApiError."""
        if not content:
            return False
        async with self._turn:
            await self._read()
            return self._known.get(unit) == content

    async def note(self, unit: str, content: str) -> None:
        """All hooks of the unit have run for `content`. Raises ApiError."""
        async with self._turn:
            await self._read()
            if self._known.get(unit) != content:
                await self._change(lambda known: {**known, unit: content})

    async def forget(self, unit: str) -> None:
        """A unit has ended: one of its name runs its hooks again. Raises ApiError."""
        async with self._turn:
            await self._read()
            if unit in self._known:
                await self._change(lambda known: {n: c for n, c in known.items() if n != unit})

    async def _read(self) -> None:
        term = self._authority.term
        if self._term == term:
            return
        try:
            self._known = _parsed(await self._lease.read())
        except Forbidden as error:
            log.warning(
                log_line("hook-runs-not-shared", effect="may run again", error=error.message)
            )
        self._term = term

    async def _change(self, change: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        try:
            self._known = await self._lease.change(lambda value: change(_parsed(value)))
        except Forbidden as error:
            log.warning(
                log_line("hook-runs-not-shared", effect="may run again", error=error.message)
            )
            self._known = change(self._known)


def _parsed(value: Any) -> dict[str, str]:
    """Contents by unit; what is no text is not known."""
    if not isinstance(value, dict):
        return {}
    return {unit: content for unit, content in value.items() if isinstance(content, str)}
