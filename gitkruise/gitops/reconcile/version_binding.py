"""Binding of an apply to the version that it was decided on.

A process that is stopped between its look at the lease and the send wakes up to send what another
leader has overtaken. Only the API server can tell then: it answers an apply that names a uid and a
resourceVersion with 409 once anyone wrote or deleted the object.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gitkruise.errors import AlreadyExists, ApiError, Conflict
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.planner.sync.annotations import COMMIT, annotation
from gitkruise.planner.sync.field_owners import marks_are_ours
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import ApiRequest

_VERSION: Final = (("metadata", "uid"), ("metadata", "resourceVersion"))


def bound(request: ApiRequest, live: Obj) -> ApiRequest:
    """Return an apply of an object that holds only for the version `live`."""
    body = request.body
    for path in _VERSION:
        body = put(body, path, get(live, *path))
    return replace(request, body=body)


def collided(request: ApiRequest, error: ApiError) -> bool:
    """Return whether `request` met the write of another client, and may be right all the same."""
    return isinstance(error, Conflict) or (
        isinstance(error, AlreadyExists) and request.verb == "patch"
    )


async def renewed(transport: Transport, request: ApiRequest, live: Obj | None) -> ApiRequest:
    """Return `request` bound to the present version, after one that met the write of another.

    Writes of other clients (a status, an edit) leave the decision as it is. Raises Conflict when
    the object `live` was deleted since, or another commit or unit applied it. Raises ApiError.
    """
    stored = await find_object(transport, request.resource, request.name, request.namespace)
    if stored is None:
        if live is not None:
            raise Conflict("it was deleted meanwhile")
        return request
    if not marks_are_ours(get(stored, "metadata", "managedFields", default=())):
        return bound(request, stored)
    expected = {annotation(request.body, COMMIT), annotation(live, COMMIT) if live else ""}
    applied = annotation(stored, COMMIT)
    if applied and applied not in expected:
        raise Conflict(f"commit {applied[:7]} was applied meanwhile")
    known = {"", mark_of(request.body), mark_of(live) if live else ""}
    if mark_of(stored) not in known:
        raise Conflict("another unit applied it meanwhile")
    return bound(request, stored)
