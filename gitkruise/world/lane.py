"""The shortest way of a write in a lean cluster: news about a pod exactly as it stands.

What the kubelet and the controllers write there, thousands of times: a status, a patch of status,
labels, annotations or images, each with the version it was made from. Steps of one change are
stored as one. Whatever else a request asks for, or would be refused for, goes the usual way
through `verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.admission.pods import only_images
from gitkruise.wire.kinds import Kind
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.patches import merge_patch
from gitkruise.wire.request import MERGE_PATCH, STRATEGIC_PATCH, ApiReply, ApiRequest
from gitkruise.wire.strategic import strategic_patch
from gitkruise.world import metadata
from gitkruise.world.isolation import POD
from gitkruise.world.state import State

_PINS: Final = frozenset({"uid", "resourceVersion"})
_WORDS: Final = frozenset({*_PINS, "labels", "annotations"})
_FLAVOURS: Final = frozenset({MERGE_PATCH, STRATEGIC_PATCH})


def lean_reply(state: State, kind: Kind, *requests: ApiRequest) -> ApiReply | None:
    """The answer to such writes of one pod, stored; None when they are none.

    Each of several is made from the version that the first one is.
    """
    first = requests[0]
    if (first.verb, first.subresource) not in _MAKERS or (kind.group, kind.kind) != POD:
        return None
    key = ObjectKey(*POD, first.namespace, first.name)
    made = state.get(key)
    for request in requests:
        make = _MAKERS.get((request.verb, request.subresource))
        if make is None or request.params or made is None:
            return None
        made = make(state, kind, made, request)
    if made is None:
        return None
    return ApiReply(status=200, body=stored(state, kind, key, made))


def stored(state: State, kind: Kind, key: ObjectKey, pod: Obj) -> Obj:
    """The pod as the next version of it, committed."""
    meta = {**pod["metadata"], "resourceVersion": str(state.version + 1)}
    return state.commit(kind, key, {**pod, "metadata": meta})


def _reported(state: State, kind: Kind, old: Obj, request: ApiRequest) -> Obj | None:
    """The pod with the status of a body that is the pod as it stands in everything else."""
    del state, kind
    body = request.body
    if body.__class__ is not dict or body.keys() != old.keys() or "status" not in body:
        return None
    if not all(body[name] is old[name] for name in old if name != "status"):
        return None
    return body if body["status"] and body["status"] != old["status"] else None


def _patched_status(state: State, kind: Kind, old: Obj, request: ApiRequest) -> Obj | None:
    body, before = request.body, old.get("status")
    if not before or not _pinned(old, body, "status", _PINS) or "status" not in body:
        return None
    status = _laid(state, kind, request, old, "status")
    return {**old, "status": status} if status and status != before else None


def _patched(state: State, kind: Kind, old: Obj, request: ApiRequest) -> Obj | None:
    body = request.body
    if request.content_type not in _FLAVOURS or not _pinned(old, body, "spec", _WORDS):
        return None
    meta, spec = _labelled(old["metadata"], body["metadata"]), old["spec"]
    if meta is None or metadata.check_update(old["metadata"], meta):
        return None
    if "spec" in body:
        spec = _laid(state, kind, request, old, "spec")
        if not spec or spec == old["spec"] or not only_images(old["spec"], spec):
            return None
        meta["generation"] = int(meta.get("generation") or 0) + 1
    return {**old, "metadata": meta, "spec": spec}


def _laid(state: State, kind: Kind, request: ApiRequest, old: Obj, part: str) -> Obj | None:
    """A part of the pod with the request's patch laid over it; None for a flavour not known here.

    Raises BadRequest for what is no patch.
    """
    node, patch = kind.schema.child(part), request.body[part]
    if node is None or any(name[:1] == "$" for name in patch):
        return None
    touched = {name: old[part][name] for name in patch if name in old[part]}
    flavour = request.content_type
    if flavour == STRATEGIC_PATCH:
        made = state.alike.made((part, flavour), strategic_patch, touched, patch, node)
    elif flavour == MERGE_PATCH:
        made = state.alike.made((part, flavour), merge_patch, touched, patch)
    else:
        return None
    out = {**old[part], **made}
    for name in patch.keys() - made.keys():
        out.pop(name, None)
    return out


def _pinned(old: Obj, body: Any, part: str, words: frozenset[str]) -> bool:
    """Whether a patch names the version as it stands, and touches only `part` and `words`."""
    if body.__class__ is not dict or not body.keys() <= {"metadata", part}:
        return False
    meta, known = body.get("metadata"), old["metadata"]
    if meta.__class__ is not dict or not _PINS <= meta.keys() <= words:
        return False
    if body.get(part, {}).__class__ is not dict:
        return False
    return bool(meta["uid"] == known["uid"] and meta["resourceVersion"] == known["resourceVersion"])


def _labelled(old: Obj, patch: Obj) -> dict[str, Any] | None:
    """Metadata with labels and annotations merged; None when none differ or one is no text."""
    made, changed = dict(old), False
    for name in patch.keys() - _PINS:
        words, known = patch[name], old.get(name) or {}
        if words.__class__ is not dict or not all(_is_word(*pair) for pair in words.items()):
            return None
        merged = {key: text for key, text in {**known, **words}.items() if text is not None}
        if not merged:
            return None
        changed = changed or merged != known
        made[name] = merged
    return made if changed else None


def _is_word(key: str, text: Any) -> bool:
    return (text is None or text.__class__ is str) and key[:1] != "$"


_Maker = Callable[[State, Kind, Obj, ApiRequest], Obj | None]
_MAKERS: Final[Mapping[tuple[str, str], _Maker]] = {
    ("update", "status"): _reported,
    ("patch", "status"): _patched_status,
    ("patch", ""): _patched,
}
