"""Watches over the shared World: where to start, what to send, when to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.sandbox.cluster import Cluster
from gitkruise.wire.names import Obj, join_api_version
from gitkruise.wire.request import ApiRequest, WatchEvent

BOOKMARK_EVERY_S: Final = 60.0
TIMEOUT_S: Final = 1800.0  # where the client names none; kube-apiserver draws 30 to 60 minutes
TIMEOUT_MAX_S: Final = 3600.0
_TRUE: Final = {"true": True, "1": True, "": True, "false": False, "0": False}
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_LIST_ONLY: Final = ("resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "allowWatchBookmarks", "limit", "continue", "watch")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTerms:
    """What one watch asked for, parsed. `initial` means: first the present state as ADDED."""

    since: int
    initial: bool
    marked_end: bool  # a bookmark tells where the initial events end
    bookmarks: bool
    timeout_s: float


def read_terms(request: ApiRequest) -> WatchTerms:
    """Terms of a watch request; raises BadRequest on what kube-apiserver refuses.

    Source: ListOptions validation of kube-apiserver (sendInitialEvents needs
    resourceVersionMatch=NotOlderThan, and the other way round).
    """
    params = request.params
    version = _number(params, "resourceVersion")
    send_initial = _flag(params, "sendInitialEvents", default=None)
    match = params.get("resourceVersionMatch", "")
    if send_initial is not None and match != "NotOlderThan":
        raise BadRequest(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if send_initial is None and match:
        raise BadRequest(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    bookmarks = bool(_flag(params, "allowWatchBookmarks", default=False))
    timeout = _number(params, "timeoutSeconds")
    return WatchTerms(
        since=version,
        initial=bool(send_initial) if send_initial is not None else version == 0,
        marked_end=bool(send_initial) and bookmarks,
        bookmarks=bookmarks,
        timeout_s=min(float(timeout), TIMEOUT_MAX_S) if timeout else TIMEOUT_S,
    )


async def follow(
    cluster: Cluster, request: ApiRequest, *, bookmark_every_s: float = BOOKMARK_EVERY_S
) -> AsyncIterator[WatchEvent]:
    """The events of one watch, each after it is durable; ends at its timeout.

    Raises BadRequest for bad terms and WatchExpired when the log no longer reaches back.
    """
    terms = read_terms(request)
    position = terms.since
    loop = asyncio.get_running_loop()
    if terms.initial:
        events, position = await _initial(cluster, request)
        for event in events:
            yield event
        if terms.marked_end:
            yield bookmark(cluster, request, position, end_of_initial=True)
    end = loop.time() + terms.timeout_s
    told = loop.time()
    while True:
        events, position = cluster.world.watch(request, position)
        if events:
            await cluster.durable(position)
            told = loop.time()
        for event in events:
            yield event
        if loop.time() >= end:
            return
        due = told + bookmark_every_s if terms.bookmarks else end
        if not await _news(cluster, position, until=min(due, end)):
            if terms.bookmarks and loop.time() >= due:
                told = loop.time()
                yield bookmark(cluster, request, position)


async def _news(cluster: Cluster, position: int, *, until: float) -> bool:
    try:
        async with asyncio.timeout_at(until):
            await cluster.changed(position)
    except TimeoutError:
        return False
    return True


async def _initial(cluster: Cluster, request: ApiRequest) -> tuple[list[WatchEvent], int]:
    params = {key: value for key, value in request.params.items() if key not in _LIST_ONLY}
    reply = await cluster.handle(replace(request, verb="list", params=params))
    events = [
        WatchEvent(type="ADDED", object=with_type(cluster, request, item))
        for item in reply.body["items"]
    ]
    return events, int(reply.body["metadata"]["resourceVersion"])


def with_type(cluster: Cluster, request: ApiRequest, item: Obj) -> Obj:
    """`item` of a list with the apiVersion and kind that a list leaves out."""
    if "kind" in item:
        return item
    return {**_type_of(cluster, request), **item}


def bookmark(
    cluster: Cluster, request: ApiRequest, version: int, *, end_of_initial: bool = False
) -> WatchEvent:
    """A BOOKMARK at `version`: the type and the resourceVersion, nothing else."""
    meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if end_of_initial:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    return WatchEvent(type="BOOKMARK", object={**_type_of(cluster, request), "metadata": meta})


def _type_of(cluster: Cluster, request: ApiRequest) -> dict[str, Any]:
    group, version, _ = request.resource
    kind = cluster.world.catalog.by_ref(request.resource)
    return {"kind": kind.kind, "apiVersion": join_api_version(group, version)}


def _number(params: Any, name: str) -> int:
    text = params.get(name, "") or "0"
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63:
        raise BadRequest(f'{name}: Invalid value: "{text}": must be a non-negative integer')
    return int(text)


def _flag(params: Any, name: str, *, default: bool | None) -> bool | None:
    if name not in params:
        return default
    if params[name] not in _TRUE:
        raise BadRequest(f'{name}: Invalid value: "{params[name]}": must be true or false')
    return _TRUE[params[name]]
