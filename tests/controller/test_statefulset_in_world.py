"""The controller of Advanced StatefulSets live over a model cluster, as on a real one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.statefulset.plan import ADVANCED
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import ClusterLoop, run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.controllers.volumes import VolumeController
from gitkruise.world.kubelet.kubelet import Kubelet
from tests.clock import ManualClock
from tests.planner.statefulset.build import CLAIM, DATA, GATE, IN_PLACE, advanced

SETS = ResourceRef("apps.kruise.io", "v1beta1", "statefulsets")
DB = ObjectKey("apps.kruise.io", "StatefulSet", "shop", "db")
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.slow  # minutes of a cluster, played in virtual time
def test_a_canary_is_held_in_place_and_scaling_in_takes_claims_along() -> None:
    """No webhook defaults or checks the object here."""
    clock = ManualClock()
    world = World(load_catalog())
    cluster = Cluster(world, clock.now)
    transport = WorldTransport(cluster)

    async def send(verb: str, plural: ResourceRef, body: Obj, **where: Any) -> None:
        kind = MERGE_PATCH if verb == "patch" else "application/json"
        request = ApiRequest(verb=verb, resource=plural, body=body, content_type=kind, **where)
        await transport.send(request)

    async def main() -> None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await send("create", ResourceRef("", "v1", "namespaces"), space)
        await send("create", ResourceRef("", "v1", "nodes"), NODE)
        manifest = advanced(
            4,
            pod=GATE,
            rolling={**IN_PLACE, "partition": 2},
            volumeClaimTemplates=[DATA],
            persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"},
        )
        await send("create", SETS, manifest, namespace="shop")
        controllers = Controllers([ADVANCED], transport, load_catalog(), clock, ControllerOptions())
        async with asyncio.TaskGroup() as group:
            parts: list[ClusterLoop] = [VolumeController(), Scheduler(), Kubelet()]
            playing = group.create_task(run_parts(cluster, parts, clock))
            group.create_task(controllers.run())
            await clock.sleep(120)
            image = {"containers": [{"name": "app", "image": "app:v2"}]}
            change = {"spec": {"template": {"spec": image}}}
            await send("patch", SETS, change, namespace="shop", name="db")
            await clock.sleep(120)
            await send("patch", SETS, {"spec": {"replicas": 3}}, namespace="shop", name="db")
            await clock.sleep(120)
            controllers.stop()
            playing.cancel()

    clock.run(main())
    status = get(world.get(DB), "status")
    counts = {n: status[n] for n in ("replicas", "readyReplicas", "updatedReadyReplicas")}
    assert counts == {"replicas": 3, "readyReplicas": 3, "updatedReadyReplicas": 1}
    images = {
        pod["metadata"]["name"]: get(pod, "spec", "containers", 0, "image")
        for pod in world.objects(POD)
    }
    assert images == {"db-0": "app:v1", "db-1": "app:v1", "db-2": "app:v2"}
    owners = {
        claim["metadata"]["name"]: [ref["kind"] for ref in claim["metadata"]["ownerReferences"]]
        for claim in world.objects(CLAIM)
        if claim["metadata"].get("ownerReferences")
    }
    assert owners == {"data-db-3": ["Pod"]}  # no garbage collector runs here
