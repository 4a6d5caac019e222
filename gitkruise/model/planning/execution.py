"""Execution of one action: its requests, and the outcome that their answers make of it.

The functions are generators, like those of `preconditions`: they yield requests and are sent the
bodies of the replies, or thrown the ApiError. `controller.executor` drives them against an API
server, `world.simulation.executor` against the model cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from gitkruise.errors import AlreadyExists, ApiError, Conflict, NotFound
from gitkruise.model.planning.plan import (
    Action,
    Applied,
    Create,
    Delete,
    Outcome,
    Patch,
    Refused,
    Stale,
)
from gitkruise.model.planning.preconditions import Writes, deleting, patching
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.primitives.requests import ApiRequest

FindKind: TypeAlias = Callable[[ObjectKey, str], Kind]  # raises NotFound for one not served
Newest: TypeAlias = Callable[[ObjectKey], Obj | None]


def performing(
    action: Action, find: FindKind, newest: Newest
) -> Generator[ApiRequest, Obj, Outcome]:
    """Perform `action`; an ApiError is an outcome."""
    try:
        replies = yield from _writes(action, find, newest)
    except ApiError as error:
        return failed(action, error)
    return Applied(action=action, replies=replies)


def failed(action: Action, error: ApiError) -> Outcome:
    """Return the outcome after `error`: Stale when what the action rested on has changed."""
    stale = isinstance(error, Conflict | NotFound | AlreadyExists)
    return (Stale if stale else Refused)(action=action, error=error)


def _writes(action: Action, find: FindKind, newest: Newest) -> Writes:
    match action:
        case Create():
            return (yield from _creating(action, find))
        case Patch():
            obj = newest(action.key) if action.seen is not None else None
            return (yield from patching(action, find(action.key, action.version), obj))
        case Delete():
            return (yield from _deleting(action, find))


def _creating(action: Create, find: FindKind) -> Writes:
    """Claims first: a pod without its claim would not be scheduled."""
    replies: list[Obj] = []
    for claim in action.claims:
        try:
            replies.append((yield _create_request(claim, find)))
        except AlreadyExists:  # a claim that outlived its pod is used again
            continue
    return (*replies, (yield _create_request(action.obj, find)))


def _create_request(obj: Obj, find: FindKind) -> ApiRequest:
    key, (_, version) = key_of(obj), split_api_version(obj["apiVersion"])
    ref = find(key, version).ref
    return ApiRequest(verb="create", resource=ref, namespace=key.namespace, body=obj)


def _deleting(action: Delete, find: FindKind) -> Writes:
    replies = [(yield from deleting(action, find(action.key, action.version)))]
    for follower in action.then:
        try:
            replies += yield from _deleting(follower, find)
        except NotFound:  # what is wanted of it is true already
            continue
    return tuple(replies)
