"""Watches over the shared World: each event after it is durable, bookmarks, the timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from gitkruise.errors import BadRequest, Unavailable
from gitkruise.sandbox.cluster import Cluster
from gitkruise.sandbox.fanout import Reader, Seat, Stretch
from gitkruise.wire.names import Obj, join_api_version
from gitkruise.wire.request import ApiRequest, WatchEvent

BOOKMARK_EVERY_S: Final = 60.0
TIMEOUT_S: Final = 1800.0  # where the client names none; kube-apiserver draws 30 to 60 minutes
TIMEOUT_MAX_S: Final = 3600.0
_TRUE: Final = {"true": True, "1": True, "false": False, "0": False, "": False}


async def batches(
    cluster: Cluster,
    request: ApiRequest,
    *,
    reader: Reader | None = None,
    bookmark_every_s: float = BOOKMARK_EVERY_S,
) -> AsyncGenerator[Stretch]:
    """The events of one watch, as many at a time as there are; ends at `timeoutSeconds`.

    The first batch comes at once, empty if need be, so that bad terms fail before an answer
    begins. While a `reader` keeps up, `tell` writes to it directly, and nothing comes from here.
    The World's log is the only buffer: a reader slower than it raises WatchExpired. Bookmarks
    come when the watch was silent for `bookmark_every_s`, so that a resume never starts far
    back (kube-apiserver sends them about once a minute). Raises BadRequest for bad parameters.
    """
    bookmarks = _flag(request.params, "allowWatchBookmarks")
    loop = asyncio.get_running_loop()
    end = loop.time() + _timeout_s(request.params)
    stretch = Stretch(*cluster.world.watch(request, 0))
    seat = Seat(request, stretch.end, loop.time())
    await cluster.durable(stretch.end)
    yield stretch
    del stretch  # many watches wait here
    while True:
        if loop.time() >= end or cluster.closed:
            return
        due = seat.told + bookmark_every_s if bookmarks else end
        await _news(cluster, seat, reader, until=min(due, end))
        stretch = cluster.fanout.after(request, seat.position, cluster.told)
        seat.position = stretch.end
        silent = bookmarks and loop.time() >= seat.told + bookmark_every_s
        if not stretch.events and silent:
            stretch = Stretch([bookmark(cluster, request, seat.position)], seat.position)
        if stretch.events:
            await cluster.durable(seat.position)
            seat.told = loop.time()
            yield stretch
        del stretch


async def follow(
    cluster: Cluster, request: ApiRequest, *, bookmark_every_s: float = BOOKMARK_EVERY_S
) -> AsyncGenerator[WatchEvent]:
    """The events of `batches`, one by one."""
    async for stretch in batches(cluster, request, bookmark_every_s=bookmark_every_s):
        for event in stretch.events:
            yield event


async def _news(cluster: Cluster, seat: Seat, reader: Reader | None, *, until: float) -> None:
    """Wait for something that the watch's own task has to tell."""
    try:
        async with asyncio.timeout_at(until):
            if reader and reader.keeps_up and cluster.told <= seat.position:
                await cluster.fanout.sit(seat, reader)
            else:
                await cluster.gathered(seat.position)
    except TimeoutError:
        return


async def tell(cluster: Cluster) -> None:
    """Tell those that sit in the cluster's fan-out what is durable; until the cluster closes."""
    told = cluster.told
    while not cluster.closed:
        told = await cluster.gathered(told)
        try:
            await cluster.durable(told)
        except Unavailable:
            cluster.fanout.free_all()  # each has to tell it
        else:
            await cluster.fanout.tell(told)
    cluster.fanout.free_all()


def bookmark(cluster: Cluster, request: ApiRequest, version: int) -> WatchEvent:
    """A BOOKMARK at `version`: the type and the resourceVersion, nothing else."""
    kind = cluster.world.catalog.by_ref(request.resource)
    assert kind is not None
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
