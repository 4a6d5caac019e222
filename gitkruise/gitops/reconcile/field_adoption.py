"""Field adoption: what another tool applied before becomes ours, so that git can remove it.

Server-side apply deletes a field only when it has no owner left. A tool that is no longer used owns
its fields for ever, and fields removed from git would stay. So its entries of managedFields are
joined with ours once, when an object is taken over (as kubectl does when it moves from client-side
to server-side apply).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitkruise.errors import Conflict
from gitkruise.kube.client.transport import Transport
from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import JSON_PATCH, ApiRequest

# Those that apply whole manifests. What a person edited by hand stays that person's.
_APPLIERS: Final = frozenset(
    {
        "kubectl", "kubectl-client-side-apply", "kubectl-create", "kubectl-replace",
        "before-first-apply", "helm", "Helm", "helm-controller", "kustomize-controller",
        "argocd-controller", "argocd-application-controller", "configsync.gke.io", "kluctl",
    }
)  # fmt: skip
_TRIES: Final = 3


async def adopt(transport: Transport, applied: ApiRequest, reply: Obj) -> Obj:
    """Join what other appliers own of the object with ours, and apply once more.

    `applied` is the request that took the object over and `reply` its answer, which is returned
    when no other applier owns a field. Raises ApiError; Conflict when the object keeps changing.
    """
    for attempt in range(_TRIES):
        entries = joined(get(reply, "metadata", "managedFields", default=()))
        if entries is None:
            return reply
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {
                "op": "replace",
                "path": "/metadata/resourceVersion",
                "value": get(reply, "metadata", "resourceVersion"),
            },
        ]
        try:
            await transport.send(_joining(applied, patch))
            break
        except Conflict:
            if attempt == _TRIES - 1:
                raise
            reply = (await transport.send(applied)).body  # as it is now; nothing else changes
    return (await transport.send(applied)).body


def joined(managed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """Return managedFields with other appliers' fields in ours; None when there are none."""
    theirs = [entry for entry in managed if _is_applier(entry)]
    mine = next((entry for entry in managed if _is_ours(entry)), None)
    if not theirs or mine is None:
        return None
    fields: Mapping[str, Any] = mine.get("fieldsV1", {})
    for entry in theirs:
        fields = _union(fields, entry.get("fieldsV1", {}))
    rest = [entry for entry in managed if entry is not mine and entry not in theirs]
    return [*rest, {**mine, "fieldsV1": fields}]


def _is_applier(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") in _APPLIERS and not entry.get("subresource")


def _is_ours(entry: Mapping[str, Any]) -> bool:
    mine = entry.get("manager") == MANAGER and entry.get("operation") == "Apply"
    return mine and not entry.get("subresource")


def _union(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two FieldsV1 sets; a member without children is an empty map."""
    out: dict[str, Any] = dict(left)
    for element, below in right.items():
        if element not in out:
            out[element] = below
        elif bool(out[element]) is bool(below):
            out[element] = _union(out[element], below)
        else:  # one names the field as a whole, the other what is in it: both are kept
            out[element] = {".": {}, **(out[element] or below)}
    return out


def _joining(applied: ApiRequest, patch: list[dict[str, Any]]) -> ApiRequest:
    return ApiRequest(
        verb="patch",
        resource=applied.resource,
        namespace=applied.namespace,
        name=applied.name,
        body=patch,
        content_type=JSON_PATCH,
        params={"fieldManager": MANAGER},
    )
