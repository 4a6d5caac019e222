"""The sandbox's own actors on real time: kubelet, scheduler, garbage and namespace collectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Hashable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final, Protocol

from gitkruise.kube.system.clock import Clock
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.world.api.cluster import World

log: Final = logging.getLogger(__name__)

GATHER_S: Final = 0.01  # changes that come together are handled together
AFTER_FAILURE_S: Final = 5.0
LONGEST_WAIT_S: Final = 60.0


class ClusterLoop(Protocol):
    """A controller of the cluster that acts on due times."""

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        ...


async def run_parts(cluster: Cluster, parts: Sequence[ClusterLoop], clock: Clock) -> None:
    """Run every part whenever the world changed or something is due, until cancelled.

    A part backs off from objects it fails at (`world.backoff`). A part that fails as a whole is
    logged and run again after a pause; the others continue. While writes are refused (full disk)
    no part runs.
    """
    resting: dict[int, datetime] = {}
    while True:
        seen = cluster.world.version
        dues = [] if cluster.refusal else _round(cluster, parts, clock.now(), resting)
        if cluster.world.version != seen:
            await clock.sleep(0)
            continue
        wait_s = LONGEST_WAIT_S
        if cluster.refusal:
            wait_s = AFTER_FAILURE_S
        elif dues:
            wait_s = min(wait_s, (min(dues) - clock.now()).total_seconds())
        await _changed_within(cluster, seen, clock, wait_s)


def _round(
    cluster: Cluster, parts: Sequence[ClusterLoop], now: datetime, resting: dict[int, datetime]
) -> list[datetime]:
    """Run each part once; return the instants at which they are due again."""
    dues: list[datetime] = []
    for index, part in enumerate(parts):
        if index in resting and now < resting[index]:
            dues.append(resting[index])
            continue
        try:
            due = part.run(cluster.world, now)
        except Exception:
            log.exception(log_line("controller-crashed", controller=type(part).__name__))
            due = datetime.fromtimestamp(now.timestamp() + AFTER_FAILURE_S, tz=now.tzinfo)
            resting[index] = due
        finally:
            cluster.publish()
        if due is not None:
            dues.append(due)
    return dues


def object_failed(key: Hashable, error: Exception) -> None:
    """Log an unexpected exception of one object, which alone backs off."""
    log.error(log_line("controller-backs-off", key=key), exc_info=error)


async def _changed_within(cluster: Cluster, seen: int, clock: Clock, seconds: float) -> None:
    try:
        async with clock.timeout(seconds):
            await cluster.changed(seen)
    except TimeoutError:
        return
    await asyncio.sleep(GATHER_S)


@asynccontextmanager
async def alongside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` in the background of a block; cancelled and awaited at its end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
