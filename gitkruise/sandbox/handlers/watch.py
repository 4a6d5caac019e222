"""Watches over the shared World: each event after it is durable, bookmarks, the timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from gitkruise.errors import BadRequest, Unavailable
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.backend.watch_fanout import EventBatch, WatchCursor, WatchReader
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, join_api_version
from gitkruise.wire.primitives.requests import ApiRequest, WatchEvent

BOOKMARK_EVERY_S: Final = 60.0
TIMEOUT_S: Final = 1800.0  # where the client names none; kube-apiserver draws 30 to 60 minutes
TIMEOUT_MAX_S: Final = 3600.0
_TRUE: Final = {"true": True, "1": True, "false": False, "0": False, "": False}


async def batches(
    cluster: Cluster,
    request: ApiRequest,
    *,
    reader: WatchReader | None = None,
    bookmark_every_s: float = BOOKMARK_EVERY_S,
) -> AsyncGenerator[EventBatch]:
    """The events of one watch, as many at a time as there are; ends at `timeoutSeconds`.

    The first batch comes immediately, even if empty, so that bad terms fail before an answer
    begins. While a `reader` keeps up, `broadcast` writes to it, and nothing comes from here.
    The World's log is the only buffer: a reader slower than it raises WatchExpired. Bookmarks
    come when the watch was silent for `bookmark_every_s`, so that a resume never starts far
    back (kube-apiserver sends them about once a minute). Raises BadRequest for bad parameters.
    """
    bookmarks = _flag(request.params, "allowWatchBookmarks")
    loop = asyncio.get_running_loop()
    end = loop.time() + _timeout_s(request.params)
    batch = EventBatch(*cluster.world.watch(request, 0))
    kind = served(cluster, request).home
    cursor = WatchCursor(request, batch.end, loop.time())
    await cluster.durable(batch.end)
    yield batch
    del batch  # many watches wait here
    while True:
        if loop.time() >= end or cluster.closed:
            return
        due = cursor.written + bookmark_every_s if bookmarks else end
        await _news(cluster, kind, cursor, reader, min(due, end))
        batch = cluster.fanout.after(request, cursor.position, cluster.announced)
        cursor.position = batch.end
        silent = bookmarks and loop.time() >= cursor.written + bookmark_every_s
        if not batch.events and silent:
            batch = EventBatch([bookmark(cluster, request, cursor.position)], cursor.position)
        if batch.events:
            await cluster.durable(cursor.position)
            cursor.written = loop.time()
            yield batch
        del batch


async def follow(
    cluster: Cluster, request: ApiRequest, *, bookmark_every_s: float = BOOKMARK_EVERY_S
) -> AsyncGenerator[WatchEvent]:
    """The events of `batches`, one by one."""
    async for batch in batches(cluster, request, bookmark_every_s=bookmark_every_s):
        for event in batch.events:
            yield event


async def _news(
    cluster: Cluster, kind: GroupKind, cursor: WatchCursor, reader: WatchReader | None, until: float
) -> None:
    """Wait for events that the task of the watch itself has to send."""
    try:
        async with asyncio.timeout_at(until):
            if reader and reader.keeps_up and cluster.announced <= cursor.position:
                await cluster.fanout.attach(cursor, reader)
            else:
                await cluster.gathered(cursor.position, kind)
    except TimeoutError:
        return


async def broadcast(cluster: Cluster) -> None:
    """Broadcast durable events to the attached watches until the cluster closes."""
    version = cluster.announced
    while not cluster.closed:
        version = await cluster.gathered(version)
        try:
            await cluster.durable(version)
        except Unavailable:
            cluster.fanout.free_all()  # the task of each watch reports the error
        else:
            await cluster.fanout.broadcast(version)
    cluster.fanout.free_all()


def served(cluster: Cluster, request: ApiRequest) -> Kind:
    """The kind of a watch that has begun."""
    kind = cluster.world.catalog.by_ref(request.resource)
    assert kind is not None
    return kind


def bookmark(cluster: Cluster, request: ApiRequest, version: int) -> WatchEvent:
    """A BOOKMARK at `version`: the type and the resourceVersion, nothing else."""
    kind = served(cluster, request)
    group, api_version, _ = request.resource
    obj: Obj = {
        "kind": kind.kind,
        "apiVersion": join_api_version(group, api_version),
        "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
    }
    return WatchEvent(type="BOOKMARK", object=obj)


def _timeout_s(params: Mapping[str, str]) -> float:
    text = params.get("timeoutSeconds", "") or "0"
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(f'timeoutSeconds: Invalid value: "{text}": must be a non-negative integer')
    return min(float(text), TIMEOUT_MAX_S) or TIMEOUT_S


def _flag(params: Mapping[str, str], name: str) -> bool:
    text = params.get(name, "")
    if text not in _TRUE:
        raise BadRequest(f'{name}: Invalid value: "{text}": must be true or false')
    return _TRUE[text]
