"""create, update and patch: from a request's body to a stored object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.errors import BadRequest, Problem, Unreasoned
from gitkruise.wire.patch.json_patch import json_patch, merge_patch
from gitkruise.wire.patch.strategic_merge import strategic_patch
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiReply,
)
from gitkruise.world.api.unavailable_budgets import spend_update
from gitkruise.world.api.workload_spreads import record_creation
from gitkruise.world.apply.server_side_apply import apply
from gitkruise.world.store import api_errors
from gitkruise.world.store.commit import commit, namespace_key
from gitkruise.world.store.names import generated_name
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.write.object_meta import SCHEME, check_type
from gitkruise.world.write.pipeline import decoded
from gitkruise.world.write.webhook_pipeline import changed_object, new_object

NAME_ATTEMPTS: Final = 8
PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
# Kinds a PUT creates when they are not there. Source: AllowCreateOnUpdate of the registry.
PUT_CREATES: Final = frozenset(
    {
        GroupKind("", "Event"),
        GroupKind("", "Endpoints"),
        GroupKind("", "LimitRange"),
        GroupKind("", "Service"),
        GroupKind("events.k8s.io", "Event"),
        GroupKind("coordination.k8s.io", "Lease"),
        GroupKind("rbac.authorization.k8s.io", "Role"),
        GroupKind("rbac.authorization.k8s.io", "RoleBinding"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    }
)


def create(call: RequestContext) -> ApiReply:
    """POST: 201 with the object. Raises AlreadyExists; NotFound, Forbidden for its namespace."""
    obj = check_type(call.kind, call.request.body)
    if obj["metadata"].get("resourceVersion"):
        raise Unreasoned("resourceVersion should not be set on objects to be created")
    return _created(call, _named(call, _in_namespace(call, obj)))


def _created(
    call: RequestContext, obj: Obj, listed: list[dict[str, Any]] | None = None
) -> ApiReply:
    name = obj["metadata"]["name"]
    _check_namespace(call, name)
    made = new_object(call, obj, listed)
    name = made["metadata"]["name"]  # a webhook may have given it another
    there = call.state.get(call.key(name))
    if there is not None:
        going = "deletionTimestamp" in there["metadata"]
        generated = bool(made["metadata"].get("generateName"))
        raise api_errors.already_exists(call.kind, name, going=going, generated=generated)
    stored = commit(call, None, made)
    record_creation(call, stored)
    return _reply(call, stored, status=201)


def _named(call: RequestContext, obj: Obj) -> Obj:
    """`obj` with a name: its own, or one made from generateName that is not taken."""
    meta = obj["metadata"]
    if meta.get("name"):
        return obj
    base = meta.get("generateName")
    if not base:
        problem = Problem(
            ("metadata", "name"),
            "FieldValueRequired",
            "Required value: name or generateName is required",
        )
        raise api_errors.invalid(call.kind, "", [problem])
    names = (
        generated_name(call.state, base, attempt, ticket=call.ticket)
        for attempt in range(NAME_ATTEMPTS)
    )
    free = next((name for name in names if call.state.get(call.key(name)) is None), None)
    if free is None:
        raise api_errors.already_exists(call.kind, generated_name(call.state, base, 0))
    return {**obj, "metadata": {**meta, "name": free}}


def _in_namespace(call: RequestContext, obj: Obj) -> Obj:
    """`obj` with the namespace of the request, which is none for kinds that live in none.

    Raises BadRequest when it names another. Source: EnsureObjectNamespaceMatchesRequestNamespace.
    """
    meta = obj["metadata"]
    wanted = call.request.namespace if call.kind.namespaced else ""
    given = meta.get("namespace") or ""
    if given and wanted and given != wanted:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if given == wanted:
        return obj
    if not wanted:
        return {**obj, "metadata": {k: v for k, v in meta.items() if k != "namespace"}}
    return {**obj, "metadata": {**meta, "namespace": wanted}}


def _check_namespace(call: RequestContext, name: str) -> None:
    """Nothing is created in a namespace that is missing or going away."""
    if not call.kind.namespaced:
        return
    namespace = call.request.namespace
    found = call.state.get(namespace_key(namespace))
    if found is None:
        raise api_errors.no_namespace(namespace)
    if found["metadata"].get("deletionTimestamp"):
        raise api_errors.terminating(call.kind, name, namespace)


def update(call: RequestContext) -> ApiReply:
    """PUT of an object or of its status: 200, or 201 for the kinds a PUT creates."""
    new = addressed(call, _in_namespace(call, check_type(call.kind, call.request.body)))
    if call.state.get(call.key()) is None and call.kind.group_kind in PUT_CREATES:
        return _created(call, {**new, "metadata": {**new["metadata"], "resourceVersion": ""}})
    if call.state.get(call.key()) is None:
        decoded(call, new)
    return _changed(call, call.stored(), new)


def addressed(call: RequestContext, obj: Obj) -> Obj:
    """`obj`, whose name must be the one of the URL."""
    name = obj["metadata"].get("name")
    if not name:
        raise BadRequest(
            f"the name of the object ({call.name} based on URL) was undeterminable:"
            " name must be provided"
        )
    if name != call.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )
    return obj


def _changed(
    call: RequestContext, stored: Obj, new: Obj, listed: list[dict[str, Any]] | None = None
) -> ApiReply:
    old = call.shown(stored)
    made = changed_object(call, old, new, listed)
    if made is old:
        return _reply(call, stored, status=200)
    spend_update(call, old, made)
    return _reply(call, commit(call, stored, made), status=200)


def patch(call: RequestContext) -> ApiReply:
    """PATCH in any of the four flavours: 200, or 201 when an apply creates the object."""
    flavour = call.request.content_type
    if flavour not in PATCHES:
        raise api_errors.unknown_media_type(accepted(call))
    if flavour == APPLY_PATCH:
        return _applied(call)
    if flavour == STRATEGIC_PATCH and call.kind.crd:
        raise api_errors.unknown_media_type(accepted(call))
    stored = call.stored()
    old = call.shown(stored)
    new = patched(call, old, _FLAVOURS[flavour])
    return _changed(call, stored, addressed(call, _in_namespace(call, new)))


def accepted(call: RequestContext) -> tuple[str, ...]:
    """The patch flavours the kind takes."""
    return tuple(
        flavour for flavour in PATCHES if not (flavour == STRATEGIC_PATCH and call.kind.crd)
    )


def patched(call: RequestContext, old: Obj, lay: Callable[[RequestContext, Obj], Any]) -> Obj:
    """`old` with the request's patch laid over it; still of its kind."""
    new = lay(call, old)
    if not isinstance(new, dict | Mapping):
        raise api_errors.rejected_patch("Invalid value: the patched object is not an object")
    meta = new.get("metadata")
    if meta is not None and not isinstance(meta, dict | Mapping):
        raise api_errors.rejected_patch("Invalid value: metadata is not an object")
    for name in ("apiVersion", "kind"):
        if new.get(name) != old[name]:
            mismatch = (
                f'kind "{new.get("kind")}" is registered for version "{new.get("apiVersion")}"'
            )
            why = f'{api_errors.quoted(new)}: no {mismatch} in scheme "{SCHEME}"'
            raise api_errors.rejected_patch(f"Invalid value: {why}")
    return new if meta is not None else {**new, "metadata": {}}


