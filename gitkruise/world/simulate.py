"""Run a model cluster with its controllers on virtual time until nothing is left to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from gitkruise.model.settings import Gates
from gitkruise.model.trace import Trace

if TYPE_CHECKING:
    from gitkruise.world.cluster import World


class Part(Protocol):
    """Something of the cluster that acts by itself: kubelet, scheduler."""

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        ...


class Simulation:
    """A World, its parts and its controllers, and the virtual instant they have reached."""

    def __init__(
        self,
        world: World,
        parts: Sequence[Part],
        workloads: Sequence[Any],
        gates: Gates,
        start: datetime,
    ) -> None:
        self.world, self.now = world, start

    def run_until(self, until: datetime) -> Trace:
        """Let everything happen that is due up to `until`; stops early when all is quiet."""
        raise AssertionError(until)


def run_until(
    world: World,
    parts: Sequence[Part],
    workloads: Sequence[Any],
    gates: Gates,
    start: datetime,
    until: datetime,
) -> Trace:
    """One run of a fresh Simulation."""
    return Simulation(world, parts, workloads, gates, start).run_until(until)
