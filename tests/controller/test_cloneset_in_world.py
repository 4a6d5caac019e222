"""The CloneSet controller live over the model cluster: store, executor and planner together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.workloads import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import run_parts
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.kubelet.kubelet import Kubelet
from tests.clock import ManualClock

CLONESETS = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
WEB = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
MANIFEST: dict[str, Any] = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": 2},
        },
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "nginx:1"}]},
        },
    },
}


def image(tag: str) -> Obj:
    containers = [{"name": "app", "image": f"nginx:{tag}"}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


VOLUME: dict[str, Any] = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def test_flow_31_the_claim_of_a_pod_deleted_without_grace_is_handed_to_it() -> None:
    """The pod is there between its mark and its removal; no garbage collector runs here."""
    clock = ManualClock()
    cluster = Cluster(World(load_catalog()), clock.now)
    transport = WorldTransport(cluster)
    extra = {"volumeClaimTemplates": [VOLUME], "scaleStrategy": {"disablePVCReuse": True}}
    manifest = {**MANIFEST, "spec": {**MANIFEST["spec"], **extra}}

    async def main() -> None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        spaces = ResourceRef("", "v1", "namespaces")
        await transport.send(ApiRequest(verb="create", resource=spaces, body=space))
        await transport.send(
            ApiRequest(verb="create", resource=CLONESETS, namespace="shop", body=manifest)
        )
        controllers = Controllers([CLONESET], transport, load_catalog(), clock, ControllerOptions())
        async with asyncio.TaskGroup() as group:
            group.create_task(controllers.run())
            await clock.sleep(5)
            gone = cluster.world.objects(POD, "shop")[0]
            await transport.send(
                ApiRequest(
                    verb="delete",
                    resource=ResourceRef("", "v1", "pods"),
                    namespace="shop",
                    name=gone["metadata"]["name"],
                    body={"gracePeriodSeconds": 0},
                )
            )
            await clock.sleep(5)
            controllers.stop()
        owners = [
            (ref["kind"], ref["name"])
            for claim in cluster.world.objects(GroupKind("", "PersistentVolumeClaim"), "shop")
            for ref in claim["metadata"]["ownerReferences"]
        ]
        assert sorted(owners) == [
            *[("CloneSet", "web")] * 4,
            ("Pod", gone["metadata"]["name"]),
        ]

    clock.run(main())


@pytest.mark.slow  # minutes of a cluster, played in virtual time
def test_a_canary_is_held_in_place_and_the_store_is_the_world() -> None:
    clock = ManualClock()
    world = World(load_catalog())
    cluster = Cluster(world, clock.now)
    transport = WorldTransport(cluster)

    async def send(verb: str, plural: ResourceRef, body: Obj, **where: Any) -> None:
        kind = MERGE_PATCH if verb == "patch" else "application/json"
        request = ApiRequest(verb=verb, resource=plural, body=body, content_type=kind, **where)
        await transport.send(request)

    async def main() -> Controllers:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await send("create", ResourceRef("", "v1", "namespaces"), space)
        await send("create", ResourceRef("", "v1", "nodes"), NODE)
        await send("create", CLONESETS, MANIFEST, namespace="shop")
        controllers = Controllers([CLONESET], transport, load_catalog(), clock, ControllerOptions())
        async with asyncio.TaskGroup() as group:
            parts = group.create_task(run_parts(cluster, [Scheduler(), Kubelet()], clock))
            group.create_task(controllers.run())
            await clock.sleep(120)
            await send("patch", CLONESETS, image("2"), namespace="shop", name="web")
            await clock.sleep(300)
            controllers.stop()
            parts.cancel()
        return controllers

    controllers = clock.run(main())
    status = get(world.get(WEB), "status")
    assert {n: status[n] for n in ("replicas", "readyReplicas", "updatedReadyReplicas")} == {
        "replicas": 4,
        "readyReplicas": 4,
        "updatedReadyReplicas": 2,
    }
    images = sorted(get(pod, "spec", "containers", 0, "image") for pod in world.objects(POD))
    assert images == ["nginx:1", "nginx:1", "nginx:2", "nginx:2"]
    for kind in (POD, GroupKind("apps", "ControllerRevision")):
        held = {(s.uid, s.version) for s in controllers.store.all_seen(kind)}
        truth = [obj["metadata"] for obj in world.objects(kind)]
        assert held == {(meta["uid"], int(meta["resourceVersion"])) for meta in truth}
