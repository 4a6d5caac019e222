"""Commits of objects, with the side effects for namespaces and CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.schema.structural import prune
from gitkruise.world.store import crds
from gitkruise.world.store.names import new_uid
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.store import ObjectStore
from gitkruise.world.store.strategies import CRD, NAMESPACE

SERVICE_ACCOUNT: Final = GroupKind("", "ServiceAccount")


def namespace_key(name: str) -> ObjectKey:
    return ObjectKey("", "Namespace", "", name)


def commit(call: RequestContext, stored: Obj | None, made: Obj) -> Obj:
    """Store what `new_object` or `changed_object` made; the object in storage form.

    An object whose last finalizer went while it was being deleted is removed instead. With dryRun
    nothing is stored, and the answer is what would have been.
    """
    kind = call.state.stored_kind(call.kind)
    obj = call.to_storage(made)
    if kind.version != call.kind.version:
        obj = prune(kind.schema, obj)
    if kind.group_kind == CRD:
        obj = crds.accepted(call.state, obj, call.now)
    if call.options.dry_run:
        return obj
    if stored is not None and is_finished(obj):
        remove(call.state, kind, key_of(obj))
        return obj
    result = store(call.state, kind, obj)
    if stored is None and kind.group_kind == NAMESPACE:
        _default_account(call, result)
    return result


def store(state: ObjectStore, kind: Kind, obj: Obj) -> Obj:
    """Put `obj` (storage form) under the next version."""
    meta = {**obj["metadata"], "resourceVersion": str(state.version + 1)}
    stored = state.commit(kind, key_of(obj), {**obj, "metadata": meta})
    if kind.group_kind == CRD:
        state.catalog = state.catalog.with_crd(stored)
    return stored


def is_finished(obj: Obj) -> bool:
    """Return whether nothing blocks the removal of an object that is being deleted."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1":
        return not get(obj, "spec", "finalizers")
    return not meta.get("deletionGracePeriodSeconds")


def remove(state: ObjectStore, kind: Kind, key: ObjectKey) -> Obj:
    """Take an object out; its last state. The last instance takes a dying definition along."""
    last = state.commit(kind, key, None)
    if kind.group_kind == CRD:
        state.catalog = state.catalog.without_crd(key.name)
    elif kind.crd:
        _finish_definition(state, kind)
    return last


def _finish_definition(state: ObjectStore, kind: Kind) -> None:
    key = ObjectKey(CRD.group, CRD.kind, "", f"{kind.plural}.{kind.group}")
    definition = state.get(key)
    if definition is None or not definition["metadata"].get("deletionTimestamp"):
        return
    if state.objects(kind.group_kind):
        return
    left = [f for f in definition["metadata"].get("finalizers") or () if f != crds.CLEANUP]
    of = state.catalog.stored(CRD)
    assert of is not None
    if not left:
        remove(state, of, key)
        return
    store(state, of, {**definition, "metadata": {**definition["metadata"], "finalizers": left}})


def _default_account(call: RequestContext, namespace: Obj) -> None:
    """Create the ServiceAccount "default" of a new namespace, as its controller does."""
    kind = call.state.catalog.stored(SERVICE_ACCOUNT)
    if kind is None:
        return
    meta: dict[str, Any] = {
        "name": "default",
        "namespace": namespace["metadata"]["name"],
        "uid": new_uid(call.state),
        "creationTimestamp": format_time(call.now),
    }
    account = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
    store(call.state, kind, account)
