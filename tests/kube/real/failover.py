"""The scenario of failing replicas: rollouts without an end, and a failure of the leader now and
then."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from gitkruise.gitops.cluster.engine import WORKLOADS_LEASE
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.lease_terms import SYNC_LEASE
from gitkruise.wire.primitives.paths import get
from tests.kube.real.apiserver import talking
from tests.kube.real.budgets import Budgets
from tests.kube.real.replicas import (
    Replica,
    Replicas,
    audited,
    trespasses,
    written,
)
from tests.kube.real.shop import CLONESETS, KINDS, Shop, install_crds, listed, pods_run

PODS = 8  # of each CloneSet
_LOOK_S = 0.2


@dataclass(kw_only=True)
class Played:
    """Outcome: (failure, lease, seconds until another process had it), and what must not be."""

    taken: list[tuple[str, str, float]] = field(default_factory=list)
    rollouts: int = 0
    writes: int = 0
    judged: int = 0
    trespasses: list[str] = field(default_factory=list)
    broken: list[tuple[str, int]] = field(default_factory=list)


async def _killed(replicas: Replicas, leader: Replica, group: asyncio.TaskGroup) -> None:
    leader.process.wait()
    await replicas.start(group)


async def _resumed(replicas: Replicas, leader: Replica, group: asyncio.TaskGroup) -> None:
    leader.send(signal.SIGCONT)


async def _mended(replicas: Replicas, leader: Replica, group: asyncio.TaskGroup) -> None:
    leader.wire.mend()


_Repair = Callable[[Replicas, Replica, asyncio.TaskGroup], Awaitable[None]]
# name → (what happens to the leader, what ends it once another leads)
FAILURES: dict[str, tuple[Callable[[Replica], None], _Repair]] = {
    "killed": (lambda r: r.send(signal.SIGKILL), _killed),
    "stopped": (lambda r: r.send(signal.SIGSTOP), _resumed),
    "cut off": (lambda r: r.wire.cut(), _mended),
}


async def play(folder: Path, failures: int, pause_s: float = 2.0) -> Played:
    """Play `failures` of the leader, `pause_s` apart, and tell what was seen."""
    outcome = Played()
    with audited(folder) as server:
        async with talking(server) as transport, pods_run(transport):
            await install_crds(transport)
            shop = Shop(folder, replicas=PODS)
            await asyncio.to_thread(shop.push, "The shop")
            replicas, budgets = Replicas(server, shop), Budgets(transport, PODS)
            with closing(replicas):
                async with asyncio.TaskGroup() as group:
                    await replicas.start(group)
                    await replicas.holder(WORKLOADS_LEASE)
                    await replicas.start(group)
                    await _settled(transport, shop)
                    names = islice(cycle(FAILURES), failures)
                    watching = group.create_task(budgets.run())
                    failing = group.create_task(
                        _fail_each(names, pause_s, replicas, outcome, group)
                    )
                    while not failing.done():
                        await _rolled(transport, shop, outcome)
                    watching.cancel()
                    replicas.rest()
        writes = written(server)
    outcome.writes, outcome.judged, outcome.broken = len(writes), budgets.judged, budgets.broken
    outcome.trespasses = [f"{one}, held by {holder}" for one, holder in trespasses(writes)]
    return outcome


async def _fail_each(
    names: Iterable[str],
    pause_s: float,
    replicas: Replicas,
    outcome: Played,
    group: asyncio.TaskGroup,
) -> None:
    for name in names:
        account = (await replicas.holder(SYNC_LEASE)).account
        leader, (harm, repair) = replicas.running[account], FAILURES[name]
        at = SystemClock().now()
        harm(leader)
        for lease in (SYNC_LEASE, WORKLOADS_LEASE):
            one = await replicas.holder(lease, but=account)
            outcome.taken.append((name, lease, (one.done - at).total_seconds()))
        await repair(replicas, leader, group)
        await asyncio.sleep(pause_s)


async def _rolled(transport: Transport, shop: Shop, outcome: Played) -> None:
    """Push a commit that changes the image of every CloneSet, and wait until all have it."""
    commit = len(KINDS) + outcome.rollouts
    for name in KINDS:
        path = shop.clone / "apps" / name / "cloneset.yaml"
        path.write_text(re.sub(f"/{name}:.*", f"/{name}:n{commit}", path.read_text()))
    await asyncio.to_thread(shop.push, f"Images {commit}")
    await _settled(transport, shop)
    outcome.rollouts += len(KINDS)


async def _settled(transport: Transport, shop: Shop) -> None:
    """Until every CloneSet runs what git says."""
    wanted = {name: (shop.clone / "apps" / name / "cloneset.yaml").read_text() for name in KINDS}
    while True:
        found = await listed(transport, CLONESETS)
        if len(found) == len(KINDS) and all(
            get(one, "spec", "template", "spec", "containers")[0]["image"]
            in wanted[one["metadata"]["name"]]
            and get(one, "status", "observedGeneration") == one["metadata"]["generation"]
            and get(one, "status", "updatedReadyReplicas") == PODS
            and get(one, "status", "replicas") == PODS
            for one in found
        ):
            return
        await asyncio.sleep(_LOOK_S)
