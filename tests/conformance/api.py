"""The few requests a scenario needs, against a World at a virtual instant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from gitkruise.errors import NotFound
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiRequest,
    ResourceRef,
)
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.api.cluster import World

KRUISE: Final = "apps.kruise.io"
SERVED: Final = {
    "Namespace": ResourceRef("", "v1", "namespaces"),
    "Node": ResourceRef("", "v1", "nodes"),
    "Pod": ResourceRef("", "v1", "pods"),
    "ConfigMap": ResourceRef("", "v1", "configmaps"),
    "PersistentVolumeClaim": ResourceRef("", "v1", "persistentvolumeclaims"),
    "ControllerRevision": ResourceRef("apps", "v1", "controllerrevisions"),
    "Deployment": ResourceRef("apps", "v1", "deployments"),
    "ReplicaSet": ResourceRef("apps", "v1", "replicasets"),
    "StatefulSet": ResourceRef("apps", "v1", "statefulsets"),
    "CloneSet": ResourceRef(KRUISE, "v1alpha1", "clonesets"),
    "SidecarSet": ResourceRef(KRUISE, "v1alpha1", "sidecarsets"),
    "ImagePullJob": ResourceRef(KRUISE, "v1beta1", "imagepulljobs"),
}
CLUSTER_SCOPED: Final = frozenset({"Namespace", "Node", "SidecarSet"})


class Api:
    """One namespace of a World, seen by a user at `now`.

    `marked` lets controllers act on a pod that somebody ends, before it is gone: an API server
    writes the mark and the removal one after the other.
    """

    def __init__(self, world: World, namespace: str, now: datetime) -> None:
        self.world, self.namespace, self.now = world, namespace, now
        self.marked: Callable[[], None] = lambda: None

    @property
    def stamp(self) -> str:
        return format_time(self.now)

    def ask(self, verb: str, kind: str, name: str = "", **more: Any) -> Obj:
        scope = "" if kind in CLUSTER_SCOPED else self.namespace
        request = ApiRequest(verb=verb, resource=SERVED[kind], namespace=scope, name=name, **more)
        return self.world.handle(request, self.now).body

    def create(self, obj: Obj) -> Obj:
        return self.ask("create", obj["kind"], body=obj)

    def list(self, kind: str) -> list[Obj]:
        found: list[Obj] = self.ask("list", kind)["items"]
        return found

    def find(self, kind: str, name: str) -> Obj | None:
        try:
            return self.ask("get", kind, name)
        except NotFound:
            return None

    def merge(self, kind: str, name: str, patch: Obj) -> Obj:
        return self.ask("patch", kind, name, body=patch, content_type=MERGE_PATCH)

    def json_patch(self, kind: str, name: str, operations: Any) -> Obj:
        return self.ask("patch", kind, name, body=operations, content_type=JSON_PATCH)

    def patch_status(self, kind: str, name: str, patch: Obj) -> Obj:
        more = {"subresource": "status", "content_type": STRATEGIC_PATCH}
        return self.ask("patch", kind, name, body=patch, **more)

    def bind(self, name: str, binding: Obj) -> Obj:
        return self.ask("create", "Pod", name, body=binding, subresource="binding")

    def delete(self, kind: str, name: str, **options: Any) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        if kind == "Pod" and options.get("gracePeriodSeconds") == 0:
            self.ask("delete", kind, name, body={**body, "gracePeriodSeconds": 1})
            self.marked()
        self.ask("delete", kind, name, body=body)
