"""Field adoption: what another tool applied before becomes ours, so that git can remove it.

Server-side apply deletes a field only when it has no owner left. A tool that is no longer used owns
its fields for ever, and fields removed from git would stay. So its entries of managedFields are
joined with ours once, when an object is taken over (as kubectl does when it moves from client-side
to server-side apply).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gitkruise.errors import Conflict
from gitkruise.kube.client.discovery import is_served
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.change import ObjectChange
from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.planner.sync.field_owners import in_version, owners_patch
from gitkruise.planner.sync.takeover import joined
from gitkruise.wire.primitives.names import Obj, join_api_version, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import JSON_PATCH, ApiRequest, ResourceRef

_TRIES: Final = 3
# Tools whose fields git may take over without asking: people moved on to git from them.
_KNOWN_TOOLS: Final = (
    "kubectl", "helm", "argocd", "kustomize-controller", "flux", "before-first-apply",
    "configsync", "kluctl", "gitkruise", "Go-http-client",
)  # fmt: skip


async def adopt(transport: Transport, applied: ApiRequest, reply: Obj) -> Obj:
    """Join what other appliers own of the object with ours, and apply once more.

    `applied` is the request that took the object over and `reply` its answer, which is returned
    when no other applier owns a field. Raises ApiError; Conflict when the object keeps changing.
    """
    for attempt in range(_TRIES):
        entries = joined(get(reply, "metadata", "managedFields", default=()))
        if entries is None:
            return reply
        try:
            await transport.send(_owned(applied, reply, entries))
            break
        except Conflict:
            if attempt == _TRIES - 1:
                raise
            reply = (await transport.send(applied)).body  # as it is now; nothing else changes
    return (await transport.send(applied)).body


async def restated(
    transport: Transport, applied: ApiRequest, stored: Obj
) -> tuple[Obj, ...] | None:
    """Return the entries of managedFields of a `stored` object with none in a version that is not
    served any more, written in that of `applied`; None without such an entry.

    kube-apiserver answers each apply of a custom resource with 500 while one names such a version.
    Raises ApiError.
    """
    entries = get(stored, "metadata", "managedFields", default=())
    resource = applied.resource
    present = join_api_version(resource.group, resource.version)
    gone = set()
    for written in {entry.get("apiVersion") or present for entry in entries} - {present}:
        _, version = split_api_version(written)
        if not await is_served(transport, ResourceRef(resource.group, version, resource.plural)):
            gone.add(written)
    return in_version(entries, gone, present) if gone else None


async def restate(
    transport: Transport, applied: ApiRequest, stored: Obj, entries: Sequence[Obj]
) -> None:
    """Give a `stored` object the field owners of `restated`. Raises ApiError."""
    await transport.send(_owned(applied, stored, entries))


def _owned(applied: ApiRequest, stored: Obj, entries: Sequence[Obj]) -> ApiRequest:
    """Return the request that replaces the field owners of `stored` as it is now."""
    return ApiRequest(
        verb="patch",
        resource=applied.resource,
        namespace=applied.namespace,
        name=applied.name,
        body=owners_patch(stored, entries),
        content_type=JSON_PATCH,
        params={"fieldManager": MANAGER},
    )


def of_known_tool(manager: str) -> bool:
    """Return whether git may take fields of `manager` over without asking."""
    return manager.startswith(_KNOWN_TOOLS)


def left_by_tools(change: ObjectChange) -> bool:
    """Return whether tools that git may take over from own everything that differs."""
    managers = {manager for field in change.fields for manager, _ in field.owners}
    return bool(managers) and all(of_known_tool(manager) for manager in managers)
