"""Routes from requests to handlers: one table of verbs and one of subresources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from gitkruise.errors import ApiError, BadRequest
from gitkruise.model.planning.plan import Action, Create, Delete, Patch
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.api.binding_eviction import bind, evict
from gitkruise.world.api.delete import delete, delete_collection
from gitkruise.world.api.fast_pod_lifecycle import create_pod, delete_pod
from gitkruise.world.api.reads import get_object, list_objects
from gitkruise.world.api.scale import patch_scale, read_scale, update_scale
from gitkruise.world.api.writes import create, patch, update
from gitkruise.world.store import api_errors
from gitkruise.world.store.request_context import RequestContext, WriteOptions, read_options
from gitkruise.world.store.store import ObjectStore
from gitkruise.world.store.strategies import POD, WRITABLE
from gitkruise.world.store.webhook_rounds import Reviews
from gitkruise.world.write.fast_patch import patch_fast
from gitkruise.world.write.review_apis import REVIEWS, review
from gitkruise.world.write.warnings import OUTDATED

Verb = Callable[[RequestContext], ApiReply]
BINDING: Final = GroupKind("", "Binding")
_VERBS: Final[Mapping[str, Verb]] = {
    "get": get_object,
    "list": list_objects,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}
_NAMED: Final = frozenset({"get", "update", "patch", "delete"})
_WRITES: Final = frozenset({"create", "update", "patch"})
_SUBRESOURCES: Final[Mapping[tuple[str, str], Verb]] = {
    ("get", "scale"): read_scale,
    ("update", "scale"): update_scale,
    ("patch", "scale"): patch_scale,
    ("create", "binding"): bind,
    ("create", "eviction"): evict,
    **{("get", name): get_object for name in WRITABLE},
    **{("update", name): update for name in WRITABLE},
    **{("patch", name): patch for name in WRITABLE},
}


def handle(
    state: ObjectStore,
    request: ApiRequest,
    now: datetime,
    *,
    user: str,
    reviews: Reviews | None = None,
) -> ApiReply:
    """See World.handle."""
    kind = state.catalog.by_ref(request.resource)
    if kind is None:
        raise api_errors.no_such_resource()
    verb = _verb_of(kind, request)
    outdated = (kind.deprecation,) if kind.deprecation else OUTDATED.get(kind.group_kind, ())
    warnings = list(outdated)
    try:
        options = read_options(request) if request.verb in _WRITES else WriteOptions()
        call = RequestContext(
            state=state,
            kind=kind,
            request=request,
            now=now,
            user=user,
            options=options,
            reviews=reviews,
            warnings=warnings,
        )
        reply = verb(call)
        return reply._replace(warnings=tuple(warnings)) if outdated else reply
    except ApiError as error:
        error.warnings = tuple(warnings)
        raise


def try_fast(state: ObjectStore, action: Action, now: datetime) -> Obj | None:
    """See World.try_fast."""
    if not state.fast_path:
        return None
    match action:
        case Patch():
            return patch_fast(state, action)
        case Create():
            return create_pod(state, action, now)
        case Delete():
            return delete_pod(state, action, now)


def _verb_of(kind: Kind, request: ApiRequest) -> Verb:
    """The function for a request. Raises NotFound or MethodNotAllowed where no route leads."""
    if kind.group_kind in REVIEWS and request.verb == "create":
        return review
    if kind.group_kind == BINDING and request.verb == "create":
        return _bind_by_body
    if bool(request.namespace) and not kind.namespaced:
        raise api_errors.no_such_resource()
    _check_route(kind, request)
    if request.subresource:
        if request.subresource not in kind.subresources:
            raise api_errors.no_such_resource()
        found = _SUBRESOURCES.get((request.verb, request.subresource))
    else:
        found = _VERBS.get(request.verb) if request.verb in kind.verbs else None
    if found is None:
        raise api_errors.no_such_method()
    return found


def _check_route(kind: Kind, request: ApiRequest) -> None:
    """Names belong to some verbs and not to others, and so do namespaces."""
    named = request.verb in _NAMED or bool(request.subresource)
    anywhere = request.verb == "list"
    if named != bool(request.name) and not (anywhere and request.name):
        raise api_errors.no_such_method()
    if kind.namespaced and not request.namespace and not anywhere:
        raise api_errors.no_such_method()


def _bind_by_body(call: RequestContext) -> ApiReply:
    """POST of a Binding to its collection: the pod is named by the body."""
    pods = call.state.catalog.stored(POD)
    name = get(call.request.body, "metadata", "name", default="")
    if pods is None or not name:
        raise BadRequest("a Binding needs the name of its pod in metadata.name")
    request = replace(call.request, resource=pods.ref, name=name, subresource="binding")
    return bind(replace(call, kind=pods, request=request))
