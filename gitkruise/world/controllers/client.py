"""Requests of the model cluster's own controllers, and the resource of an object key."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import NotFound
from gitkruise.wire.primitives.names import Obj, ObjectKey, join_api_version
from gitkruise.wire.primitives.requests import PODS, ApiRequest, ResourceRef
from gitkruise.world.api.fast_pod_lifecycle import bind_pod, remove_pod
from gitkruise.world.write.fast_patch import update_status_fast

if TYPE_CHECKING:
    from gitkruise.wire.catalog.catalog import Catalog
    from gitkruise.world.api.cluster import World

NODES: Final = ResourceRef("", "v1", "nodes")


def resource_of(catalog: Catalog, key: ObjectKey, version: str) -> ResourceRef:
    """Return the resource of `key` in `version`. Raises NotFound when its kind is not served."""
    kind = catalog.by_kind(key.group, version, key.kind)
    if kind is None:
        group = join_api_version(key.group, version)
        raise NotFound(f'no matches for kind "{key.kind}" in version "{group}"')
    return kind.ref


def write_status(world: World, pod: Obj, status: Obj, now: datetime, *, user: str) -> Obj:
    """Write another status of `pod`, in the version that was read; return the stored pod.

    Raises ApiError.
    """
    meta = pod["metadata"]
    if world.state.fast_path:
        key = ObjectKey("", "Pod", meta["namespace"], meta["name"])
        if (made := update_status_fast(world.state, key, "v1", pod, status)) is not None:
            return made
    request = ApiRequest(
        verb="update",
        resource=PODS,
        namespace=meta["namespace"],
        name=meta["name"],
        subresource="status",
        body={**pod, "status": status},
    )
    return world.handle(request, now, user=user).body


def bind(world: World, key: ObjectKey, pod: Obj, node: str, now: datetime, *, user: str) -> None:
    """Bind `pod` to a node. Raises ApiError."""
    if world.state.fast_path and bind_pod(world.state, key, pod, node, now) is not None:
        return
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    request = ApiRequest(
        verb="create",
        resource=PODS,
        namespace=key.namespace,
        name=key.name,
        subresource="binding",
        body=body,
    )
    world.handle(request, now, user=user)


def remove(world: World, key: ObjectKey, uid: str, now: datetime, *, user: str) -> None:
    """Delete a pod that has stopped, without grace. Raises ApiError."""
    if world.state.fast_path and remove_pod(world.state, key, uid):
        return
    body = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": uid},
    }
    request = ApiRequest(
        verb="delete", resource=PODS, namespace=key.namespace, name=key.name, body=body
    )
    world.handle(request, now, user=user)
