"""Carries out plans: creates in waves, patches in steps, guarded deletes, the status last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gitkruise.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    GatewayTimeout,
    InternalError,
    NotFound,
)
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.model.planning.execution import performing
from gitkruise.model.planning.plan import (
    Action,
    Applied,
    Create,
    Event,
    Outcome,
    Patch,
    PatchStep,
    Plan,
    Skipped,
    event_for,
)
from gitkruise.model.planning.workload import Later, never
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.patch.json_patch import merge_diff
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest

WRITES_MAX: Final = 16

# Answers after which what we hold of the object may be outdated.
_OPEN: Final = (Conflict, NotFound, AlreadyExists, GatewayTimeout, InternalError)

_STATUS_FAILED: Final = Event("Warning", "FailedUpdateStatus", "could not write the status: ")


class Executor:
    """Turns plans into writes; shared by all controllers of a process.

    Every patch and delete carries preconditions (`model.preconditions`), so a stale decision is
    refused by the server. Replies go to the store first. After a conflict that ends an action, a
    missing object or a lost answer the object is in doubt: `settle` reads it live before the next
    round for its owner.
    """

    def __init__(
        self,
        transport: Transport,
        store: InformerCache,
        catalog: Catalog,
        recorder: Recorder,
        *,
        writes_max: int = WRITES_MAX,
    ) -> None:
        self._transport, self._store, self._catalog = transport, store, catalog
        self._recorder = recorder
        self._slots = asyncio.Semaphore(writes_max)

    async def run(
        self, plan: Plan, subject: Subject, component: str, *, later: Later = never
    ) -> list[Outcome]:
        """One outcome an action, in the plan's order, then one for the status if it has news.

        A status that `later` accepts is Skipped. Refusals are outcomes, not exceptions. Events are
        recorded about `subject`.
        """
        outcomes: dict[int, Outcome] = {}
        failed_before = False
        for wave in sorted({_wave(action) for action in plan.actions}):
            group = [(at, a) for at, a in enumerate(plan.actions) if _wave(a) == wave]
            if failed_before:  # only creates have waves above 0
                outcomes |= {at: Skipped(action=action) for at, action in group}
                continue
            done = await self._together([action for _, action in group], subject.key)
            outcomes |= {at: outcome for (at, _), outcome in zip(group, done, strict=True)}
            failed_before = any(
                isinstance(o.action, Create) and not isinstance(o, Applied) for o in done
            )
        results = [outcomes[at] for at in range(len(plan.actions))]
        self._record((*plan.events, *map(event_for, results)), subject, component)
        status = plan.status_after(results)
        if status is None:
            return results
        written = await self._write_status(status, subject, later)
        self._record(map(event_for, written), subject, component)
        return results + written

    def _record(self, events: Iterable[Event | None], subject: Subject, component: str) -> None:
        for event in filter(None, events):
            self._recorder.record(subject, event, component)

    async def settle(self, owner: ObjectKey) -> None:
        """Read live whatever is in doubt for `owner`. Raises ApiError when that fails."""
        for key in self._store.uncertain(owner):
            kind = self._catalog.preferred(key.group, key.kind)
            if kind is None:
                raise NotFound(f"the cluster no longer serves {key.kind} of {key.group}")
            request = ApiRequest(
                verb="get", resource=kind.ref, namespace=key.namespace, name=key.name
            )
            with suppress(NotFound):
                await self._read(request, key, owner)

    async def _read(self, request: ApiRequest, key: ObjectKey, owner: ObjectKey) -> Obj:
        """A live read of `key`, which settles what was in doubt about it. Raises ApiError."""
        before = self._store.seen(key)
        try:
            reply = await self._transport.send(request)
        except NotFound:
            if before is not None:
                self._store.note_absent(key, before.uid)
            self._store.confirm(owner, key)
            raise
        self._store.note_write(reply.body)
        self._store.confirm(owner, key)
        return thaw(reply.body)

    async def _together(self, actions: list[Action], owner: ObjectKey) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._act(action, owner)) for action in actions]
        return [task.result() for task in tasks]

    async def _act(self, action: Action, owner: ObjectKey) -> Outcome:
        writes = performing(action, self._kind, self._newest)
        step = partial(next, writes)
        async with self._slots:
            while True:
                try:
                    request = step()
                except StopIteration as done:
                    outcome: Outcome = done.value
                    return outcome
                try:
                    body = await self._ask(request, owner)
                except ApiError as error:
                    step = partial(writes.throw, error)
                else:
                    step = partial(writes.send, body)

    async def _ask(self, request: ApiRequest, owner: ObjectKey) -> Obj:
        """The body of the reply; the store knows of it before the next request."""
        key = self._key(request)
        if request.verb == "get":
            self._store.mark_uncertain(owner, key)
            return await self._read(request, key, owner)
        if request.verb == "delete":
            return await self._delete(request, key, owner)
        body = (await self._send(request, key, owner)).body
        self._store.note_write(body)
        return body if request.verb == "create" else thaw(body)

    async def _delete(self, request: ApiRequest, key: ObjectKey, owner: ObjectKey) -> Obj:
        uid = request.body["preconditions"]["uid"]
        try:
            body = (await self._send(request, key, owner)).body
        except NotFound:
            self._store.note_absent(key, uid)
            raise
        self._store.note_delete(key, uid, body)
        return thaw(body)

    async def _send(self, request: ApiRequest, key: ObjectKey, owner: ObjectKey) -> ApiReply:
        """Send one write about `key`, in doubt from before it leaves until an answer settles it."""
        doubted = key in self._store.uncertain(owner)
        self._store.mark_uncertain(owner, key)
        try:
            reply = await self._transport.send(request)
        except ApiError as error:
            if not doubted and not isinstance(error, _OPEN):
                self._store.confirm(owner, key)
            raise
        self._store.confirm(owner, key)
        return reply

    async def _write_status(
        self, status: Mapping[str, Any], subject: Subject, later: Later
    ) -> list[Outcome]:
        seen = self._store.seen(subject.key)
        if seen is None or seen.uid != subject.uid:
            return []
        known = get(seen.read(), "status", default={})
        change = merge_diff(known, status)
        if not change:
            return []
        action = Patch(
            key=subject.key,
            version=subject.version,
            uid=seen.uid,
            resource_version=str(seen.version),
            steps=(PatchStep(body={"status": change}, subresource="status"),),
            failed=_STATUS_FAILED,
        )
        if later(known, status):
            return [Skipped(action=action, why="another status was written a moment ago")]
        return await self._together([action], subject.key)

    def _newest(self, key: ObjectKey) -> Obj | None:
        known = self._store.seen(key)
        return None if known is None else known.read()

    def _key(self, request: ApiRequest) -> ObjectKey:
        """Return the object that a request of `performing` is about."""
        if request.verb == "create":
            return key_of(request.body)
        kind = self._catalog.by_ref(request.resource)
        if kind is None:
            raise NotFound(f"the cluster does not serve {request.resource}")
        return ObjectKey(*kind.group_kind, request.namespace, request.name)

    def _kind(self, key: ObjectKey, version: str) -> Kind:
        kind = self._catalog.by_kind(key.group, version, key.kind)
        if kind is None:
            raise NotFound(f"the cluster does not serve {key.kind} of {key.group}/{version}")
        return kind


def _wave(action: Action) -> int:
    return action.wave if isinstance(action, Create) else 0
