"""The short way of a pod into a lean cluster, onto a node, and out again.

As its controllers, scheduler and kubelets ask for it. Admission has no say but in what the first
pod of a kind was made into; whatever else is asked for, or would be refused for, goes the usual
way through `verbs`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.model.plan import Create, Delete
from gitkruise.wire.kinds import Kind
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.request import PODS
from gitkruise.world.commit import is_finished, namespace_key
from gitkruise.world.deletion import DeleteOptions, marked_for_deletion
from gitkruise.world.identity import new_uid
from gitkruise.world.isolation import POD
from gitkruise.world.lane import stored
from gitkruise.world.lean import lean_new
from gitkruise.world.pods import placed, scheduled, unbindable
from gitkruise.world.state import State

_IN_TIME: Final = DeleteOptions()
_NAMED: Final = frozenset({"name", "namespace"})
_BORN: Final = _NAMED | {"generateName", "labels", "annotations", "finalizers", "ownerReferences"}


def created(state: State, action: Create, now: datetime) -> Obj | None:
    """The new pod made as its sibling before it, stored; None when there is none, or no room.

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
    made = lean_new(state, kind, sent, new_uid(state), now)
    return None if made is None else stored(state, kind, key, made)


def bound(state: State, key: ObjectKey, pod: Obj, node: str, now: datetime) -> Obj | None:
    """The pod on that node, stored; None unless it is the pod as it stands and may go there."""
    kind = state.catalog.by_ref(PODS)
    if kind is None or state.get(key) is not pod or unbindable(pod):
        return None
    spec = state.alike.made(("placed", node), placed, pod["spec"], node)
    status = state.alike.made("scheduled", scheduled, pod.get("status") or {}, now)
    return stored(state, kind, key, {**pod, "spec": spec, "status": status})


def deleted(state: State, action: Delete, now: datetime) -> Obj | None:
    """The pod as a deletion leaves it, which may be gone; None when it is no such deletion."""
    key, kind = action.key, state.catalog.by_ref(PODS)
    pod = state.get(key) if kind and key[:2] == POD else None
    if kind is None or pod is None or action.propagation or action.then:
        return None
    meta, version = pod["metadata"], action.resource_version
    if meta.get("finalizers") or action.uid not in ("", meta["uid"]):
        return None
    if version not in ("", meta["resourceVersion"]):
        return None
    marked = marked_for_deletion(pod, _IN_TIME, now)
    if is_finished(marked):
        return _taken_out(state, kind, key)
    return pod if marked == pod else stored(state, kind, key, marked)


def removed(state: State, key: ObjectKey, uid: str) -> bool:
    """Take out a pod that has stopped; False when something holds it, or it is gone."""
    kind, pod = state.catalog.by_ref(PODS), state.get(key)
    if kind is None or pod is None or pod["metadata"]["uid"] != uid:
        return False
    if pod["metadata"].get("finalizers"):
        return False
    state.commit(kind, key, None)
    return True


def _taken_out(state: State, kind: Kind, key: ObjectKey) -> Obj:
    last = state.commit(kind, key, None)
    return {**last, "metadata": {**last["metadata"], "resourceVersion": str(state.version)}}
