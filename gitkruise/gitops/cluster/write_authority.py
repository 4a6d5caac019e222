"""Write authority: the one place that combines lease, pauses and git into the right to write.

A process writes while it holds the sync lease. The transport that all of gitops shares is fenced by
it (`kube.cache.leader_election`), so that no request is sent after the lease expired. Objects of a
unit are applied and pruned only when its source was read since the lease was taken: another leader
may have followed newer commits meanwhile. `impersonation` decides with whose rights a unit writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from gitkruise.errors import ApiError, ClusterFailed, Finding, LeaseRefused, NotLeading, leaves
from gitkruise.kube.cache.leader_election import FencedTransport, Lease
from gitkruise.kube.cache.subscriptions import Subscriptions
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_PAUSE_S: Final = 1.0  # after a lease was lost


class WriteAuthority:
    """The right of this process to write, and the sources that it has read in the current term.

    A term begins whenever the lease is taken. Without a lease there is one term without an end.
    """

    def __init__(
        self, lease: Lease | None = None, notes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`notes` are annotations of the lease at the beginning of each term."""
        self._lease, self._notes = lease, notes
        self.term = 0 if lease is not None else 1
        self._begun = asyncio.Event()
        self._refusal: LeaseRefused | None = None
        self._paused = ""  # the logged reason
        self._read: dict[str, tuple[int, str]] = {}  # by source: (term, commit) of the last look
        self._listeners: Subscriptions[str, []] = Subscriptions()  # by source

    # The lease ------------------------------------------------------------------------------

    def fence(self, transport: Transport) -> Transport:
        """Return `transport` fenced: it writes under the lease or not at all."""
        return FencedTransport(transport, self._lease) if self._lease is not None else transport

    async def run(self, clock: Clock) -> None:
        """Take the lease whenever it is free, until cancelled, or until a rival holds it before the
        first term."""
        assert self._lease is not None
        while self._refusal is None:
            try:
                async with self._lease.held(self._notes):
                    self.term, self._paused = self.term + 1, ""
                    self._begun.set()
                    self._listeners.notify_all()
                    await asyncio.get_running_loop().create_future()  # until it is lost
            except* LeaseRefused as refused:
                self._refuse(next(iter(leaves(refused))))
            except* (ClusterFailed, ApiError) as lost:
                self._pause(lost.exceptions[0])
            await self._lease.look()
            self._listeners.notify_all()  # rounds rested while it was not known who leads
            await clock.sleep(_PAUSE_S)

    def _refuse(self, error: BaseException) -> None:
        if self._begun.is_set():
            self._pause(error)
        elif isinstance(error, LeaseRefused):
            self._refusal = error
            self._begun.set()

    def _pause(self, error: BaseException) -> None:
        """Log why writes pause, once for each reason in a row."""
        if str(error) != self._paused:
            self._paused = str(error)
            log.warning(log_line("writes-paused", error=error))

    async def leading(self) -> None:
        """Wait for the first term. Raises LeaseRefused where there will be none."""
        if self._lease is not None:
            await self._begun.wait()
        if self._refusal is not None:
            raise self._refusal

    async def drain(self) -> None:
        """Let no more writes begin, and wait for those on their way."""
        if self._lease is not None:
            await self._lease.drain()

    @property
    def leads(self) -> bool:
        """Return whether writing is allowed."""
        return self._lease is None or self._lease.valid

    @property
    def passive(self) -> bool:
        """Return whether another process leads, or may lead for all that is known: this one has
        nothing to do or to report."""
        if self._lease is None or self._lease.valid:
            return False
        return self._lease.others or self._lease.is_doubtful

    def check(self) -> None:
        """Check the lease. Raises NotLeading while writing is not allowed, and ClusterFailed GK4105
        where the API server does not let us have the lease."""
        if self.leads or self._lease is None:
            return
        if why := self._lease.refusal:
            raise ClusterFailed(_not_allowed(why))
        raise NotLeading("the lease that allows writing is not held")

    # Sources --------------------------------------------------------------------------------

    def read(self, source: str, term: int, commit: str) -> None:
        """Record that `source` pointed to `commit` in a read that began in `term`."""
        before, self._read[source] = self._read.get(source), (term, commit)
        if before is None or before[0] != term:
            self._listeners.notify((source,))

    def fresh(self, source: str) -> bool:
        """Return whether the source was read in this term."""
        if self._lease is None:
            return True
        return self._read.get(source, (0, ""))[0] == self.term

    def tip(self, source: str) -> str:
        """Return the commit that the source last pointed to; "" if unknown."""
        return self._read.get(source, (0, ""))[1]

    # News -----------------------------------------------------------------------------------

    def listen(self, by: object, wake: Callable[[], None], *, source: str = "") -> None:
        """Call `wake` when a term begins, and when `source` is read for the first time in it."""
        self._listeners.join(by, wake, [source] if source else ())

    def leave(self, by: object) -> None:
        self._listeners.leave(by)


def _not_allowed(why: str) -> Finding:
    return Finding(
        code="GK4105",
        message=f"nothing may be written: {why}",
        notes=(
            ("unchanged", "all live objects; the lease is requested again"),
            ("next", "gitkruise doctor rbac --print-fix   prints what gitkruise run needs"),
        ),
    )