def _json(call: RequestContext, old: Obj) -> Any:
    operations = call.request.body
    return json_patch(old, operations)


def _merge(call: RequestContext, old: Obj) -> Any:
    return merge_patch(old, _map_of(call))


def _strategic(call: RequestContext, old: Obj) -> Any:
    return strategic_patch(old, _map_of(call), call.kind.schema)


def _map_of(call: RequestContext) -> Mapping[str, Any]:
    body = call.request.body
    if not isinstance(body, Mapping):
        raise BadRequest(
            "error decoding patch: json: cannot unmarshal array into Go value of type"
            " map[string]interface {}"
        )
    return body


_FLAVOURS: Final[Mapping[str, Callable[[RequestContext, Obj], Any]]] = {
    JSON_PATCH: _json,
    MERGE_PATCH: _merge,
    STRATEGIC_PATCH: _strategic,
}


def _applied(call: RequestContext) -> ApiReply:
    """Server-side apply; creates the object (not its subresources) when it is not there."""
    config = _config(call)
    stored = call.state.get(call.key())
    if stored is None:
        if call.subresource:
            raise api_errors.not_found(call.kind, call.name)
        return _apply_created(call, addressed(call, config))
    name = config["metadata"].get("name") or call.name
    config = {**config, "metadata": {**config["metadata"], "name": name}}
    merged, listed = apply(call, call.shown(stored), config)  # conflicts come before another name
    return _changed(call, stored, addressed(call, merged), listed)


def _apply_created(call: RequestContext, config: Obj) -> ApiReply:
    uid = get(config, "metadata", "uid")
    if uid:
        found = "and no existing object was found"
        why = f"uid mismatch: the provided object specified uid {uid}, {found}"
        raise api_errors.conflict(call.kind, call.name, why)
    merged, listed = apply(call, None, config)
    return _created(call, merged, listed)


def _config(call: RequestContext) -> Obj:
    body = call.request.body
    group_version = body.get("apiVersion") if isinstance(body, Mapping) else ""
    kind = body.get("kind") if isinstance(body, Mapping) else ""
    if group_version != call.kind.api_version or kind != call.kind.kind:
        slash = "" if "/" in str(group_version or "") else "/"
        raise BadRequest(f"invalid object type: {slash}{group_version or ''}, Kind={kind or ''}")
    return _in_namespace(call, check_type(call.kind, body))


def _reply(call: RequestContext, stored: Obj, *, status: int) -> ApiReply:
    return ApiReply(status=status, body=call.shown(stored), warnings=tuple(call.warnings))
