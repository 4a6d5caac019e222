"""The model cluster's scheduler and its nodes: pods without a node get the least loaded one that fits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitkruise.wire.names import Obj
    from gitkruise.world.cluster import World


def node_objects(count: int, *, zones: int = 3, prefix: str = "node") -> list[Obj]:
    """`count` v1 Nodes, ready, spread over `zones`."""
    raise AssertionError(count, zones, prefix)


def add_nodes(world: World, count: int, now: datetime, *, zones: int = 3) -> None:
    """Create the nodes that are missing of `node_objects(count)`."""
    raise AssertionError(world, count, now, zones)


class Scheduler:
    """Binds pods to nodes. `run` does what is due at `now` and says when to call again."""

    def __init__(self, *, events: bool = True) -> None:
        self.events = events

    def run(self, world: World, now: datetime) -> datetime | None:
        raise AssertionError(world, now)
