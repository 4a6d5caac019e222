"""Composition of the workload controllers: in a cluster by leases, or inside an embedded one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import ApiError, ClusterFailed
from gitkruise.gitops.cluster.engine import (
    BY_CONTROLLER,
    HEEDS_CANARIES,
    OWN,
    STEERED,
    Engine,
    hold_workloads,
    withdraw_canaries,
)
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.kube.cache.leader_election import FencedTransport, Lease
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.shards import Shard
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET, SPREAD
from gitkruise.planner.builtin.canary_steering import CANARY_STEERING
from gitkruise.planner.workloads import CLONESET, EMBEDDED, NODE, WORKLOADS, node_workloads
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind

log = logging.getLogger(__name__)
_SERVED: Final = timedelta(seconds=5)  # between looks at the kinds that the cluster serves
RECOVERED_S, LONGEST_PAUSE_S = 60.0, 30.0


def driven(catalog: Catalog, gates: Gates) -> tuple[Workload[Any], ...]:
    """The workloads we drive in a cluster: those it serves in the version that we write.

    OpenKruise's definitions have some kinds in older versions only. A cluster that does not know
    CloneSets at all lacks the definitions.

    Deployments are driven by the cluster's own controller, which we lead to their canaries.
    Requests to node agents are among them: the cluster has no OpenKruise where we drive.
    """

    written = {w.kind: w.version for w in (*WORKLOADS, *NODE)}

    def served(kind: GroupKind) -> bool:
        if kind not in written:
            return catalog.stored(kind) is not None
        found = catalog.by_kind(kind.group, written[kind], kind.kind)
        return found is not None and bool(found.verbs)

    def watching(workload: Workload[Any]) -> Workload[Any]:
        kept = {kind: find for kind, find in workload.watches.items() if served(kind)}
        return workload if len(kept) == len(workload.watches) else replace(workload, watches=kept)

    gated = {BUDGET: gates.budgets_pods, SPREAD: gates.workload_spread}
    wanted = (w for w in WORKLOADS if gated.get(w.kind, True))
    unknown = catalog.stored(CLONESET.kind) is None
    pods = tuple(watching(w) for w in wanted if served(w.kind) or (w is CLONESET and unknown))
    canaries = (CANARY_STEERING,) if served(CANARY_STEERING.kind) else ()
    nodes = (w for w in node_workloads(gates) if all(map(served, (w.kind, *w.owns, *w.watches))))
    return (*pods, *canaries, *nodes)


async def drive(
    gates: Gates, lease: Lease, live: LiveView, transport: Transport, clock: Clock,
    *, shard: Shard, engine: Engine,
) -> None:  # fmt: skip
    """Run our workload controllers while we hold `lease`, which fences all that they write, and
    until OpenKruise's manager gets the pods.

    They drive the workloads of `shard`; then `transport` is fenced by the lease of that shard.
    Pauses after failures grow: each start lists all pods, and a cluster may have no CloneSets.
    """
    failures, stopped = 0, ""
    while engine.name == OWN:
        began = clock.monotonic()
        try:
            await _drive_served(gates, lease, live, transport, clock, shard=shard, engine=engine)
        except* (ClusterFailed, ApiError) as lost:
            if clock.monotonic() - began >= RECOVERED_S:
                failures, stopped = 0, ""
            before, stopped = stopped, str(lost.exceptions[0])
            level = logging.INFO if stopped == before else logging.WARNING
            log.log(level, log_line("controllers-stopped", error=stopped))
            failures += 1
        else:
            failures, stopped = 0, ""
        await clock.sleep(
            pause_s(max(failures, 1), first_s=1.0, cap_s=LONGEST_PAUSE_S, seed=lease.name.identity)
        )
    await withdraw_canaries(transport)


async def _drive_served(
    gates: Gates, lease: Lease, live: LiveView, transport: Transport, clock: Clock,
    *, shard: Shard, engine: Engine,
) -> None:  # fmt: skip
    """Run the controllers of the kinds that the cluster serves, and others when it serves others.

    The lease is kept meanwhile: what the former ones have sent may still be on its way.
    """
    able = {HEEDS_CANARIES: STEERED} if live.catalog.stored(CLONESET.kind) else {}
    async with lease.held(able):
        while engine.name == OWN:
            parts = driven(live.catalog, gates)
            workloads = Controllers(
                parts, FencedTransport(transport, lease),
                live.catalog, clock, ControllerOptions(gates=gates, drives=shard.drives),
                live.share_workloads(), outages=live.outages,
            )  # fmt: skip
            live.others = (workloads,)
            try:
                async with asyncio.TaskGroup() as tasks:
                    driving = tasks.create_task(workloads.run())
                    while engine.name == OWN and parts == driven(live.catalog, gates):
                        await wait_for(engine.given_up, clock, _SERVED)
                    driving.cancel()
            finally:
                live.others = ()
            if live.catalog.stored(CLONESET.kind):
                lease.note(HEEDS_CANARIES, STEERED)


async def sandbox_controllers(transport: Transport, clock: Clock, gates: Gates) -> None:
    """OpenKruise's controllers and Kubernetes' own inside an embedded cluster, until cancelled."""
    await _drive_inside(EMBEDDED, transport, clock, gates, {HEEDS_CANARIES: BY_CONTROLLER})


async def kruise_controllers(transport: Transport, clock: Clock, gates: Gates) -> None:
    """OpenKruise's controllers alone: Kubernetes' own are the outside's, as its nodes are."""
    await _drive_inside((*WORKLOADS, *node_workloads(gates)), transport, clock, gates, {})


async def _drive_inside(
    workloads: Sequence[Workload[Any]], transport: Transport, clock: Clock, gates: Gates,
    marks: Mapping[str, str],
) -> None:  # fmt: skip
    """Drive `workloads` of an embedded cluster; `marks` say what they can do.

    They hold the workloads lease for good (no process can take it over), so that a
    `gitkruise run` on this cluster sees who drives its pods and does not drive them too.
    """
    await hold_workloads(transport, clock.now(), marks)
    controllers = Controllers(
        workloads, transport, load_catalog(), clock, ControllerOptions(gates=gates)
    )
    await controllers.run()
