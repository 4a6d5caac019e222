"""Holders of the shards, as their Leases name them to commands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from gitkruise.errors import ApiError
from gitkruise.gitops.cluster.lease_renewals import renewed_meanwhile
from gitkruise.gitops.cluster.shard_leases import shards_of
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.lease_terms import SHARDS_MAX, member_lease, shard_lease
from gitkruise.model.gitops.shards import Shard, shard_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time, parse_time

_OVERDUE_LEAST: Final = timedelta(minutes=1)  # clocks of users and replicas differ


@dataclass(frozen=True, slots=True)
class ShardHolder:
    """The replica that has a shard, by the `spec` of its Lease; "" if no replica has it."""

    shard: Shard
    replica: str
    spec: Obj

    @property
    def problem(self) -> str:
        """Return what is wrong; "" while a replica holds the shard."""
        if self.replica:
            return ""
        renewed = parse_time(self.spec.get("renewTime"))
        since = f" since {format_time(renewed)}" if renewed is not None else ""
        return f"no replica holds it{since}: its units are not reconciled"


@dataclass(frozen=True, slots=True)
class ShardHolders:
    """The holders of all shards, by number; none without shards.

    `unread` is the reason why the Leases do not say it, `lost` why no unit is reconciled.
    """

    holders: tuple[ShardHolder, ...] = ()
    unread: str = ""
    lost: str = ""

    def of(self, unit: str) -> ShardHolder | None:
        """Return the holder of the shard that a unit belongs to; None without shards."""
        return self.holders[shard_of(unit, len(self.holders))] if self.holders else None

    def problem_of(self, unit: str) -> str:
        """Return the reason why no replica reconciles a unit; "" if one does."""
        holder = self.of(unit)
        if holder is None:
            return self.lost
        return f"shard {holder.shard}: {holder.problem}" if holder.problem else ""


WITHOUT_SHARDS: Final = ShardHolders()


async def read_holders(
    transport: Transport, namespace: str, lease: str, clock: Clock
) -> ShardHolders:
    """Read the Leases of the controller that has `lease`, those that look old twice."""
    try:
        joint = await lease_spec(transport, namespace, lease)
        count = shards_of(str(joint.get("holderIdentity", "")))
        specs = {lease: joint}
        if count > 1:
            names = [shard_lease(lease, number) for number in range(count)]
            specs = {name: await lease_spec(transport, namespace, name) for name in names}
        old = {name: spec for name, spec in specs.items() if is_overdue(spec, clock.now())}
        renewed = await renewed_meanwhile(old, partial(lease_spec, transport, namespace), clock)
    except ApiError as error:
        return ShardHolders(unread=error.message)
    ended = old.keys() - renewed
    if count == 1:
        return ShardHolders(lost=_lost(lease, joint) if ended else "")
    found = enumerate(specs.items())
    return ShardHolders(
        tuple(
            _holder(Shard(n, count), spec, held=is_led(spec) and name not in ended)
            for n, (name, spec) in found
        )
    )


async def left_over(
    transport: Transport, namespace: str, lease: str, count: int, now: datetime
) -> list[str]:
    """Return the names of Leases that remain of more shards than `count`, and that no replica
    holds. Raises ApiError."""
    first = count if count > 1 else 0  # without shards there are none of these Leases
    numbers = range(first, SHARDS_MAX)
    names = {make(lease, n) for make in (shard_lease, member_lease) for n in numbers}
    return [
        obj["metadata"]["name"]
        for obj in await listed(transport, LEASES, namespace=namespace)
        if obj["metadata"]["name"] in names and not _is_held(obj.get("spec") or {}, now)
    ]


async def lease_spec(transport: Transport, namespace: str, name: str) -> Obj:
    """Return the spec of a Lease, {} for one that does not exist. Raises ApiError."""
    lease = await find_object(transport, LEASES, name, namespace) or {}
    return lease.get("spec") or {}


def is_led(spec: Obj) -> bool:
    """Return whether a Lease has a holder."""
    return bool(spec.get("holderIdentity")) and parse_time(spec.get("renewTime")) is not None


def is_overdue(spec: Obj, now: datetime) -> bool:
    """Return whether the holder of a Lease has not renewed it for long: it has ended, or its clock
    is wrong."""
    renewed = parse_time(spec.get("renewTime"))
    lasts = timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0))
    return renewed is not None and now - renewed > max(_OVERDUE_LEAST, 2 * lasts)


def _lost(lease: str, spec: Obj) -> str:
    """Return that no unit is reconciled, by a Lease whose holder no longer renews it. A free one
    does not say so: `gitkruise sync` gives it back."""
    renewed = parse_time(spec.get("renewTime"))
    if not spec.get("holderIdentity") or renewed is None:
        return ""
    reason = f"{spec['holderIdentity']} has not renewed lease {lease} since {format_time(renewed)}"
    return f"{reason}: no unit is reconciled"


def _is_held(spec: Obj, now: datetime) -> bool:
    return is_led(spec) and not is_overdue(spec, now)


def _holder(shard: Shard, spec: Obj, *, held: bool) -> ShardHolder:
    return ShardHolder(shard, str(spec["holderIdentity"]) if held else "", spec)
