"""API requests and replies as values: what is asked, without saying how it travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gitkruise.wire.primitives.names import Obj

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

OPENED: Final = "OPENED"  # the type of an event that no server sends

VERBS: Final = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
)


class ResourceRef(NamedTuple):
    """Group, version and plural name of a served kind. The core group is "".

    A ref without a version is a page of its own, as `/version`.
    """

    group: str
    version: str
    plural: str

    @property
    def root(self) -> str:
        if not self.version:
            return ""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


NAMESPACES: Final = ResourceRef("", "v1", "namespaces")
PODS: Final = ResourceRef("", "v1", "pods")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request to an API server.

    `params` are the query parameters by their wire names (labelSelector, fieldSelector, limit,
    continue, resourceVersion, resourceVersionMatch, dryRun, fieldManager, force,
    fieldValidation, propagationPolicy, gracePeriodSeconds, timeoutSeconds, allowWatchBookmarks,
    sendInitialEvents). `body` is decoded JSON: an object, or a list of JSON-patch operations.
    `user` and `groups` impersonate; "" is the caller itself.
    """

    verb: str
    resource: ResourceRef
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: Any = None
    content_type: str = JSON
    params: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.verb not in VERBS:
            raise ValueError(f"{self.verb!r} is no verb")

    @property
    def path(self) -> str:
        """The URL path: `/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web/status`."""
        space = ["namespaces", self.namespace] if self.namespace else []
        parts = [*space, self.resource.plural, self.name, self.subresource]
        return "/".join([self.resource.root, *filter(None, parts)])


def apply_request(
    ref: ResourceRef,
    obj: Obj,
    manager: str,
    *,
    namespace: str = "",
    force: bool = False,
    dry_run: bool = False,
) -> ApiRequest:
    """A server-side apply of `obj` by a field manager, which `force` lets take fields of others."""
    return ApiRequest(
        verb="patch",
        resource=ref,
        namespace=namespace,
        name=obj["metadata"]["name"],
        body=obj,
        content_type=APPLY_PATCH,
        params={
            "fieldManager": manager,
            "force": str(force).lower(),
            **({"dryRun": "All"} if dry_run else {}),
        },
    )


def merge_request(
    ref: ResourceRef,
    name: str,
    body: Obj,
    manager: str = "",
    *,
    namespace: str = "",
    subresource: str = "",
) -> ApiRequest:
    """A JSON merge patch; without a manager the server names one after the client."""
    return ApiRequest(
        verb="patch",
        resource=ref,
        namespace=namespace,
        name=name,
        subresource=subresource,
        body=body,
        content_type=MERGE_PATCH,
        params={"fieldManager": manager} if manager else {},
    )


class ApiReply(NamedTuple):
    """A successful reply (2xx; failures are raised): HTTP status and decoded body."""

    status: int
    body: Obj
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One line of a watch: type is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.

    OPENED comes from a transport instead: the server accepted the watch, which may be quiet.
    """

    type: str
    object: Obj
