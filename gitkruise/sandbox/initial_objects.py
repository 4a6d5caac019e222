"""Objects that a sandbox creates at its start, in addition to a World's own: nodes and CRDs."""

from __future__ import annotations

from datetime import datetime

from gitkruise.errors import AlreadyExists
from gitkruise.kube.system.package_data import embedded_crds
from gitkruise.wire.primitives.names import GroupKind, Obj, key_of
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.scheduler import add_nodes

POD = GroupKind("", "Pod")


def bootstrap(world: World, now: datetime, *, nodes: int) -> None:
    """Create missing objects; existing ones stay as they are."""
    for crd in embedded_crds():
        _ensure(world, crd, now)
    if nodes:
        add_nodes(world, nodes, now)
    _finish(world, now)


def _finish(world: World, now: datetime) -> None:
    """Remove pods that a server which was killed had marked and not yet taken out."""
    for pod in world.objects(POD):
        meta = pod["metadata"]
        if meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers"):
            request = ApiRequest(
                verb="delete", resource=PODS, namespace=meta["namespace"], name=meta["name"]
            )
            world.handle(request, now)


def _ensure(world: World, obj: Obj, now: datetime) -> None:
    if world.get(key_of(obj)) is not None:
        return
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = world.catalog.by_kind(group, version, obj["kind"])
    assert kind is not None, obj["kind"]
    request = ApiRequest(
        verb="create", resource=kind.ref, body=obj, params={"fieldManager": "gitkruise"}
    )
    try:
        world.handle(request, now)
    except AlreadyExists:
        return
