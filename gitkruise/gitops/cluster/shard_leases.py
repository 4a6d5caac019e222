"""Shard leases: which replica holds which shard, and how shares follow the replicas that live.

Every replica holds the Lease `NAME` together with the others: its holder says how many shards there
are, so that a controller with another number, or without shards, never writes at the same time.
Each replica that takes part holds one of the Leases `NAME-member-0`, …, as many as there are
shards; further replicas stand by. The holder of `NAME-shard-2` has shard 2.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

from gitkruise.errors import ApiError, Finding
from gitkruise.kube.cache.leader_election import LEASES, Lease
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.kube.system.lease_terms import RETRY, LeaseName, member_lease, shard_lease
from gitkruise.model.gitops.shards import Shard, quota
from gitkruise.planner.sync.annotations import RECONCILE_AT
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest

log = logging.getLogger(__name__)
_JOINT: Final = re.compile(r"([1-9][0-9]*) shards(?: of .*)?")
Serve = Callable[[Shard, Lease, asyncio.Event], Coroutine[Any, Any, None]]


def joint_holder(count: int, controller: str = "") -> str:
    """Return the holder by which all replicas of `count` shards hold a Lease together; on one that
    several controllers know, with the name of theirs."""
    return f"{count} shards" + (f" of {controller}" if controller else "")


def shards_of(holder: str) -> int:
    """Return the number of shards that the holder of a Lease states; 1 without any."""
    found = _JOINT.fullmatch(holder)
    return int(found[1]) if found else 1


def refuse_shards(holder: str) -> Finding | None:
    """Return GK4119 for a holder that spreads units over shards, where one process has them all."""
    return refusal(1, holder) if shards_of(holder) > 1 else None


def refuse_pass(holder: str) -> Finding | None:
    """Return GK4119 for a holder that spreads units over shards, where a user asks for one pass."""
    count = shards_of(holder)
    if count == 1:
        return None
    return Finding(
        code="GK4119",
        message=f"replicas with --shards {count} run, and one pass cannot stand in for them",
        notes=(
            ("why", "each of them holds a part of the units"),
            ("unchanged", "nothing was read from git or written"),
            (
                "next",
                "wait: they apply the commit at their next poll, and gitkruise status shows it",
            ),
            ("or", f"kubectl annotate unit NAME --overwrite {RECONCILE_AT}=$(date +%s)"),
        ),
    )


def refuse_others(holder: str, *, count: int) -> Finding | None:
    """Return GK4119 for a holder that does not have `count` shards."""
    return refusal(count, holder) if shards_of(holder) != count else None


def refusal(asked: int, holder: str) -> Finding:
    """Return GK4119: what runs divides the units in another way."""
    count = shards_of(holder)
    running = f"replicas with --shards {count} run" if count > 1 else f"{holder} runs without"
    same = f"gitkruise run --shards {count}, as the replicas that run"
    return Finding(
        code="GK4119",
        message=f"this process has --shards {asked}, and {running}",
        notes=(
            ("why", "processes with different numbers would reconcile the same units"),
            ("unchanged", "nothing was read from git or written"),
            ("next", same if count > 1 else "start it without --shards"),
            ("or", f"stop what runs, then start replicas with --shards {asked}"),
        ),
    )


class ShardElection:
    """One replica's part in the election: a seat among the members, and the shards that it holds.

    A replica takes free shards up to its quota and hands back what exceeds it. All replicas look at
    the same Leases; one that is late takes or gives nothing wrong, for a Lease has one holder.
    """

    def __init__(
        self, lease: Callable[[str], LeaseName], controller: str, count: int,
        transport: Transport, clock: Clock,
    ) -> None:  # fmt: skip
        self._clock, self._count, self._transport = clock, count, transport
        own = lease(controller)
        self._me, self._pause_s = own.identity, own.duration_s * RETRY
        self._look_within_s = own.duration_s
        self._unread = ""  # why the last look got no reply
        self._list = ApiRequest(verb="list", resource=LEASES, namespace=own.namespace)

        def made(name: str) -> Lease:
            return Lease(lease(name), transport, clock)

        self._seats = [made(member_lease(controller, n)) for n in range(count)]
        self.shards = [made(shard_lease(controller, n)) for n in range(count)]
        self._seat: tuple[Lease, asyncio.Task[None]] | None = None
        self._served: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}

    @property
    def held(self) -> dict[int, bool]:
        """Return for each shard whether this replica holds it."""
        return {number: lease.valid for number, lease in enumerate(self.shards)}

    async def run(self, serve: Serve, stop: asyncio.Event) -> None:
        """Hold a share of the shards until `stop`, then hand them back.

        `serve` takes the Lease of a shard, works until its event is set, and releases the Lease.
        """
        async with asyncio.TaskGroup() as tasks:
            while not stop.is_set():
                await self._look()
                self._sit(tasks)
                self._share(tasks, serve)
                await wait_for(stop, self._clock, timedelta(seconds=self._pause_s))
            for _, ending in self._served.values():
                ending.set()
            for task, _ in self._served.values():
                await asyncio.wait([task])
            if self._seat is not None:
                self._seat[1].cancel()

    async def _look(self) -> None:
        """Look at all Leases that are not ours, by one request for any number of shards."""
        asked_at = self._clock.monotonic()
        found: dict[str, Obj] | None = None
        try:
            async with self._clock.timeout(self._look_within_s):
                reply = await self._transport.send(self._list)
            found = {lease["metadata"]["name"]: lease for lease in reply.body["items"]}
            self._unread = ""
        except (ApiError, TimeoutError) as error:
            why = str(error) or f"no reply in {self._look_within_s:g} s"
            if why != self._unread:
                log.warning(log_line("leases-not-listed", error=why))
            self._unread = why
        for lease in (*self._seats, *self.shards):
            if not lease.valid:
                lease.learn(found, asked_at)

    def _sit(self, tasks: asyncio.TaskGroup) -> None:
        """Take a free seat, or another one when ours was taken."""
        if self._seat is not None:
            seat, task = self._seat
            if not task.done() and not seat.others:
                return
            task.cancel()
            self._seat = None
        free = next((seat for seat in self._seats if not seat.is_held), None)
        if free is not None:
            self._seat = free, tasks.create_task(self._keep(free))

    async def _keep(self, lease: Lease) -> None:
        try:
            async with lease.held():
                await asyncio.get_running_loop().create_future()  # until it is lost
        except* Exception as lost:
            log.warning(log_line("seat-lost", lease=lease.name.name, error=lost.exceptions[0]))

    def _share(self, tasks: asyncio.TaskGroup, serve: Serve) -> None:
        """Hand back what exceeds our quota, or take what is free within it."""
        for number, (task, _) in list(self._served.items()):
            lost = self.shards[number].others and not self.shards[number].valid
            if task.done() or lost:
                task.cancel()
                del self._served[number]
        if self._seat is None or not self._seat[0].valid:
            return
        holders = [lease.name.identity if lease.valid else lease.holder for lease in self.shards
                   if lease.is_held]  # fmt: skip
        seated = [seat.name.identity if seat.valid else seat.holder for seat in self._seats
                  if seat.is_held]  # fmt: skip
        counts = Counter(holders)
        limit = quota(self._me, {who: counts[who] for who in seated}, self._count)
        for number in sorted(self._served)[limit:]:
            if not self._served[number][1].is_set():
                log.info(log_line("shard-handed-back", shard=number, quota=limit))
                self._served[number][1].set()
        first = self._seats.index(self._seat[0])  # so that members do not all want the same one
        order = [(first + n) % self._count for n in range(self._count)]
        free = [n for n in order if not self.shards[n].is_held and n not in self._served]
        for number in free[: max(limit - len(self._served), 0)]:
            ending, shard = asyncio.Event(), Shard(number, self._count)
            work = serve(shard, self.shards[number], ending)
            self._served[number] = tasks.create_task(work), ending
