"""Fast path of forecasts for creating, binding and deleting pods.

Writes of the cluster's own controllers, scheduler and kubelets. Admission runs for the first pod
of a template only; its result is reused for the others. Every other request, and every request
that might be rejected, takes the normal path through `verbs`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.model.planning.plan import Create, Delete
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import PODS
from gitkruise.world.api.binding_eviction import placed, scheduled, unbindable
from gitkruise.world.api.delete import DeleteOptions, marked_for_deletion
from gitkruise.world.store.commit import is_finished, namespace_key
from gitkruise.world.store.names import new_uid
from gitkruise.world.store.store import ObjectStore
from gitkruise.world.store.strategies import POD
from gitkruise.world.write.fast_patch import commit_next
from gitkruise.world.write.fast_write import create_fast

_IN_TIME: Final = DeleteOptions()
_NAMED: Final = frozenset({"name", "namespace"})
_BORN: Final = _NAMED | {"generateName", "labels", "annotations", "finalizers", "ownerReferences"}


def create_pod(state: ObjectStore, action: Create, now: datetime) -> Obj | None:
    """Store a new pod as its sibling was admitted; None when the fast path does not apply.

    Raises InvalidObject when its metadata break a rule.
    """
    sent, kind = action.obj, state.catalog.by_ref(PODS)
    if kind is None or action.claims or sent["kind"] != "Pod" or sent["apiVersion"] != "v1":
        return None
    meta = sent["metadata"]
    if not _NAMED <= meta.keys() <= _BORN or not all(meta[name] for name in _NAMED):
        return None
    key = ObjectKey(*POD, meta["namespace"], meta["name"])
    space = state.get(namespace_key(key.namespace))
    if space is None or space["metadata"].get("deletionTimestamp") or state.get(key) is not None:
        return None
    made = create_fast(state, kind, sent, new_uid(state), now)
    return None if made is None else commit_next(state, kind, key, made)


def bind_pod(state: ObjectStore, key: ObjectKey, pod: Obj, node: str, now: datetime) -> Obj | None:
    """Bind the pod; None unless `pod` is the stored version and may be bound to the node."""
    kind = state.catalog.by_ref(PODS)
    if kind is None or state.get(key) is not pod or unbindable(pod):
        return None
    spec = state.memo.get(("placed", node), placed, pod["spec"], node)
    status = state.memo.get("scheduled", scheduled, pod.get("status") or {}, now)
    return commit_next(state, kind, key, {**pod, "spec": spec, "status": status})


def delete_pod(state: ObjectStore, action: Delete, now: datetime) -> Obj | None:
    """Delete or mark a pod and return it; None when the fast path does not apply."""
    key, kind = action.key, state.catalog.by_ref(PODS)
    pod = state.get(key) if kind and key[:2] == POD else None
    if kind is None or pod is None or action.propagation or action.then:
        return None
    if state.protects_deletions(key.namespace) or state.divides_pods(key.namespace):
        return None
    meta, version = pod["metadata"], action.resource_version
    if meta.get("finalizers") or action.uid not in ("", meta["uid"]):
        return None
    if version not in ("", meta["resourceVersion"]):
        return None
    marked = marked_for_deletion(pod, _IN_TIME, now)
    if is_finished(marked):
        return _taken_out(state, kind, key)
    return pod if marked == pod else commit_next(state, kind, key, marked)


def remove_pod(state: ObjectStore, key: ObjectKey, uid: str) -> bool:
    """Remove a pod that has stopped; False when finalizers block it, or it is gone."""
    kind, pod = state.catalog.by_ref(PODS), state.get(key)
    if kind is None or pod is None or pod["metadata"]["uid"] != uid:
        return False
    if pod["metadata"].get("finalizers"):
        return False
    state.commit(kind, key, None)
    return True


def _taken_out(state: ObjectStore, kind: Kind, key: ObjectKey) -> Obj:
    last = state.commit(kind, key, None)
    return {**last, "metadata": {**last["metadata"], "resourceVersion": str(state.version)}}
