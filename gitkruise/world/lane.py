"""The shortest way of a write in a lean cluster: news about an object exactly as it stands.

What the kubelet and the controllers write there, thousands of times: a status, and patches of a
pod's status, labels, annotations or images, each with the version it was made from. No request is
made of it, and the steps of one change are stored as one. Whatever else is asked for, or would be
refused for, goes the usual way through `verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.admission.pods import only_images
from gitkruise.model.plan import Patch, Step
from gitkruise.wire.kinds import Kind
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.nodes import Node
from gitkruise.wire.patches import merge_patch
from gitkruise.wire.request import MERGE_PATCH, STRATEGIC_PATCH
from gitkruise.wire.strategic import strategic_patch
from gitkruise.world import metadata
from gitkruise.world.isolation import POD
from gitkruise.world.state import State

_FLAVOURS: Final[Mapping[str, Callable[..., Any]]] = {
    MERGE_PATCH: merge_patch,
    STRATEGIC_PATCH: strategic_patch,
}
_CONTAINERS: Final = frozenset({"containers"})
_MAPS: Final = frozenset({"labels", "annotations"})
_NOTHING: Final[Mapping[str, Any]] = {}


def patched(state: State, action: Patch) -> Obj | None:
    """The pod as such a patch leaves it, stored; None when it is none.

    Raises BadRequest for what is no patch.
    """
    key = action.key
    kind = state.catalog.by_kind(key.group, action.version, key.kind)
    pod = state.get(key) if kind and key[:2] == POD else None
    if kind is None or pod is None or not action.steps:
        return None
    meta = pod["metadata"]
    if action.uid != meta["uid"] or action.resource_version != meta["resourceVersion"]:
        return None
    made = dict(pod)  # ours until it is stored
    for turn, step in enumerate(action.steps):
        lay = _LAYERS.get(step.subresource)
        if lay is None or not lay(state, kind, made, step, turn):
            return None
    return stored(state, kind, key, made)


def reported(state: State, key: ObjectKey, version: str, old: Obj, status: Obj) -> Obj | None:
    """A pod or custom resource with another status, stored; None unless it is as it stands.

    `version` is the one that the status is written in.
    """
    kind = state.catalog.by_kind(key.group, version, key.kind)
    if kind is None or kind.version != kind.storage_version or not status:
        return None
    if state.get(key) is not old or not (kind.crd or key[:2] == POD):
        return None
    return stored(state, kind, key, {**old, "status": status})


def stored(state: State, kind: Kind, key: ObjectKey, made: dict[str, Any]) -> Obj:
    """A dict of the caller's as the next version of the pod, committed."""
    made["metadata"] = {**made["metadata"], "resourceVersion": str(state.version + 1)}
    return state.commit(kind, key, made)


def _patch_status(state: State, kind: Kind, made: dict[str, Any], step: Step, turn: int) -> bool:
    before = made.get("status")
    if not before or "status" not in step.body or not _keeps_to(step.body, "status", frozenset()):
        return False
    return _lay(state, kind, made, "status", step, turn)


def _patch_pod(state: State, kind: Kind, made: dict[str, Any], step: Step, turn: int) -> bool:
    body, known = step.body, made["metadata"]
    if step.content_type not in _FLAVOURS or not _keeps_to(body, "spec", _MAPS):
        return False
    meta = _labelled(state, known, body.get("metadata") or _NOTHING, turn)
    if meta is None:
        return False
    made["metadata"] = meta
    if "spec" not in body:
        return True
    meta["generation"] = int(meta.get("generation") or 0) + 1
    return body["spec"].keys() == _CONTAINERS and _lay(state, kind, made, "spec", step, turn)


def _lay(state: State, kind: Kind, made: dict[str, Any], part: str, step: Step, turn: int) -> bool:
    """Lay a patch over a part of the pod; whether it is one known here, and changes something.

    Raises BadRequest for what is no patch.
    """
    node, patch, old = kind.schema.child(part), step.body[part], made[part]
    touched = {name: old[name] for name in patch if name in old}
    asked = (part, turn)
    news = state.alike.made(asked, _news, part, step.content_type, touched, patch, node)
    if not news:
        return False
    made[part] = out = {**old, **news}
    if len(news) < len(patch):
        for name in patch.keys() - news.keys():
            out.pop(name, None)
    return bool(out)


def _news(
    part: str, flavour: str, old: Obj, patch: Mapping[str, Any], node: Node | None
) -> Obj | None:
    """What a patch makes of those fields it names; None where that is nothing new or not plain."""
    lay = _FLAVOURS.get(flavour)
    if node is None or lay is None or any(name[:1] == "$" for name in patch):
        return None
    news: Obj = lay(old, patch, node) if lay is strategic_patch else lay(old, patch)
    if news == old or (part == "spec" and not only_images(old, news)):
        return None
    return news


def _keeps_to(body: Any, part: str, words: frozenset[str]) -> bool:
    """Whether a patch touches only `part`, and of the metadata only `words`."""
    if body.__class__ is not dict or not body.keys() <= {"metadata", part}:
        return False
    meta = body.get("metadata", _NOTHING)
    if meta.__class__ is not dict or not meta.keys() <= words:
        return False
    return body.get(part, _NOTHING).__class__ is dict


def _labelled(state: State, old: Obj, patch: Obj, turn: int) -> dict[str, Any] | None:
    """Metadata with labels and annotations merged; None when none differ or one is not sound."""
    made, changed = dict(old), False
    for name, words in patch.items():
        known = old.get(name) or _NOTHING
        if not state.alike.made((name, turn), _are_words, name, words):
            return None
        merged = {**known, **words}
        if None in words.values():
            merged = {key: text for key, text in merged.items() if text is not None}
        if not merged or (name == "annotations" and not metadata.has_room(merged)):
            return None
        changed = changed or merged != known
        made[name] = merged
    return made if changed else None


def _are_words(part: str, words: Any) -> bool:
    plain = words.__class__ is dict and not any(key[:1] == "$" for key in words)
    return plain and metadata.are_sound(part, words)


_LAYERS: Final[Mapping[str, Callable[[State, Kind, dict[str, Any], Step, int], bool]]] = {
    "status": _patch_status,
    "": _patch_pod,
}
