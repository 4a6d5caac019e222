"""kubectl's two ways of apply meet: the annotation of the one is understood and kept by the other.

Source: the field manager's lastAppliedManager and lastAppliedUpdater; both act for the manager
`kubectl` alone, and only on objects that bear the annotation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from gitkruise.wire.gojson import compact
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import drop, get, put
from gitkruise.world.call import Call
from gitkruise.world.fieldset import NOTHING, FieldSet, difference
from gitkruise.world.structure import compare, field_set

ANNOTATION: Final = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
MANAGER: Final = "kubectl"


def own_fields(call: Call, live: Obj | None) -> FieldSet:
    """Fields that client-side apply set and that are still as it set them: kubectl's own."""
    last = _decoded(_annotation(call, live))
    if live is None or last.get("apiVersion") != call.kind.api_version:
        return NOTHING
    found = compare(last, live, call.kind.schema)
    fields = field_set(last, call.kind.schema)
    for other in (found.modified, found.added, found.removed):
        fields = difference(fields, other)
    return fields


def kept_up(call: Call, live: Obj | None, merged: Obj) -> Obj:
    """`merged` with the annotation telling what is applied now."""
    if not _annotation(call, live):
        return merged
    bare = drop(drop(call.request.body, ("metadata", "managedFields")), ANNOTATION)
    told: Obj = put(merged, ANNOTATION, compact(bare).decode() + "\n")
    return told


def _annotation(call: Call, live: Obj | None) -> str:
    """What client-side apply left; "" when it is none of this writer's business."""
    return str(get(live, *ANNOTATION, default="")) if call.options.manager == MANAGER else ""


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}
