"""Shards: which part of the units and workloads one replica has, and how many parts it may hold.

A name belongs to the same shard in every process and version: nothing but the name and the number
of shards decides. So no unit changes its shard while that number stays, and no replica has to ask
another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec

from gitkruise.model.gitops.config import Config
from gitkruise.wire.primitives.names import GroupKind, ObjectKey

_BYTES: Final = 8
# All of these write the NodeImages of all nodes.
_OF_NODES: Final = frozenset({
    GroupKind("", "Node"), GroupKind("apps.kruise.io", "NodeImage"),
    GroupKind("apps.kruise.io", "ImagePullJob"), GroupKind("apps.kruise.io", "ImageListPullJob"),
})  # fmt: skip


def shard_of(name: str, count: int) -> int:
    """Return the number of the shard that `name` belongs to."""
    return int.from_bytes(sha256(name.encode()).digest()[:_BYTES]) % count


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number` of `count`."""

    number: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.number} of {self.count}"

    @property
    def is_whole(self) -> bool:
        """Return whether there are no other shards."""
        return self.count == 1

    def owns(self, name: str) -> bool:
        """Return whether a unit, or another document of the configuration, belongs here."""
        return self.is_whole or shard_of(name, self.count) == self.number

    def drives(self, key: ObjectKey) -> bool:
        """Return whether a workload is driven here.

        All workloads of a namespace are driven together, for they share pods, budgets and spreads.
        Their mark does not count: it may change while pods move, a namespace cannot. Image pulls
        are driven by shard 0.
        """
        if key.group_kind in _OF_NODES:
            return self.number == 0
        return self.owns(key.namespace or key.name)

    def part(self, config: Config) -> Config:
        """Return the configuration with the units of this shard only."""
        if self.is_whole:
            return config
        units = {name: unit for name, unit in config.units.items() if self.owns(name)}
        return msgspec.structs.replace(config, units=units)


WHOLE: Final = Shard()


def quota(me: str, held: Mapping[str, int], shards: int) -> int:
    """Return how many of the `shards` the member `me` may hold; `held` are those of every member.

    Shares differ by one at most. The larger ones are for the members that hold the most already, so
    that a member that joins or leaves moves its own share and no other.
    """
    share, rest = divmod(shards, len(held))
    larger = sorted(held, key=lambda member: (-held[member], member))[:rest]
    return share + (me in larger)
