"""Calls of the admission chain for a write of the model cluster."""

from __future__ import annotations

from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.store.request_context import RequestContext


def admit_object(call: RequestContext, operation: str, obj: Obj, old: Obj | None) -> Obj:
    """`obj` as admission leaves it. Raises BadRequest, InvalidObject and Forbidden."""
    if call.state.admit is None:
        return obj
    request = AdmissionRequest(
        operation=operation,
        kind=call.kind,
        key=call.key(obj["metadata"]["name"]),
        obj=obj,
        old=old,
        subresource=call.subresource,
        user=call.user,
        dry_run=call.options.dry_run,
        now=call.now,
        view=call.state,
    )
    result = call.state.admit(request)
    assert result is not None
    return result
