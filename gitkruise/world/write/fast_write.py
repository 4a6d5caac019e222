"""Fast path of forecasts for writes of pods by the cluster's own controllers.

A forecast plays thousands of such writes. They are known to be well formed, so they are not pruned,
defaulted and validated against the schema again, and managedFields are not updated. Optimistic
locking, the scope of subresources and the rules of metadata apply as on the normal path.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gitkruise.admission.pods.pods import only_images
from gitkruise.admission.rules.request import UPDATE
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.store import api_errors
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.store.store import ObjectStore
from gitkruise.world.store.strategies import POD, on_update
from gitkruise.world.write import object_meta
from gitkruise.world.write.admission import admit_object
from gitkruise.world.write.unset_times import with_unset_times


def uses_fast_path(call: RequestContext) -> bool:
    return call.state.fast_path and call.kind.group_kind == POD


def create_fast(
    state: ObjectStore, kind: Kind, sent: Obj, uid: str, now: datetime
) -> dict[str, Any] | None:
    """Return a new pod as its sibling was admitted; None for the first pod of a spec.

    Raises InvalidObject when the metadata break a rule.
    """
    admitted = state.admission_cache.find(sent, state)
    if admitted is None:
        return None
    meta = _without_empty(object_meta.init_metadata(kind, sent["metadata"], uid, now))
    if problems := object_meta.check_new(kind, meta, admitted.made["metadata"]):
        raise api_errors.invalid(kind, meta["name"], problems)
    return {**admitted.made, "metadata": admitted.metadata(meta, now)}


def _without_empty(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Drop empty lists and maps of metadata, as Go's encoding does; keep a zero."""
    return {name: value for name, value in meta.items() if value or value.__class__ is int}


def update_fast(call: RequestContext, old: Obj, new: Obj) -> Obj:
    """Return `new` as the successor of the pod `old`, without a resourceVersion.

    A changed spec passes admission, unless only images changed: no rule of a pod concerns them.
    Raises Forbidden, and InvalidObject when the new metadata or spec break a rule.
    """
    if new["metadata"] is not old["metadata"]:
        meta = _without_empty(object_meta.keep_system_fields(old["metadata"], new["metadata"]))
        new = {**new, "metadata": meta}
    new = with_unset_times(POD, on_update(call.kind, call.subresource, old, new), old)
    if new.get("spec") is not old["spec"] and not only_images(old["spec"], new["spec"]):
        new = admit_object(call, UPDATE, new, old)
    if new["metadata"] is old["metadata"]:
        return new
    if problems := object_meta.check_update(call.kind, old["metadata"], new["metadata"]):
        raise api_errors.invalid(call.kind, call.name, problems)
    return new
