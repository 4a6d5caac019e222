"""The short way of a write in a lean cluster: pods, as its own parts and controllers write them.

A forecast plays thousands of such writes. They are known to be well formed, so they are not
cleaned, defaulted and checked against the schema again, and nobody asks who manages a pod's
fields. Locks, what a subresource may touch, and the rules of metadata hold as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gitkruise.admission.pods import only_images
from gitkruise.admission.request import UPDATE
from gitkruise.wire.kinds import Kind
from gitkruise.wire.names import Obj
from gitkruise.world import metadata, refusals
from gitkruise.world.admitting import admitted
from gitkruise.world.call import Call
from gitkruise.world.isolation import POD, on_update
from gitkruise.world.state import State


def is_lean(call: Call) -> bool:
    return call.state.lean and call.kind.group_kind == POD


def lean_new(state: State, kind: Kind, sent: Obj, uid: str, now: datetime) -> dict[str, Any] | None:
    """A new pod made as its sibling before it; None when its controller has sent no such spec yet.

    The same spec from the same controller is admitted alike (see Mold). Raises InvalidObject when
    the metadata break a rule.
    """
    mold = state.molds.find(sent, state)
    if mold is None:
        return None
    meta = _without_empty(metadata.born(kind, sent["metadata"], uid, now))
    if problems := metadata.check_new(kind, meta, mold.made["metadata"]):
        raise refusals.invalid(kind, meta["name"], problems)
    return {**mold.made, "metadata": mold.metadata(meta, now)}


def _without_empty(meta: Mapping[str, Any]) -> dict[str, Any]:
    """An empty list or map in metadata is none, as in Go's encoding; a zero is one."""
    return {name: value for name, value in meta.items() if value or value.__class__ is int}


def lean_change(call: Call, old: Obj, new: Obj) -> Obj:
    """`new` in place of `old` (a pod), not yet numbered.

    A new spec is admitted as ever, unless only images are new: no rule of a pod concerns them.
    Raises Forbidden, and InvalidObject when the new metadata or spec break a rule.
    """
    if new["metadata"] is not old["metadata"]:
        meta = _without_empty(metadata.carried(old["metadata"], new["metadata"]))
        new = {**new, "metadata": meta}
    new = on_update(call.kind, call.subresource, old, new)
    if new.get("spec") is not old["spec"] and not only_images(old["spec"], new["spec"]):
        new = admitted(call, UPDATE, new, old)
    if new["metadata"] is old["metadata"]:
        return new
    if problems := metadata.check_update(old["metadata"], new["metadata"]):
        raise refusals.invalid(call.kind, call.name, problems)
    return new
