"""WorkloadSpreads with live controllers: pods are deleted all the time, and the division holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import pytest

from gitkruise.admission.chain import admit
from gitkruise.controller.controllers import Controllers
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.workload_spread import subset_match
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SPREAD
from gitkruise.planner.spread.controller import SPREADS
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.scheduler import Scheduler, node_objects
from gitkruise.world.kubelet.kubelet import Kubelet
from tests.clock import ManualClock
from tests.worlds import SPACE, cloneset, spread, subset

CLONESETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
WORKLOADSPREADS: Final = ResourceRef("apps.kruise.io", "v1beta1", "workloadspreads")
LIMIT: Final = 4


class Divided:
    """A cluster with live controllers of CloneSets and WorkloadSpreads, and its pods."""

    def __init__(self) -> None:
        self.clock, gates = ManualClock(), Gates()
        self.world = World(load_catalog(), admit=lambda r: admit(r, gates), gates=gates)
        self.cluster = Cluster(self.world, self.clock.now)
        self.transport = WorldTransport(self.cluster)
        self.most = 0

    async def send(self, verb: str, ref: ResourceRef, body: Obj | None, **where: Any) -> None:
        kind = MERGE_PATCH if verb == "patch" else "application/json"
        await self.transport.send(
            ApiRequest(verb=verb, resource=ref, body=body, content_type=kind, **where)
        )

    def by_subset(self) -> Counter[str]:
        pods = (pod for pod in self.world.pods(SPACE) if pod.active)
        found = (subset_match(pod.annotations) for pod in pods)
        return Counter(match.subset if match else "" for match in found)

    async def disturbed(self, seconds: int) -> None:
        """Delete a pod every second, and look at the division ten times as often."""
        for turn in range(seconds * 10):
            names = sorted(pod.name for pod in self.world.pods(SPACE) if pod.active)
            if turn % 10 == 0 and names:
                name = names[turn // 10 % len(names)]
                await self.send("delete", PODS, None, namespace=SPACE, name=name)
            self.most = max(self.most, self.by_subset()["a"])
            await self.clock.sleep(0.1)


@pytest.mark.slow  # minutes of a cluster, played in virtual time
def test_no_subset_is_overfilled_while_pods_come_and_go() -> None:
    cast = Divided()

    async def main() -> None:
        await cast.send(
            "create", ResourceRef("", "v1", "namespaces"), {"metadata": {"name": SPACE}}
        )
        for node in node_objects(4):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            body = {**node, "status": {**node["status"], **ready}}
            await cast.send("create", ResourceRef("", "v1", "nodes"), body)
        zones = spread("zones", subset("a", LIMIT, zone="zone-a"), subset("b", zone="zone-b"))
        await cast.send("create", WORKLOADSPREADS, zones, namespace=SPACE)
        await cast.send("create", CLONESETS, cloneset(replicas=6), namespace=SPACE)
        controllers = Controllers([CLONESET, SPREADS], cast.transport, load_catalog(), cast.clock)
        async with asyncio.TaskGroup() as group:
            parts = group.create_task(run_parts(cast.cluster, [Scheduler(), Kubelet()], cast.clock))
            group.create_task(controllers.run())
            await cast.clock.sleep(60)
            assert cast.by_subset() == {"a": LIMIT, "b": 2}
            await cast.disturbed(60)
            await cast.clock.sleep(120)
            assert cast.by_subset() == {"a": LIMIT, "b": 2}
            smaller = {"spec": {"replicas": LIMIT}}
            await cast.send("patch", CLONESETS, smaller, namespace=SPACE, name="web")
            await cast.clock.sleep(60)
            controllers.stop()
            parts.cancel()

    cast.clock.run(main())
    assert cast.most == LIMIT
    assert cast.by_subset() == {"a": LIMIT}
    raw = cast.world.get(ObjectKey(*SPREAD, SPACE, "zones"))
    assert raw is not None
    (a, b) = raw["status"]["subsetStatuses"]
    assert (a["replicas"], a["missingReplicas"]) == (LIMIT, 0)
    assert (b["replicas"], b["missingReplicas"]) == (0, -1)
