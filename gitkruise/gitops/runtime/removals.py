"""Deletion policies of units that leave the configuration: stored in the cluster, never in git.

A user who may push the status branch may write any record. So the last known deletion policy of
every unit of the configuration is an annotation of a Lease (gitops.cluster.lease_annotation).
It is removed when the last object that the unit deleted is gone: a start finds the rest again.

A unit left only if the configuration that had it lacks it. A start with another file, or without
one, says nothing about that unit: it stays remembered, and its objects stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.shared_write import SharedWrite
from gitkruise.gitops.status.unit_status import removal_of
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.record import Removal
from gitkruise.model.gitops.shards import WHOLE, Shard
from gitkruise.printable import listing
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import format_duration, parse_duration

log = logging.getLogger(__name__)
UNITS: Final = "gitkruise.io/units"  # annotation: policies, and the units that have each
_NAMED_MAX: Final = 5
_Policy = tuple[str, str, str, int, str, str | None]


@dataclass(frozen=True, slots=True)
class RememberedUnit:
    """Deletion policy of a unit that ran, and the configuration that had it.

    That is the `origin` of a Config, None where an earlier version did not store it.
    """

    end: Removal
    origin: str | None


Change: TypeAlias = Callable[[Mapping[str, RememberedUnit]], dict[str, RememberedUnit]]


@dataclass(slots=True)
class Removals:
    """The units that configurations had, and how each is to end. One for a cluster's name.

    `origin` is that of the present configuration. Units of other shards are left to these.
    """

    lease: LeaseAnnotation
    origin: str = ""
    known: dict[str, RememberedUnit] = field(default_factory=dict)
    shard: Shard = WHOLE
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _forgetting: SharedWrite[None] = field(init=False)

    def __post_init__(self) -> None:
        self._forgetting = SharedWrite(self._forget_all, self._turn)

    async def read(self) -> None:
        """Read the policies that earlier processes stored. Raises ApiError."""
        self.known = _parsed(await self.lease.read(), self.lease.cluster)

    async def remember(self, units: Mapping[str, Unit]) -> None:
        """These units run: how they would end is known from now on. Raises ApiError."""
        mine = {
            name: RememberedUnit(removal_of(unit), self.origin)
            for name, unit in units.items()
            if not unit.custom and self.shard.owns(name)
        }
        async with self._turn:
            await self._keep(lambda known: {**known, **mine})

    def left(self, there: Collection[str]) -> dict[str, Removal]:
        """Return the ends of units of this configuration that are not in `there`."""
        return {
            name: unit.end
            for name, unit in self.known.items()
            if name not in there and self.shard.owns(name) and self._is_ours(unit)
        }

    def left_in_other_shards(self, there: Collection[str]) -> list[str]:
        """Return the units of this configuration, not in `there`, that other shards end."""
        known = self.known.items()
        return [n for n, unit in known if n not in there and self._is_ours(unit)
                and not self.shard.owns(n)]  # fmt: skip

    def elsewhere(self, there: Collection[str]) -> dict[str, list[str]]:
        """Return the units of other configurations that are not in `there`, by their file."""
        found: dict[str, list[str]] = {}
        for name, unit in sorted(self.known.items()):
            if name not in there and self.shard.owns(name) and not self._is_ours(unit):
                found.setdefault(unit.origin or "", []).append(name)
        return found

    def _is_ours(self, unit: RememberedUnit) -> bool:
        return bool(self.origin) if unit.origin is None else unit.origin == self.origin

    async def forget(self, unit: str) -> None:
        """A unit has ended; those that end at the same moment share a write. Raises ApiError."""
        await self._forgetting.of(unit, None)

    async def _forget_all(self, ended: Mapping[str, None]) -> None:
        await self._keep(lambda known: {n: end for n, end in known.items() if n not in ended})

    async def _keep(self, change: Change) -> None:
        """Change what is stored, which other replicas change too."""
        if change(self.known) != self.known:
            cluster = self.lease.cluster
            stored = await self.lease.change(lambda v: _written(change(_parsed(v, cluster))))
            self.known = _parsed(stored, cluster)


async def recalled(
    removals: Removals, units: Mapping[str, Unit], there: Collection[str]
) -> dict[str, Removal]:
    """Return the policies of units that left, which are not in `there`; store those of `units`.

    Nothing is deleted before that Lease could be written. Raises ApiError.
    """
    await removals.read()
    await removals.remember(units)
    for file, names in removals.elsewhere(there).items():
        log.warning(
            log_line(
                "units-of-another-configuration",
                units=listing(names, _NAMED_MAX),
                configuration=file or "none",
                effect="they are not followed, and their objects are kept",
                next=f"gitkruise run --config {file}" if file else "name the file with --config",
            )
        )
    return removals.left(there)


def _written(wanted: Mapping[str, RememberedUnit]) -> list[list[Any]]:
    """Units by policy and configuration, for most have the same."""
    groups: dict[_Policy, list[str]] = {}
    for name, unit in sorted(wanted.items()):
        end = unit.end
        policy = (
            end.policy, end.propagation, format_duration(end.timeout), end.limit, end.account,
            unit.origin,
        )  # fmt: skip
        groups.setdefault(policy, []).append(name)
    return [[list(policy), names] for policy, names in groups.items()]


def _parsed(value: Any, cluster: str) -> dict[str, RememberedUnit]:
    """Stored units by name. What cannot be read is not known: nothing is deleted on a guess."""
    found: dict[str, RememberedUnit] = {}
    try:
        for (policy, propagation, timeout, limit, account, *origin), names in value or ():
            end = Removal(
                policy=policy,
                propagation=propagation,
                timeout=parse_duration(timeout),
                limit=limit,
                account=account,
            )
            found |= dict.fromkeys(names, RememberedUnit(end, origin[0] if origin else None))
    except (TypeError, ValueError):
        log.warning(log_line("removals-unreadable", effect="objects are kept", cluster=cluster))
        return {}
    return found
