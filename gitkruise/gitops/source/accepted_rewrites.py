"""Rewritten histories that a user accepted, by source, remembered in the cluster.

`gitkruise sync --accept-rewrite` is a process of its own and may run on another machine than the
controller that stopped at the rewrite. So the acceptance is kept where both look.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from gitkruise.errors import Forbidden
from gitkruise.git.plumbing.refs import is_object_id
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
REWRITES: Final = "gitkruise.io/accepted-rewrites"  # annotation: the accepted commit, by source


class AcceptedRewrites:
    """The last accepted commit of each source, shared by the processes of one lease."""

    def __init__(self, lease: LeaseAnnotation) -> None:
        self._lease = lease

    async def of(self, source: str) -> str:
        """Return the commit that was accepted last; "" for none. Raises ApiError."""
        try:
            return _parsed(await self._lease.read()).get(source, "")
        except Forbidden as error:
            log.warning(log_line("accepted-rewrite-not-shared", error=error.message))
            return ""

    async def note(self, source: str, commit: str) -> None:
        """Remember that a user accepted history with `commit`. Raises ApiError."""
        try:
            if await self.of(source) != commit:
                await self._lease.change(lambda value: {**_parsed(value), source: commit})
        except Forbidden as error:
            log.warning(log_line("accepted-rewrite-not-shared", error=error.message))


def _parsed(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: id_ for name, id_ in value.items() if isinstance(id_, str) and is_object_id(id_)}
