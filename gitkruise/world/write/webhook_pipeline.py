"""Admission webhooks in creates and updates: mutating before, validating after the kind's rules.

Source: the create, update and patch handlers of kube-apiserver: decoding and defaults, who manages
which field, mutating webhooks, the kind's own rules, validating webhooks. Changes by a
webhook belong to no field manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gitkruise.admission.chain import SERVER_STAGES, mutate
from gitkruise.admission.rules.request import CREATE, DELETE, UPDATE, AdmissionRequest
from gitkruise.admission.webhooks.matching import Write
from gitkruise.admission.webhooks.responses import internal
from gitkruise.errors import BadRequest, Unreasoned
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj, split_api_version
from gitkruise.wire.primitives.requests import NAMESPACES
from gitkruise.world.apply import managed_fields
from gitkruise.world.store import api_errors
from gitkruise.world.store.names import wrong
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.strategies import NAMESPACE, POD, named_namespace, on_update
from gitkruise.world.write import pipeline
from gitkruise.world.write.object_meta import SYSTEM, keep_system_fields
from gitkruise.world.write.pipeline import (
    Listed,
    cleaned,
    decoded_part,
    typed,
    with_managers,
    with_part_defaults,
)
from gitkruise.world.write.review_apis import user_of
from gitkruise.world.write.server_set_fields import as_requested
from gitkruise.world.write.webhooks import may_be_mutated, mutated, validated

_OPTIONS: Final = ("dryRun", "fieldManager", "fieldValidation")
_META: Final = "meta.k8s.io/v1"


def new_object(call: RequestContext, obj: Obj, listed: Listed | None = None) -> Obj:
    """As writing.new_object, and reviewed."""
    if not may_be_mutated(call, CREATE):
        plain = pipeline.new_object(call, obj, listed)
        if call.reviews is not None:
            name = plain["metadata"]["name"]
            validated(call, _write(call, CREATE, plain, None, name=name))
        return plain
    asked = _decoded(call, CREATE, _unborn(obj), None)
    managers = listed if listed is not None else _managers_of_new(call, obj, asked)
    shown = with_managers(asked, managers)
    if not _is_named(call):
        shown = _without(shown, "name")
    sent = call.request.name or ("" if not _is_named(call) else obj["metadata"]["name"])
    write = _write(call, CREATE, shown, None, name=sent)
    made = mutated(call, write, lambda one: _read_again(call, CREATE, one, None))
    assert made is not None
    made = _in_place(call, _named(made, obj["metadata"]["name"]))
    if made["metadata"].get("resourceVersion"):
        raise Unreasoned("resourceVersion should not be set on objects to be created")
    managers = _managers_after(call, managers, made)
    made = pipeline.new_object(_quiet(call), _without(made, "managedFields"), managers)
    validated(call, replace(write, obj=made, name=made["metadata"]["name"]))
    return made


def changed_object(call: RequestContext, old: Obj, new: Obj, listed: Listed | None = None) -> Obj:
    """As writing.changed_object, and reviewed."""
    if not may_be_mutated(call, UPDATE):
        plain = pipeline.changed_object(call, old, new, listed)
        if call.reviews is not None:
            validated(call, _write(call, UPDATE, plain, old, name=call.name))
        return plain
    pipeline.check_uid(call, old["metadata"], new["metadata"])
    asked = _decoded(call, UPDATE, new, old)
    managers = listed if listed is not None else _managers_of_changed(call, old, asked)
    write = _write(call, UPDATE, with_managers(asked, managers), old, name=call.name)
    made = mutated(call, write, lambda one: _read_again(call, UPDATE, one, old))
    assert made is not None
    made = _in_place(call, made)
    if made["metadata"].get("name") != call.name:
        shown = f'"{made["metadata"].get("name", "")}"'
        problem = wrong(("metadata", "name"), shown, "field is immutable")
        raise api_errors.invalid(call.kind, str(made["metadata"].get("name", "")), [problem])
    managers = _managers_after(call, managers, made)
    made = pipeline.changed_object(_quiet(call), old, made, managers)
    validated(call, replace(write, obj=made))
    return made


def _decoded(call: RequestContext, operation: str, obj: Obj, old: Obj | None) -> Obj:
    """`obj` as the server reads it: known fields only, with the defaults of its version."""
    known, sent = old if old is not None else {}, obj
    if call.kind.group_kind == NAMESPACE:
        obj = named_namespace(obj)
    obj, _ = decoded_part(call, cleaned(call, obj, known), known)
    obj = with_part_defaults(call.kind, obj, known)
    typed(call, obj, known)
    if call.state.admit is None:
        return obj
    request = AdmissionRequest(
        operation=operation,
        kind=call.kind,
        key=call.key(obj["metadata"].get("name", "")),
        obj=obj,
        old=old,
        subresource=call.subresource,
        user=call.user,
        view=call.state,
    )
    read = mutate(request, Gates(), SERVER_STAGES)
    assert read is not None
    if old is None and call.kind.group_kind != POD:
        return as_requested(call.kind.group_kind, sent, read)  # allotted once it is stored
    return read


def _managers_of_new(call: RequestContext, obj: Obj, asked: Obj) -> Listed:
    seen = as_requested(call.kind.group_kind, obj, asked)
    return managed_fields.after_update(call, None, seen) or []


def _managers_of_changed(call: RequestContext, old: Obj, asked: Obj) -> Listed:
    meta = keep_system_fields(old["metadata"], asked["metadata"])
    if call.kind.crd and call.subresource == "status":
        meta = asked["metadata"]  # who asks for a label there owns it, all the same
    seen = on_update(call.kind, call.subresource, old, {**asked, "metadata": meta})
    return managed_fields.after_update(call, old, seen) or []


def _managers_after(call: RequestContext, before: Listed, made: Obj) -> Listed:
    """managedFields as webhooks left them; those of `before` where they broke them."""
    after: Listed = made["metadata"].get("managedFields") or []
    if why := managed_fields.broken(after):
        call.warnings.append(
            ".metadata.managedFields was in an invalid state after admission; this could be caused"
            f" by an outdated mutating admission controller; please fix your requests: {why}"
        )
        return before
    return after


def _quiet(call: RequestContext) -> RequestContext:
    """The call once its own fields were looked at: what a webhook adds is left out silently."""
    options = replace(call.options, field_validation="Ignore")
    return replace(call, options=options, patched=True)


def _read_again(call: RequestContext, operation: str, obj: Obj, old: Obj | None) -> Obj:
    """An object that a webhook has patched, decoded. Raises InternalError where it cannot be."""
    quiet = replace(_quiet(call), request=replace(call.request, verb="update"))
    try:
        return _decoded(quiet, operation, obj, old)
    except BadRequest as error:
        raise internal(
            error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
            or error.message
        ) from None


def _unborn(obj: Obj) -> Obj:
    """A new object without what only the server sets."""
    kept = ("name", "namespace", "generateName")
    meta = {
        name: value
        for name, value in obj["metadata"].items()
        if name in kept or (name not in SYSTEM and value is not None)
    }
    return {**obj, "metadata": meta}


def _is_named(call: RequestContext) -> bool:
    """Return whether the client chose the name."""
    body = call.request.body
    meta = body.get("metadata") if isinstance(body, Mapping) else None
    return bool(call.request.name or (meta or {}).get("name"))


def _named(obj: Obj, name: str) -> Obj:
    given = obj["metadata"].get("name") or name
    return {**obj, "metadata": {**obj["metadata"], "name": given}}


def _without(obj: Obj, name: str) -> Obj:
    if name not in obj["metadata"]:
        return obj
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != name}}


def _in_place(call: RequestContext, obj: Obj) -> Obj:
    """`obj`, which a webhook may not have moved to another namespace."""
    meta, wanted = obj["metadata"], call.request.namespace if call.kind.namespaced else ""
    if (meta.get("namespace") or "") in ("", wanted):
        return {**obj, "metadata": {**meta, "namespace": wanted}} if wanted else obj
    raise BadRequest(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def _write(
    call: RequestContext,
    operation: str,
    obj: Obj | None,
    old: Obj | None,
    *,
    name: str,
    options: Obj | None = None,
) -> Write:
    some = obj if obj is not None else old
    assert some is not None
    resource, namespace = call.request.resource, call.request.namespace
    if resource == NAMESPACES:
        namespace = name or str(some["metadata"].get("name", ""))
    group, version = split_api_version(some["apiVersion"])
    return Write(
        operation=operation,
        resource=resource,
        subresource=call.subresource,
        kind=(group, version, some["kind"]),
        namespace=namespace,
        name=name,
        obj=obj,
        old=old,
        dry_run=call.options.dry_run,
        user=user_of(call),
        options=options or _options(call, operation),
    )


def _options(call: RequestContext, operation: str) -> dict[str, Any]:
    """CreateOptions or UpdateOptions, as far as the request gave any."""
    params = call.request.params
    found: dict[str, Any] = {
        "kind": f"{operation.capitalize()}Options",
        "apiVersion": _META,
        **{name: params[name] for name in _OPTIONS if params.get(name)},
    }
    return {**found, "dryRun": ["All"]} if call.options.dry_run else found


def review_deletion(
    call: RequestContext, old: Obj, options: Mapping[str, Any], *, name: str, dry_run: bool
) -> None:
    """Let webhooks review a deletion; they cannot change the object."""
    if call.reviews is None:
        return
    given = {"kind": "DeleteOptions", "apiVersion": _META, **options}
    write = replace(
        _write(call, DELETE, None, old, name=name, options=given), dry_run=dry_run, subresource=""
    )
    mutated(call, write, _as_it_is)
    validated(call, write)


def reviewed_part(call: RequestContext, operation: str, obj: Obj, old: Obj | None) -> Obj:
    """Return the body of a subresource (Binding, Eviction, Scale) after mutating webhooks."""
    if call.reviews is None:
        return obj
    made = mutated(call, _write(call, operation, obj, old, name=call.name), _as_it_is)
    assert made is not None
    return made


def judge_part(call: RequestContext, operation: str, obj: Obj, old: Obj | None) -> None:
    """Let validating webhooks judge what is sent to a subresource."""
    if call.reviews is not None:
        validated(call, _write(call, operation, obj, old, name=call.name))


def _as_it_is(obj: Obj) -> Obj:
    return obj
