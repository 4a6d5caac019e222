"""A ten-verb cluster in memory that can lose answers, cut watches and forget the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitkruise.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    GatewayTimeout,
    NotFound,
    WatchExpired,
)
from gitkruise.wire.patch.json_patch import json_patch, merge_patch
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop, get, put
from gitkruise.wire.primitives.requests import (
    JSON_PATCH,
    ApiReply,
    ApiRequest,
    ResourceRef,
    WatchEvent,
)

PODS = ResourceRef("", "v1", "pods")
CONFIG_MAPS = ResourceRef("", "v1", "configmaps")
BOOKMARK_EVERY_S = 60
Position = tuple[ResourceRef, str, str]


@dataclass
class Fault:
    """Raised instead of the next answer to `verb`; the request takes place first if `after`."""

    verb: str
    error: ApiError
    after: bool = False


@dataclass
class Toy:
    """Implements kube.transport.Transport; versions are numbers, uids count up."""

    version: int = 10
    objects: dict[Position, Obj] = field(default_factory=dict)
    log: list[tuple[int, str, ResourceRef, Obj]] = field(default_factory=list)
    forgotten: int = 0  # watches from before this version are refused
    requests: list[ApiRequest] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    latency_s: float = 0.0
    in_flight: int = 0
    most_in_flight: int = 0
    cut: int = 0  # watches are ended when this number changes
    uids: int = 0
    mute: bool = False  # watches tell nothing
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, request: ApiRequest) -> ApiReply:
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            fault = next((f for f in self.faults if f.verb == request.verb), None)
            if fault is not None:
                self.faults.remove(fault)
                if fault.after:
                    self.do(request)
                raise fault.error
            return ApiReply(status=200, body=self.do(request))
        finally:
            self.in_flight -= 1

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        at, cut = int(request.params["resourceVersion"]), self.cut
        while self.cut == cut:
            if at < self.forgotten:
                raise WatchExpired("too old")
            for version, type_, ref, obj in [e for e in self.log if e[0] > at]:
                at = version
                if ref == request.resource and self.cut == cut:
                    yield WatchEvent(type=type_, object=obj)
            try:
                async with asyncio.timeout(BOOKMARK_EVERY_S):
                    await self.news.wait()
            except TimeoutError:
                if not self.mute:
                    yield _bookmark(at)

    async def close(self) -> None:
        self.cut_watches()

    def cut_watches(self) -> None:
        self.cut += 1
        self._wake()

    def forget(self) -> None:
        """Compact the log, as etcd does."""
        self.forgotten, self.log = self.version, []
        self.cut_watches()

    def do(self, request: ApiRequest) -> Obj:
        """Carry out the request immediately. Raises ApiError."""
        position = (request.resource, request.namespace, request.name)
        match request.verb:
            case "list":
                return self._list(request)
            case "get":
                return self._there(position)
            case "create":
                return self._create(request)
            case "update":
                return self._store(position, self._checked(position, request.body), request.body)
            case "patch":
                return self._patch(position, request)
            case "delete":
                return self._delete(position, request.body or {})
            case _:
                raise AssertionError(request.verb)

    def make(self, ref: ResourceRef, name: str, **fields: Any) -> Obj:
        """Create an object as another client."""
        kind = {"pods": "Pod", "configmaps": "ConfigMap"}[ref.plural]
        meta = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
        body = {"apiVersion": "v1", "kind": kind, "metadata": meta, **fields}
        return self.do(ApiRequest(verb="create", resource=ref, namespace="default", body=body))

    def change(self, ref: ResourceRef, name: str, patch: Mapping[str, Any]) -> Obj:
        """Change an object as another client."""
        return self.do(
            ApiRequest(verb="patch", resource=ref, namespace="default", name=name, body=patch)
        )

    def remove(self, ref: ResourceRef, name: str) -> Obj:
        return self.do(ApiRequest(verb="delete", resource=ref, namespace="default", name=name))

    def _there(self, position: Position) -> Obj:
        if position not in self.objects:
            raise NotFound(f'{position[0].plural} "{position[2]}" not found')
        return self.objects[position]

    def _checked(self, position: Position, body: Mapping[str, Any]) -> Obj:
        old = self._there(position)
        for field_ in ("uid", "resourceVersion"):
            want = get(body, "metadata", field_, default=old["metadata"][field_])
            if want != old["metadata"][field_]:
                raise Conflict(f"{field_} is {old['metadata'][field_]}, not {want}")
        return old

    def _patch(self, position: Position, request: ApiRequest) -> Obj:
        if request.content_type == JSON_PATCH:
            old = self._there(position)
            return self._store(position, old, json_patch(old, request.body))
        old = self._checked(position, request.body)
        return self._store(position, old, merge_patch(old, request.body))

    def _create(self, request: ApiRequest) -> Obj:
        name = request.body["metadata"]["name"]
        position = (request.resource, request.namespace, name)
        if position in self.objects:
            raise AlreadyExists(f'{request.resource.plural} "{name}" already exists')
        self.uids += 1
        obj = put(request.body, ("metadata", "uid"), f"uid-{self.uids}")
        return self._store(position, None, put(obj, ("metadata", "namespace"), request.namespace))

    def _store(self, position: Position, old: Obj | None, new: Obj) -> Obj:
        if old is not None and put(new, ("metadata", "resourceVersion"), "") == put(
            old, ("metadata", "resourceVersion"), ""
        ):
            return old
        new = self._stamped(new)
        self.objects[position] = new
        self._publish("ADDED" if old is None else "MODIFIED", position[0], new)
        return new

    def _delete(self, position: Position, options: Mapping[str, Any]) -> Obj:
        old = self._checked(position, {"metadata": options.get("preconditions") or {}})
        del self.objects[position]
        self._publish("DELETED", position[0], self._stamped(old))
        return {"kind": "Status", "status": "Success", "details": {"uid": old["metadata"]["uid"]}}

    def _stamped(self, obj: Obj) -> Obj:
        self.version += 1
        stamped: Obj = put(obj, ("metadata", "resourceVersion"), str(self.version))
        return stamped

    def _list(self, request: ApiRequest) -> Obj:
        items = [
            drop(drop(obj, ("kind",)), ("apiVersion",))
            for (ref, _, _), obj in sorted(self.objects.items())
            if ref == request.resource
        ]
        begin = int(request.params.get("continue", "0"))
        limit = int(request.params.get("limit", "500"))
        meta = {"resourceVersion": str(self.version)}
        if begin + limit < len(items):
            meta["continue"] = str(begin + limit)
        return {"kind": "List", "metadata": meta, "items": items[begin : begin + limit]}

    def _publish(self, type_: str, ref: ResourceRef, obj: Obj) -> None:
        if not self.mute:
            self.log.append((self.version, type_, ref, obj))
        self._wake()

    def _wake(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()


def _bookmark(version: int) -> WatchEvent:
    return WatchEvent(type="BOOKMARK", object={"metadata": {"resourceVersion": str(version)}})


def lost(verb: str) -> Fault:
    """The request takes place and its answer is lost."""
    return Fault(verb, GatewayTimeout("no answer"), after=True)
