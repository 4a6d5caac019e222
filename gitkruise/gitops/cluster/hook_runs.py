"""For which content of git the hooks of each unit ran to their end, remembered in the cluster.

A finished Job is a memory of its own, but may be deleted. A record of the status branch is none:
a user who may push the branch could suppress or repeat a hook with it.
"""

from __future__ import annotations

import logging
from typing import Final

from gitkruise.errors import Forbidden
from gitkruise.gitops.cluster.lease_annotation import LeaseMemory
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
HOOKS: Final = "gitkruise.io/hooks"  # annotation: the content that hooks last ran for, by unit


class HookRuns(LeaseMemory[str]):
    """The last content for which all hooks of a unit ran, shared by the units of a process.

    Without the right to the Lease a later process goes by the Jobs.
    """

    kind = str

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

    def _answered(self, error: Forbidden | None) -> None:
        if error is not None:
            log.warning(
                log_line("hook-runs-not-shared", effect="may run again", error=error.message)
            )
