"""The scale subresource: a workload's replicas as autoscaling/v1 Scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.admission.rules.request import UPDATE
from gitkruise.errors import BadRequest, Problem, invalid_object
from gitkruise.wire.catalog.kinds import ScalePaths
from gitkruise.wire.patch.json_patch import json_patch, merge_patch
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiReply,
)
from gitkruise.wire.values.selectors import label_selector
from gitkruise.world.api.writes import addressed
from gitkruise.world.apply.server_side_apply import apply
from gitkruise.world.store import api_errors
from gitkruise.world.store.commit import commit
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.write.decoding import check_body
from gitkruise.world.write.pipeline import changed_object
from gitkruise.world.write.webhook_pipeline import judge_part, reviewed_part

# Scale has no lists, so a strategic patch of it is a merge patch.
_FLAVOURS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
    STRATEGIC_PATCH: merge_patch,
}
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(call: RequestContext) -> ApiReply:
    return ApiReply(status=200, body=scale_of(call.shown(call.stored()), _paths(call)))


def update_scale(call: RequestContext) -> ApiReply:
    """PUT of a Scale."""
    return _rescaled(call, call.request.body)


def patch_scale(call: RequestContext) -> ApiReply:
    """PATCH of a Scale in any of the four flavours."""
    if call.request.content_type == APPLY_PATCH:
        return _applied(call)
    lay = _FLAVOURS.get(call.request.content_type)
    if lay is None or (call.kind.crd and call.request.content_type == STRATEGIC_PATCH):
        raise api_errors.unknown_media_type((*_FLAVOURS, APPLY_PATCH))
    scale = scale_of(call.shown(call.stored()), _paths(call))
    return _rescaled(call, lay(scale, call.request.body))


def _applied(call: RequestContext) -> ApiReply:
    """Server-side apply of a Scale: one of the workload that names its replicas alone."""
    scale = check_body(call.state.catalog.core, "Scale", call.request.body)
    named = f"{get(scale, 'apiVersion', default='')}, Kind={get(scale, 'kind', default='')}"
    if named != "autoscaling/v1, Kind=Scale":
        raise BadRequest(f"invalid object type: {named}")
    stored, kind = call.stored(), call.kind
    replicas = get(scale, "spec", "replicas")
    config: Obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}}
    if replicas is not None:
        config = put(config, _paths(call).replicas, replicas)
    merged, listed = apply(call, call.shown(stored), config)
    name = get(scale, "metadata", "name") or call.name
    return _rescaled(call, put(scale_of(merged, _paths(call)), ("metadata", "name"), name), listed)


def _paths(call: RequestContext) -> ScalePaths:
    if call.kind.scale is None:
        raise api_errors.no_such_resource()
    return call.kind.scale


def scale_of(obj: Obj, paths: ScalePaths) -> Obj:
    """The Scale of a workload; zeroes are left out, as Go does."""
    replicas = get(obj, *paths.replicas, default=0)
    status: dict[str, Any] = {"replicas": get(obj, *paths.status_replicas, default=0)}
    selector = get(obj, *paths.selector) if paths.selector else None
    if selector is not None:
        text = selector if isinstance(selector, str) else str(label_selector(selector))
        if text:
            status["selector"] = text
    meta = obj["metadata"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in _SHOWN if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _whole(call: RequestContext, scale: Any) -> Obj:
    """A Scale as it is decoded: a client may leave out what it is, and whose."""
    meta = {"name": call.name, "namespace": call.request.namespace}
    given = scale.get("metadata") or {}
    spec, status = scale.get("spec") or {}, {"replicas": 0, **(scale.get("status") or {})}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {**meta, **given},
        "spec": spec,
        "status": status,
    }


def _rescaled(
    call: RequestContext, scale: Any, listed: list[dict[str, Any]] | None = None
) -> ApiReply:
    """Store the replicas of a Scale. `listed` are the workload's managers after an apply."""
    scale = check_body(call.state.catalog.core, "Scale", scale)
    addressed(call, {"metadata": scale.get("metadata") or {}})
    stored, paths = call.stored(), _paths(call)
    old = call.shown(stored)
    before = scale_of(old, paths)
    if call.reviews is not None:
        scale = reviewed_part(call, UPDATE, _whole(call, scale), before)
    replicas = int(get(scale, "spec", "replicas", default=0))
    if replicas < 0 and not call.kind.crd:
        why = f"Invalid value: {replicas}: must be greater than or equal to 0"
        problem = Problem(("spec", "replicas"), "FieldValueInvalid", why)
        raise invalid_object("Scale", "autoscaling", call.name, [problem])
    meta = dict(old["metadata"])
    meta["resourceVersion"] = get(scale, "metadata", "resourceVersion", default="")
    new = put({**old, "metadata": meta}, paths.replicas, replicas)
    made = changed_object(call, old, new, listed)
    judge_part(call, UPDATE, scale_of(made, paths), before)
    result = stored if made is old else commit(call, stored, made)
    return ApiReply(status=200, body=scale_of(call.shown(result), paths))
