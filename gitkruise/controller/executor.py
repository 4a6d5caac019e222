"""Carries out plans: creates in waves, patches in steps, guarded deletes, the status last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.controller.events import Recorder, Subject
from gitkruise.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    GatewayTimeout,
    InternalError,
    NotFound,
)
from gitkruise.kube.rawobject import meta_of
from gitkruise.kube.store import Store
from gitkruise.kube.transport import Transport
from gitkruise.model.plan import (
    Action,
    Applied,
    Create,
    Delete,
    Outcome,
    Patch,
    Plan,
    Refused,
    Skipped,
    Stale,
    Step,
    told,
)
from gitkruise.wire.catalog import Catalog, Kind
from gitkruise.wire.names import Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.patches import merge_diff
from gitkruise.wire.paths import get, put
from gitkruise.wire.request import ApiReply, ApiRequest

WRITES_MAX: Final = 16

# Answers after which what we hold of the object may be outdated.
_OPEN: Final = (Conflict, NotFound, AlreadyExists, GatewayTimeout, InternalError)


class Executor:
    """Turns plans into writes; shared by all controllers of a process.

    Every patch and delete carries uid and resourceVersion, so a stale decision is refused by the
    server. Replies go to the store at once. After a conflict, a missing object or a lost answer
    the object is in doubt: `settle` reads it live before the next round for its owner.
    `may_write` is asked before every write and raises when another replica may be leading.
    """

    def __init__(
        self,
        transport: Transport,
        store: Store,
        catalog: Catalog,
        recorder: Recorder,
        *,
        writes_max: int = WRITES_MAX,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport, self._store, self._catalog = transport, store, catalog
        self._recorder, self._may_write = recorder, may_write
        self._slots = asyncio.Semaphore(writes_max)

    async def run(self, plan: Plan, subject: Subject, component: str) -> list[Outcome]:
        """One outcome an action, in the plan's order, then one for the status if it was written.

        Refusals are outcomes, not exceptions. Events are recorded about `subject`.
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
        for event in (*plan.events, *filter(None, map(told, results))):
            self._recorder.record(subject, event, component)
        status = plan.status_after(results)
        if status is not None:
            results += await self._write_status(status, subject)
        return results

    async def settle(self, owner: ObjectKey) -> None:
        """Read live whatever is in doubt for `owner`. Raises ApiError when that fails."""
        for key in self._store.doubts(owner):
            before = self._store.seen(key)
            kind = self._catalog.preferred(key.group, key.kind)
            assert kind is not None, f"doubts are about kinds we wrote: {key}"
            try:
                reply = await self._transport.send(
                    ApiRequest(
                        verb="get", resource=kind.ref, namespace=key.namespace, name=key.name
                    )
                )
            except NotFound:
                if before is not None:
                    self._store.note_absent(key, before.uid)
            else:
                self._store.note_write(reply.body)
            self._store.settle(owner, key)

    async def _together(self, actions: list[Action], owner: ObjectKey) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._act(action, owner)) for action in actions]
        return [task.result() for task in tasks]

    async def _act(self, action: Action, owner: ObjectKey) -> Outcome:
        async with self._slots:
            try:
                match action:
                    case Create():
                        return await self._create(action, owner)
                    case Patch():
                        return await self._patch(action, owner)
                    case Delete():
                        return await self._delete(action, owner)
            except (Conflict, NotFound, AlreadyExists) as error:
                return Stale(action=action, error=error)
            except ApiError as error:
                return Refused(action=action, error=error)

    async def _create(self, action: Create, owner: ObjectKey) -> Applied:
        replies = []
        for claim in action.claims:
            try:
                replies.append(await self._create_one(claim, owner))
            except AlreadyExists:  # a claim that outlived its pod is used again
                continue
        replies.append(await self._create_one(action.obj, owner))
        return Applied(action=action, replies=tuple(replies))

    async def _create_one(self, obj: Obj, owner: ObjectKey) -> Obj:
        key, kind = key_of(obj), self._kind(obj)
        request = ApiRequest(verb="create", resource=kind.ref, namespace=key.namespace, body=obj)
        body = (await self._send(request, key, owner)).body
        self._store.note_write(body)
        return body

    async def _patch(self, action: Patch, owner: ObjectKey) -> Applied:
        kind = self._kind_at(action.key, action.version)
        version, replies = action.resource_version, []
        for step in action.steps:
            request = ApiRequest(
                verb="patch",
                resource=kind.ref,
                namespace=action.key.namespace,
                name=action.key.name,
                subresource=step.subresource,
                body=_guarded(step, action.uid, version),
                content_type=step.content_type,
            )
            body = (await self._send(request, action.key, owner)).body
            self._store.note_write(body)
            version = meta_of(body).resource_version
            replies.append(body)
        return Applied(action=action, replies=tuple(replies))

    async def _delete(self, action: Delete, owner: ObjectKey) -> Applied:
        kind = self._kind_at(action.key, action.version)
        seen = {"uid": action.uid, "resourceVersion": action.resource_version}
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {name: value for name, value in seen.items() if value},
        }
        if action.propagation:
            options["propagationPolicy"] = action.propagation
        request = ApiRequest(
            verb="delete",
            resource=kind.ref,
            namespace=action.key.namespace,
            name=action.key.name,
            body=options,
        )
        body = (await self._send(request, action.key, owner)).body
        self._store.note_delete(action.key, action.uid, body)
        replies = [body]
        for follower in action.then:
            try:
                replies += (await self._delete(follower, owner)).replies
            except NotFound:  # what we want of it is true already
                self._store.note_absent(follower.key, follower.uid)
        return Applied(action=action, replies=tuple(replies))

    async def _send(self, request: ApiRequest, key: ObjectKey, owner: ObjectKey) -> ApiReply:
        """Send one write about `key`, in doubt from before it leaves until an answer settles it."""
        self._may_write()
        doubted = key in self._store.doubts(owner)
        self._store.doubt(owner, key)
        try:
            reply = await self._transport.send(request)
        except ApiError as error:
            if not doubted and not isinstance(error, _OPEN):
                self._store.settle(owner, key)
            raise
        self._store.settle(owner, key)
        return reply

    async def _write_status(self, status: Mapping[str, Any], subject: Subject) -> list[Outcome]:
        seen = self._store.seen(subject.key)
        if seen is None or seen.uid != subject.uid:
            return []
        change = merge_diff(get(seen.read(), "status", default={}), status)
        if not change:
            return []
        action = Patch(
            key=subject.key,
            version=subject.version,
            uid=seen.uid,
            resource_version=str(seen.version),
            steps=(Step(body={"status": change}, subresource="status"),),
        )
        return await self._together([action], subject.key)

    def _kind(self, obj: Obj) -> Kind:
        key, (_, version) = key_of(obj), split_api_version(obj["apiVersion"])
        return self._kind_at(key, version)

    def _kind_at(self, key: ObjectKey, version: str) -> Kind:
        kind = self._catalog.by_kind(key.group, version, key.kind)
        assert kind is not None, f"no planner writes kinds that are not served: {key} {version}"
        return kind


def _wave(action: Action) -> int:
    return action.wave if isinstance(action, Create) else 0


def _guarded(step: Step, uid: str, version: str) -> Any:
    """The step's patch, valid only for this very object in this very version."""
    meta = {**(step.body.get("metadata") or {}), "uid": uid, "resourceVersion": version}
    return put(step.body, ("metadata",), meta)
