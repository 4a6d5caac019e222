"""Many concurrent clients on a few ConfigMaps: all requests, replies and events are kept."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

import aiohttp

from gitkruise.errors import ApiError
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.watch import follow
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.sandbox.disk import Draw
from tests.sandbox.ledger import NOTHING, Change, Op, Watch

SPACE: Final = "default"
PATH: Final = f"/api/v1/namespaces/{SPACE}/configmaps"
MAPS: Final = ResourceRef("", "v1", "configmaps")
KEYS: Final = [f"k{n}" for n in range(256)]
METHODS: Final = {
    "create": "POST", "put": "PUT", "patch": "PATCH", "delete": "DELETE", "get": "GET",
    "list": "GET",
}  # fmt: skip
VERBS: Final = (*["create"] * 3, *["put"] * 5, *["patch"] * 14, "delete", "get")
Reply = tuple[int, Obj]


class Door(Protocol):
    """A way to ask a cluster. Status 0 means an answer that never came."""

    async def ask(self, verb: str, key: str, body: Obj | None) -> Reply: ...

    def watch(self, start: int, tier: str) -> AsyncGenerator[Change]: ...


def change_of(kind: str, obj: Obj) -> Change:
    """An event as it is judged."""
    meta = obj.get("metadata") or {}
    token = (obj.get("data") or {}).get("t", NOTHING)
    tier = (meta.get("labels") or {}).get("tier", "")
    return Change(kind, meta.get("name", ""), int(meta.get("resourceVersion", 0)), token, tier)


@dataclass(frozen=True, slots=True)
class Inside:
    """Straight to the Cluster, without HTTP."""

    cluster: Cluster

    async def ask(self, verb: str, key: str, body: Obj | None) -> Reply:
        request = ApiRequest(
            verb={"put": "update"}.get(verb, verb),
            resource=MAPS,
            namespace=SPACE,
            name="" if verb in ("create", "list") else key,
            body=body,
            content_type=MERGE_PATCH if verb == "patch" else "application/json",
        )
        try:
            reply = await self.cluster.handle(request)
        except ApiError as error:
            return error.status, {}
        return reply.status, reply.body

    async def watch(self, start: int, tier: str) -> AsyncGenerator[Change]:
        params = {"resourceVersion": str(start), "allowWatchBookmarks": "true"}
        if tier:
            params["labelSelector"] = f"tier={tier}"
        request = ApiRequest(verb="watch", resource=MAPS, namespace=SPACE, params=params)
        async for event in follow(self.cluster, request, bookmark_every_s=0.05):
            yield change_of(event.type, event.object)


@dataclass(frozen=True, slots=True)
class Outside:
    """Over HTTPS, as any client."""

    session: aiohttp.ClientSession
    url: str
    token: str

    async def ask(self, verb: str, key: str, body: Obj | None) -> Reply:
        at = self.url + PATH + ("" if verb in ("create", "list") else f"/{key}")
        kind = MERGE_PATCH if verb == "patch" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        sent = {**self._sent(), "Content-Type": kind}
        try:
            async with self.session.request(METHODS[verb], at, data=data, headers=sent) as reply:
                return reply.status, json.loads(await reply.read())
        except (aiohttp.ClientError, ConnectionError):
            return 0, {}

    async def watch(self, start: int, tier: str) -> AsyncGenerator[Change]:
        query = f"?watch=1&resourceVersion={start}&allowWatchBookmarks=true"
        query += f"&labelSelector=tier%3D{tier}" if tier else ""
        try:
            async with self.session.get(self.url + PATH + query, headers=self._sent()) as reply:
                async for line in reply.content:
                    event = json.loads(line)
                    yield change_of(event["type"], event["object"])
        except (aiohttp.ClientError, ConnectionError):
            return

    def _sent(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@asynccontextmanager
async def outside(url: str, token: str, ca: str) -> AsyncIterator[Outside]:
    """A door with as many connections as are needed."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=ca), limit=0)
    wait = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=wait) as session:
        yield Outside(session, url, token)


@dataclass(slots=True)
class Load:
    """The clients' own account of what they did. Times are ticks: only their order counts."""

    ops: list[Op] = field(default_factory=list)
    watched: list[tuple[Watch, list[Change]]] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    ticks: Any = field(default_factory=count)
    tokens: Any = field(default_factory=count)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def writer(self, door: Door, seed: int, requests: int) -> None:
        """So many requests, one after the other; ends early when no answer comes."""
        draw = Draw(seed)
        for _ in range(requests):
            if not await self._one(door, draw):
                return

    async def _one(self, door: Door, draw: Draw) -> bool:
        verb, key = VERBS[draw.below(len(VERBS))], KEYS[draw.below(len(KEYS))]
        if draw.below(16):  # mostly what can be done
            verb = "create" if key not in self.known else verb.replace("create", "patch")
        if draw.below(200) == 0:
            verb = "list"
        base = self.known.get(key, 0) if verb == "put" else 0
        token, tier = f"t{next(self.tokens)}", "vw"[draw.below(2)]
        body = _body(verb, key, token, tier, base)
        called = next(self.ticks)
        status, found = await door.ask(verb, key, body)
        answered = next(self.ticks)
        meta = found.get("metadata") or {}
        version = int(meta.get("resourceVersion") or 0) if status < 400 else 0
        if verb == "delete" or status == 404:
            self.known.pop(key, None)
        elif verb != "list" and version:
            self.known[key] = version
        seen = (found.get("data") or {}).get("t", NOTHING) if verb == "get" else token
        self.ops.append(Op(verb, key, called, answered, status, version, seen, base))
        self.news.set()
        return status != 0

    async def watcher(self, door: Door, start: int, tier: str) -> None:
        """Watch until it is cancelled or the watch ends."""
        changes: list[Change] = []
        self.watched.append((Watch(start, changes, tier), changes))
        async for change in door.watch(start, tier):
            changes.append(change)
            self.news.set()

    @property
    def watches(self) -> list[Watch]:
        return [watch for watch, _ in self.watched]


def _body(verb: str, key: str, token: str, tier: str, base: int) -> dict[str, Any] | None:
    if verb in ("get", "list", "delete"):
        return None
    change: dict[str, Any] = {"metadata": {"labels": {"tier": tier}}, "data": {"t": token}}
    if verb == "patch":
        return change
    change["metadata"] |= {"name": key, **({"resourceVersion": str(base)} if base else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", **change}


async def settled(load: Load, version: int) -> None:
    """Until every watch on everything got `version`."""
    whole = [changes for watch, changes in load.watched if not watch.tier]
    while any(not changes or changes[-1].version < version for changes in whole):
        load.news.clear()
        await load.news.wait()


def committed(load: Load) -> dict[int, Change]:
    """All changes, by the first watch on everything; the others are compared with it."""
    first = next(changes for watch, changes in load.watched if not watch.tier)
    return {one.version: one for one in first if one.type != "BOOKMARK"}
