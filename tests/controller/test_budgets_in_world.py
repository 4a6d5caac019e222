"""PodUnavailableBudgets with live controllers: a rollout and evictions share one budget."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from gitkruise.admission.chain import admit
from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import Forbidden
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.budgets.availability import is_available
from gitkruise.planner.budgets.status import BUDGETS
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.kubelet.kubelet import Kubelet
from tests.clock import ManualClock
from tests.worlds import SPACE, budget, cloneset, template

GATES: Final = Gates(pod_unavailable_budget_update_gate=True)
CLONESETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
NODE: Final = {
    "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


class Cast:
    """A cluster with live controllers of CloneSets and budgets, and its pods."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.world = World(load_catalog(), admit=lambda r: admit(r, GATES), gates=GATES)
        self.cluster = Cluster(self.world, self.clock.now)
        self.transport = WorldTransport(self.cluster)
        self.lowest, self.evicted = 99, 0

    async def send(self, verb: str, ref: ResourceRef, body: Obj, **where: Any) -> None:
        kind = MERGE_PATCH if verb == "patch" else "application/json"
        await self.transport.send(
            ApiRequest(verb=verb, resource=ref, body=body, content_type=kind, **where)
        )

    def up(self) -> Iterator[str]:
        """Names of the available pods."""
        for pod in self.world.pods(SPACE):
            if pod.deleting is None and is_available(pod):
                yield pod.name

    async def evict(self, name: str) -> None:
        """Evict a pod if its budget lets it go."""
        meta = {"name": name, "namespace": SPACE}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        try:
            await self.send(
                "create", PODS, body, namespace=SPACE, name=name, subresource="eviction"
            )
        except Forbidden:
            return
        self.evicted += 1

    async def watched(self, seconds: int, *, evicts: bool) -> None:
        for turn in range(seconds * 10):
            names = sorted(self.up())
            self.lowest = min(self.lowest, len(names))
            if evicts and names:
                await self.evict(names[turn % len(names)])
            await self.clock.sleep(0.1)


@pytest.mark.slow  # minutes of a cluster, played in virtual time
@pytest.mark.parametrize("policy", ["InPlaceIfPossible", "ReCreate"])
def test_a_rollout_and_evictions_never_take_more_than_the_budget(policy: str) -> None:
    cast = Cast()

    async def main() -> None:
        space = {"metadata": {"name": SPACE}}
        await cast.send("create", ResourceRef("", "v1", "namespaces"), space)
        await cast.send("create", ResourceRef("", "v1", "nodes"), NODE)
        web = cloneset("web", 5, podUpdatePolicy=policy, maxUnavailable=5)
        await cast.send("create", CLONESETS, web, namespace=SPACE)
        pub = ResourceRef("policy.kruise.io", "v1beta1", "podunavailablebudgets")
        await cast.send("create", pub, budget(maxUnavailable=2), namespace=SPACE)
        controllers = Controllers(
            [CLONESET, BUDGETS],
            cast.transport,
            load_catalog(),
            cast.clock,
            ControllerOptions(gates=GATES),
        )
        async with asyncio.TaskGroup() as group:
            parts = group.create_task(run_parts(cast.cluster, [Scheduler(), Kubelet()], cast.clock))
            group.create_task(controllers.run())
            await cast.clock.sleep(60)
            new = {"spec": {"template": template("app:v2")}}
            await cast.send("patch", CLONESETS, new, namespace=SPACE, name="web")
            await cast.watched(60, evicts=True)
            await cast.watched(180, evicts=False)
            controllers.stop()
            parts.cancel()

    cast.clock.run(main())
    raw = cast.world.get(WEB)
    assert raw is not None
    assert raw["status"]["updatedAvailableReplicas"] == 5
    assert cast.lowest == 3, "the budget is used, and not more than that"
    assert cast.evicted > 0
