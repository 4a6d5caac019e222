"""Migration between kubectl's client-side and server-side apply by the last-applied annotation.

Source: the field manager's lastAppliedManager and lastAppliedUpdater; both act for the manager
`kubectl` alone, and only on objects that bear the annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.world.apply.fieldset import NOTHING, FieldSet, difference
from gitkruise.world.apply.typed import compare, field_set
from gitkruise.world.store.request_context import RequestContext

ANNOTATION: Final = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
MANAGER: Final = "kubectl"


def own_fields(call: RequestContext, live: Obj | None) -> FieldSet:
    """Fields that client-side apply set and that are still as it set them: kubectl's own."""
    last = _decoded(_annotation(call, live))
    if live is None or last.get("apiVersion") != call.kind.api_version:
        return NOTHING
    found = compare(last, live, call.kind.schema)
    fields = field_set(last, call.kind.schema)
    for other in (found.modified, found.added, found.removed):
        fields = difference(fields, other)
    return fields


def kept_up(call: RequestContext, live: Obj | None, merged: Obj) -> Obj:
    """`merged` with the annotation telling what is applied now."""
    if not _annotation(call, live):
        return merged
    bare = drop(drop(call.request.body, ("metadata", "managedFields")), ANNOTATION)
    told: Obj = put(merged, ANNOTATION, compact(bare).decode() + "\n")
    return told


def _annotation(call: RequestContext, live: Obj | None) -> str:
    """Return the last-applied annotation; "" when it does not concern this field manager."""
    return str(get(live, *ANNOTATION, default="")) if call.options.manager == MANAGER else ""


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        found = read_json(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}
