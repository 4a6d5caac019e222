"""Requests of the model cluster's own controllers, and the resource of an object key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gitkruise.errors import NotFound
from gitkruise.wire.primitives.names import (
    Obj,
    ObjectKey,
    join_api_version,
    key_of,
    split_api_version,
)
from gitkruise.wire.primitives.requests import JSON, MERGE_PATCH, PODS, ApiRequest, ResourceRef
from gitkruise.world.api.fast_pod_lifecycle import bind_pod, remove_pod
from gitkruise.world.write.fast_patch import update_status_fast

if TYPE_CHECKING:
    from gitkruise.wire.catalog.catalog import Catalog
    from gitkruise.world.api.cluster import World


def resource_of(catalog: Catalog, key: ObjectKey, version: str) -> ResourceRef:
    """Return the resource of `key` in `version`. Raises NotFound when its kind is not served."""
    kind = catalog.by_kind(key.group, version, key.kind)
    if kind is None:
        group = join_api_version(key.group, version)
        raise NotFound(f'no matches for kind "{key.kind}" in version "{group}"')
    return kind.ref


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes of one of the cluster's own controllers, as `user`. Each raises ApiError.

    `manager` is its field manager, "" for the one that follows from the user.
    """

    user: str
    manager: str = ""

    def create(self, world: World, obj: Obj, now: datetime) -> Obj:
        return self._send(world, "create", obj, now, body=obj)

    def update(self, world: World, obj: Obj, now: datetime, *, subresource: str = "") -> Obj:
        return self._send(world, "update", obj, now, body=obj, subresource=subresource)

    def patch(
        self, world: World, obj: Obj, change: Obj, now: datetime, *, subresource: str = ""
    ) -> Obj:
        """Merge `change` into an object."""
        return self._send(world, "patch", obj, now, body=change, subresource=subresource)

    def delete(self, world: World, obj: Obj, now: datetime, options: Obj | None = None) -> None:
        self._send(world, "delete", obj, now, body=options)

    def _send(
        self, world: World, verb: str, obj: Obj, now: datetime, *, body: Any, subresource: str = ""
    ) -> Obj:
        key, (_, version) = key_of(obj), split_api_version(obj["apiVersion"])
        managed = self.manager and verb != "delete"
        request = ApiRequest(
            verb=verb,
            resource=resource_of(world.catalog, key, version),
            namespace=key.namespace,
            name="" if verb == "create" else key.name,
            subresource=subresource,
            body=body,
            content_type=MERGE_PATCH if verb == "patch" else JSON,
            params={"fieldManager": self.manager} if managed else {},
        )
        return world.handle(request, now, user=self.user).body


def write_status(world: World, pod: Obj, status: Obj, now: datetime, *, user: str) -> Obj:
    """Write another status of `pod`, in the version that was read; return the stored pod.

    Raises ApiError.
    """
    meta = pod["metadata"]
    if world.state.fast_path:
        key = ObjectKey("", "Pod", meta["namespace"], meta["name"])
        if (made := update_status_fast(world.state, key, "v1", pod, status)) is not None:
            return made
    changed = {**pod, "status": status}
    return ObjectWriter(user).update(world, changed, now, subresource="status")


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
