"""Fast path of forecasts for status writes and pod patches without conflicts.

The kubelet and the controllers write thousands of them: statuses, and patches of a pod's status,
labels, annotations or images, each with the resourceVersion it was made from. No request object is
built, and the steps of one patch are stored as one. Every other request, and every request that
might be rejected, takes the normal path through `verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.admission.pods.pods import only_images
from gitkruise.model.planning.plan import Patch, PatchStep
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.patch.json_patch import merge_patch
from gitkruise.wire.patch.strategic_merge import strategic_patch
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, STRATEGIC_PATCH
from gitkruise.wire.schema.nodes import Node
from gitkruise.world.store.store import ObjectStore
from gitkruise.world.store.strategies import POD
from gitkruise.world.write import object_meta
from gitkruise.world.write.unset_times import with_unset_times

_PATCHERS: Final[Mapping[str, Callable[..., Any]]] = {
    MERGE_PATCH: merge_patch,
    STRATEGIC_PATCH: strategic_patch,
}
_CONTAINERS: Final = frozenset({"containers"})
_MAPS: Final = frozenset({"labels", "annotations"})
_NOTHING: Final[Mapping[str, Any]] = {}


def patch_fast(state: ObjectStore, action: Patch) -> Obj | None:
    """Store the patched pod; None when the fast path does not apply.

    Raises BadRequest for an invalid patch.
    """
    key = action.key
    kind = state.catalog.by_kind(key.group, action.version, key.kind)
    pod = state.get(key) if kind and key[:2] == POD else None
    if kind is None or pod is None or not action.steps or state.protects_updates(key.namespace):
        return None
    meta = pod["metadata"]
    if action.uid != meta["uid"] or action.resource_version != meta["resourceVersion"]:
        return None
    made = dict(pod)  # ours until it is stored
    for index, step in enumerate(action.steps):
        lay = _LAYERS.get(step.subresource)
        if lay is None or not lay(state, kind, made, step, index):
            return None
    return commit_next(state, kind, key, made)


def update_status_fast(
    state: ObjectStore, key: ObjectKey, version: str, old: Obj, status: Obj
) -> Obj | None:
    """Store another status of a pod or custom resource; None unless `old` is the stored version.

    `version` is the API version of the status.
    """
    kind = state.catalog.by_kind(key.group, version, key.kind)
    if kind is None or kind.version != kind.storage_version or not status:
        return None
    if state.get(key) is not old or not (kind.crd or key[:2] == POD):
        return None
    return commit_next(state, kind, key, {**old, "status": status})


def commit_next(state: ObjectStore, kind: Kind, key: ObjectKey, made: dict[str, Any]) -> Obj:
    """Commit `made`, which the caller owns, as the next version of the object."""
    made["metadata"] = {**made["metadata"], "resourceVersion": str(state.version + 1)}
    return state.commit(kind, key, made)


def _patch_status(
    state: ObjectStore, kind: Kind, made: dict[str, Any], step: PatchStep, index: int
) -> bool:
    """Patch the status; labels and annotations may come along, as at a server."""
    body = step.body
    if not made.get("status") or "status" not in body or not _touches_only(body, "status", _MAPS):
        return False
    if not _patch_part(state, kind, made, "status", step, index):
        return False
    return "metadata" not in body or _patch_metadata(state, made, step, index)


def _patch_pod(
    state: ObjectStore, kind: Kind, made: dict[str, Any], step: PatchStep, index: int
) -> bool:
    body = step.body
    if step.content_type not in _PATCHERS or not _touches_only(body, "spec", _MAPS):
        return False
    if not _patch_metadata(state, made, step, index):
        return False
    if "spec" not in body:
        return True
    meta = made["metadata"]
    meta["generation"] = int(meta.get("generation") or 0) + 1
    return body["spec"].keys() == _CONTAINERS and _patch_part(
        state, kind, made, "spec", step, index
    )


def _patch_metadata(state: ObjectStore, made: dict[str, Any], step: PatchStep, index: int) -> bool:
    """Patch labels and annotations; return whether the fast path applies and one changed."""
    meta = _labelled(state, made["metadata"], step.body.get("metadata") or _NOTHING, index)
    if meta is None:
        return False
    made["metadata"] = meta
    return True


def _patch_part(
    state: ObjectStore, kind: Kind, made: dict[str, Any], part: str, step: PatchStep, index: int
) -> bool:
    """Patch a part of the pod; return whether the fast path applies and something changed.

    Raises BadRequest for an invalid patch.
    """
    node, patch, old = kind.schema.child(part), step.body[part], made[part]
    touched = {name: old[name] for name in patch if name in old}
    asked = (part, index)
    news = state.memo.get(asked, _changed_fields, part, step.content_type, touched, patch, node)
    if not news:
        return False
    made[part] = out = {**old, **news}
    if len(news) < len(patch):
        for name in patch.keys() - news.keys():
            out.pop(name, None)
    return bool(out)


def _changed_fields(
    part: str, flavour: str, old: Obj, patch: Mapping[str, Any], node: Node | None
) -> Obj | None:
    """Return the fields that a patch changes; None if none or if the fast path does not apply."""
    lay = _PATCHERS.get(flavour)
    if node is None or lay is None or any(name[:1] == "$" for name in patch):
        return None
    news: Obj = lay(old, patch, node) if lay is strategic_patch else lay(old, patch)
    if news == old or (part == "spec" and not only_images(old, news)):
        return None
    timed: Obj = with_unset_times(POD, {part: news}, {part: old})[part]
    return timed


def _touches_only(body: Any, part: str, words: frozenset[str]) -> bool:
    """Return whether a patch touches only `part` and these `words` of the metadata."""
    if body.__class__ is not dict or not body.keys() <= {"metadata", part}:
        return False
    meta = body.get("metadata", _NOTHING)
    if meta.__class__ is not dict or not meta.keys() <= words:
        return False
    return body.get(part, _NOTHING).__class__ is dict


def _labelled(state: ObjectStore, old: Obj, patch: Obj, index: int) -> dict[str, Any] | None:
    """Metadata with labels and annotations merged; None when none differ or one is not sound."""
    made, changed = dict(old), False
    for name, words in patch.items():
        known = old.get(name) or _NOTHING
        if not state.memo.get((name, index), _are_words, name, words):
            return None
        merged = {**known, **words}
        if None in words.values():
            merged = {key: text for key, text in merged.items() if text is not None}
        if not merged or (name == "annotations" and not object_meta.has_room(merged)):
            return None
        changed = changed or merged != known
        made[name] = merged
    return made if changed else None


def _are_words(part: str, words: Any) -> bool:
    plain = words.__class__ is dict and not any(key[:1] == "$" for key in words)
    return plain and object_meta.are_sound(part, words)


_LAYERS: Final[
    Mapping[str, Callable[[ObjectStore, Kind, dict[str, Any], PatchStep, int], bool]]
] = {
    "status": _patch_status,
    "": _patch_pod,
}
