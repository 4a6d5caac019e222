"""The short way of a pod onto a node and out of a lean cluster: its binding, and its deletion.

As its scheduler, kubelets and controllers ask for them. No admission has a say in either; whatever
else a request asks for, or would be refused for, goes the usual way through `verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from gitkruise.wire.kinds import Kind
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.request import ApiReply, ApiRequest
from gitkruise.world.commit import is_finished
from gitkruise.world.deletion import DeleteOptions, marked_for_deletion
from gitkruise.world.isolation import POD
from gitkruise.world.lane import stored
from gitkruise.world.pods import BOUND, bound, unbindable
from gitkruise.world.state import State

_IN_TIME: Final = DeleteOptions()
_WORDS: Final = frozenset({"apiVersion", "kind", "preconditions", "gracePeriodSeconds"})
_PINS: Final = frozenset({"uid", "resourceVersion"})


def lean_move(state: State, kind: Kind, request: ApiRequest, now: datetime) -> ApiReply | None:
    """The answer to such a write, stored; None when it is none."""
    move = _MOVES.get((request.verb, request.subresource))
    if move is None or request.params or (kind.group, kind.kind) != POD:
        return None
    key, body = ObjectKey(*POD, request.namespace, request.name), request.body
    pod = state.get(key)
    return move(state, kind, key, pod, body, now) if pod and body.__class__ is dict else None


def _bind(
    state: State, kind: Kind, key: ObjectKey, pod: Obj, body: Mapping[str, Any], now: datetime
) -> ApiReply | None:
    target, meta = body.get("target") or {}, body.get("metadata") or {}
    if target.get("kind") != "Node" or not target.get("name") or unbindable(pod):
        return None
    if meta.get("name") != pod["metadata"]["name"]:
        return None
    stored(state, kind, key, bound(pod, body, target["name"], now))
    return ApiReply(status=201, body=BOUND)


def _delete(
    state: State, kind: Kind, key: ObjectKey, pod: Obj, body: Mapping[str, Any], now: datetime
) -> ApiReply | None:
    meta, asked = pod["metadata"], body.get("preconditions") or {}
    plain = body.get("kind") == "DeleteOptions" and body.keys() <= _WORDS
    grace = body.get("gracePeriodSeconds")
    if not plain or grace not in (None, 0) or meta.get("finalizers"):
        return None
    if not asked.keys() <= _PINS or any(asked[name] != meta[name] for name in asked):
        return None
    if grace is None:
        marked = marked_for_deletion(pod, _IN_TIME, now)
        if not is_finished(marked):
            return ApiReply(
                status=200, body=pod if marked == pod else stored(state, kind, key, marked)
            )
    state.commit(kind, key, None)
    gone = {**pod, "metadata": {**meta, "resourceVersion": str(state.version)}}
    return ApiReply(status=200, body=gone)


_Move = Callable[[State, Kind, ObjectKey, Obj, Mapping[str, Any], datetime], ApiReply | None]
_MOVES: Final[Mapping[tuple[str, str], _Move]] = {
    ("create", "binding"): _bind,
    ("delete", ""): _delete,
}
