"""Requests the model cluster's own parts send, and how a key is turned into its resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gitkruise.errors import NotFound
from gitkruise.wire.names import Obj, ObjectKey, join_api_version, split_api_version
from gitkruise.wire.request import ApiRequest, ResourceRef

if TYPE_CHECKING:
    from gitkruise.wire.catalog import Catalog

PODS: Final = ResourceRef("", "v1", "pods")
NODES: Final = ResourceRef("", "v1", "nodes")


def resource_of(catalog: Catalog, key: ObjectKey, version: str) -> ResourceRef:
    """Where `key` is served in `version`. Raises NotFound when its kind is not served."""
    kind = catalog.by_kind(key.group, version, key.kind)
    if kind is None:
        group = join_api_version(key.group, version)
        raise NotFound(f'no matches for kind "{key.kind}" in version "{group}"')
    return kind.ref


def pod_status_request(pod: Obj, status: Obj) -> ApiRequest:
    """Replace the status of `pod`, in the version that was seen."""
    return ApiRequest(
        verb="update",
        resource=PODS,
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        subresource="status",
        body={**pod, "status": status},
    )


def create_request(catalog: Catalog, obj: Obj) -> ApiRequest:
    """Create `obj` where its apiVersion and namespace say. Raises NotFound for an unknown kind."""
    group, version = split_api_version(obj["apiVersion"])
    namespace = obj["metadata"].get("namespace") or ""
    key = ObjectKey(group, obj["kind"], namespace, "")
    return ApiRequest(
        verb="create", resource=resource_of(catalog, key, version), namespace=namespace, body=obj
    )
