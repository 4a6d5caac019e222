"""Composition of a replica with shards: one program for each shard that it holds.

What exists once in a process (its state directory, workers, metrics, webhook) is shared by the
programs. A program has caches, mirrors and outboxes of its own, and writes under the Lease of its
shard alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from gitkruise.app import Process, RunningController, RunOptions, process, program
from gitkruise.errors import ApiError, DiagnosticError, leaves
from gitkruise.gitops.cluster.engine import WORKLOADS_LEASE
from gitkruise.gitops.cluster.shard_leases import ShardElection, joint_holder, refuse_others
from gitkruise.gitops.cluster.shard_states import STATES, ShardStates
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.cache.leader_election import Lease
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.shards import Shard
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
AGAIN_S: Final = 30.0  # before a shard that could not be started is tried again here
OnShard = Callable[[Shard, RunningController | None], None]  # None: the shard was handed back


@dataclass(slots=True)
class RunningShards:
    """The programs of the shards that this replica holds now, and what metrics read of them."""

    count: int
    election: ShardElection
    programs: dict[Shard, RunningController] = field(default_factory=dict)
    metrics: str = ""
    ran: bool = False  # a program was started before

    @property
    def reporters(self) -> Mapping[str, Reporter]:
        return {n: r for one in self.programs.values() for n, r in one.reporters.items()}

    @property
    def outboxes(self) -> Mapping[str, Outbox]:
        """By sink; of a sink that several shards write, one that is behind if there is any."""
        found: dict[str, Outbox] = {}
        for one in self.programs.values():
            for name, box in one.outboxes.items():
                found[name] = box if name not in found or not box.idle else found[name]
        return found

    @property
    def followers(self) -> Mapping[str, SourceFollower]:
        """By source; of those in several shards, one with a problem if there is any."""
        found: dict[str, SourceFollower] = {}
        for one in self.programs.values():
            for name, follower in one.followers.items():
                failing = follower.problem is not None
                found[name] = follower if name not in found or failing else found[name]
        return found

    @property
    def reconciled(self) -> Mapping[str, datetime]:
        return {n: at for one in self.programs.values() for n, at in one.fleet.reconciled.items()}

    @property
    def leads(self) -> bool:
        """Return whether this replica holds a shard."""
        return any(self.election.held.values())


@asynccontextmanager
async def sharded(
    options: RunOptions, transport: Transport, clock: Clock, *, count: int,
    on_shard: OnShard = lambda *_: None,
) -> AsyncIterator[RunningShards]:  # fmt: skip
    """A replica among others that share the units, while the body runs.

    `on_shard` is called when a shard runs here, and when it was handed back. Raises LeaseRefused
    while replicas with another number of shards run, and what `controller` raises for one of its
    shards.
    """
    failed: list[BaseException] = []
    async with process(options, transport, clock) as me:
        election = ShardElection(me.lease, options.lease, count, me.transport, clock)
        running = RunningShards(count, election)
        if me.meter is not None:
            me.meter.metrics.of_shards(lambda: election.held)
            running.metrics = me.meter.url
        joint = WriteAuthority(_joint_lease(me, count))
        stop = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = me.containment.keep(
                    "the lease of all shards", partial(joint.run, clock), clock, lambda _: None
                )
                leading = tasks.create_task(keeping)
                try:
                    await joint.leading()
                    serve = partial(
                        _guarded_serve, me=me, authority=joint, running=running, on_shard=on_shard
                    )
                    electing = tasks.create_task(election.run(serve, stop))
                    if me.meter is not None:
                        me.meter.started(running)
                    yield running
                    stop.set()
                    await electing
                finally:
                    stop.set()
                    leading.cancel()
        except* (DiagnosticError, ApiError) as errors:
            failed += leaves(errors)
    if failed:
        raise failed[0]


def _joint_lease(me: Process, count: int) -> Lease:
    name = replace(
        me.lease(me.options.lease), identity=joint_holder(count), predecessor="", joint=True,
        rival=partial(refuse_others, count=count),
    )  # fmt: skip
    return Lease(name, me.transport, me.clock)


async def _guarded_serve(
    shard: Shard, lease: Lease, ending: asyncio.Event,
    *, me: Process, authority: WriteAuthority, running: RunningShards, on_shard: OnShard,
) -> None:  # fmt: skip
    """Run the program of a shard. One that cannot start ends the process only while no other has
    started: a repository that does not answer must not end what runs."""
    try:
        await _serve(
            shard, lease, ending, me=me, joint=authority, running=running, on_shard=on_shard
        )
    except (DiagnosticError, ApiError) as error:
        if not running.ran:
            raise
        log.warning(log_line("shard-not-started", shard=shard.number, error=error))
        await wait_for(ending, me.clock, timedelta(seconds=AGAIN_S))


async def _serve(
    shard: Shard, lease: Lease, ending: asyncio.Event,
    *, me: Process, joint: WriteAuthority, running: RunningShards, on_shard: OnShard,
) -> None:  # fmt: skip
    """Run the program of a shard, from when its Lease is ours until `ending` is set."""
    options = replace(
        me.options, shard=shard, state_dir=me.options.state_dir / "shards" / str(shard.number)
    )
    workloads = replace(
        me.lease(WORKLOADS_LEASE), identity=joint_holder(shard.count, me.options.lease),
        predecessor="", joint=True,
    )  # fmt: skip
    fenced = joint.fence(me.transport)
    states = ShardStates(lease, [one for one in running.election.shards if one is not lease])
    authority = WriteAuthority(lease, {STATES: "{}"})  # those of the last holder are old
    async with program(me, options, authority, fenced, workloads, states) as one:
        running.programs[shard], running.ran = one, True
        on_shard(shard, one)
        try:
            await ending.wait()
        finally:
            del running.programs[shard]
            on_shard(shard, None)
