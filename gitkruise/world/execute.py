"""Carry out a plan against the model cluster, with the live executor's semantics.

Creates run in waves (slow start): a wave is tried when every create of the wave before it went
through. Claims are created before their pod. Patches and deletes carry the uid and the
resourceVersion the plan saw; a conflict makes the outcome Stale and ends the action. Events and
status come after the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from gitkruise.errors import AlreadyExists, ApiError, Conflict, NotFound
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
    told,
)
from gitkruise.model.workload import Workload
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.request import ApiReply, ApiRequest
from gitkruise.world import events as event_log
from gitkruise.world.writes import create_request, resource_of

if TYPE_CHECKING:
    from gitkruise.world.cluster import World

Send: TypeAlias = Callable[[ApiRequest, datetime], ApiReply]


def execute(  # noqa: PLR0913  a plan, where to, for whom and when
    plan: Plan,
    world: World,
    workload: Workload[Any],
    key: ObjectKey,
    now: datetime,
    *,
    send: Send | None = None,
    events: bool = True,
) -> list[Outcome]:
    """One outcome an action, in order. `send` stands between us and the World (faults).

    Never raises for what the cluster answers to an action or an event; a status that cannot be
    written is the last outcome, as a Stale or Refused Patch of the subject.
    """
    user = workload.component

    def plainly(request: ApiRequest, at: datetime) -> ApiReply:
        return world.handle(request, at, user=user)

    run = _Execution(world, send or plainly, now, undisturbed=send is None)
    outcomes: list[Outcome] = []
    failed_wave: int | None = None
    for action in plan.actions:
        if isinstance(action, Create) and failed_wave is not None and action.wave > failed_wave:
            outcomes.append(Skipped(action=action))
            continue
        outcome = run.act(action)
        outcomes.append(outcome)
        if isinstance(action, Create) and not isinstance(outcome, Applied):
            failed_wave = action.wave if failed_wave is None else min(failed_wave, action.wave)
    if events:
        _record(world, key, plan, outcomes, now=now, user=user)
    status = plan.status_after(outcomes)
    if status is not None and (trouble := run.write_status(workload, key, status)):
        outcomes.append(trouble)
    return outcomes


class _Execution:
    def __init__(self, world: World, send: Send, now: datetime, *, undisturbed: bool) -> None:
        self.world, self.send, self.now = world, send, now
        self.undisturbed = undisturbed  # nobody stands between us and the World

    def act(self, action: Action) -> Outcome:
        try:
            made = self.world.at_once(action, self.now) if self.undisturbed else None
            replies = self._send(action) if made is None else (made,)
        except (Conflict, NotFound, AlreadyExists) as error:
            return Stale(action=action, error=error)
        except ApiError as error:
            return Refused(action=action, error=error)
        return Applied(action=action, replies=tuple(replies))

    def _send(self, action: Action) -> list[Obj]:
        match action:
            case Create():
                return self._create(action)
            case Patch():
                return self._patch(action)
            case Delete():
                return self._delete(action)

    def _create(self, action: Create) -> list[Obj]:
        replies = []
        for claim in action.claims:
            try:
                replies.append(self._ask(create_request(self.world.catalog, claim)))
            except AlreadyExists:  # a claim that outlived its pod is used again
                continue
        return [*replies, self._ask(create_request(self.world.catalog, action.obj))]

    def _patch(self, action: Patch) -> list[Obj]:
        resource = resource_of(self.world.catalog, action.key, action.version)
        version, replies = action.resource_version, []
        for step in action.steps:
            pinned = {"uid": action.uid, "resourceVersion": version}
            request = ApiRequest(
                verb="patch",
                resource=resource,
                namespace=action.key.namespace,
                name=action.key.name,
                subresource=step.subresource,
                body={**step.body, "metadata": {**(step.body.get("metadata") or {}), **pinned}},
                content_type=step.content_type,
            )
            stored = self._ask(request)
            version = stored["metadata"]["resourceVersion"]
            replies.append(stored)
        return replies

    def _delete(self, action: Delete) -> list[Obj]:
        preconditions = {"uid": action.uid, "resourceVersion": action.resource_version}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {name: value for name, value in preconditions.items() if value},
        }
        if action.propagation:
            body["propagationPolicy"] = action.propagation
        replies = [self._ask(self._on(action.key, action.version, "delete", body))]
        for follower in action.then:
            try:
                replies += self._delete(follower)
            except NotFound:
                continue
        return replies

    def write_status(
        self, workload: Workload[Any], key: ObjectKey, status: Mapping[str, Any]
    ) -> Outcome | None:
        """Replace the subject's status through its subresource; None when that went well."""
        if self.undisturbed and self.world.report_at_once(key, workload.version, status):
            return None
        request = self._on(key, workload.version, "get")
        try:
            subject = self.world.handle(request, self.now).body
            if subject.get("status") == status:
                return None
            body = {**subject, "status": status}
            self._ask(replace(request, verb="update", subresource="status", body=body))
        except NotFound:
            return None  # deleted by our own actions or meanwhile: nobody is left to tell
        except ApiError as error:
            action = Patch(key=key, version=workload.version, uid="", resource_version="", steps=())
            kind = Stale if isinstance(error, Conflict) else Refused
            return kind(action=action, error=error)
        return None

    def _on(self, key: ObjectKey, version: str, verb: str, body: Any = None) -> ApiRequest:
        resource = resource_of(self.world.catalog, key, version)
        return ApiRequest(
            verb=verb, resource=resource, namespace=key.namespace, name=key.name, body=body
        )

    def _ask(self, request: ApiRequest) -> Obj:
        return self.send(request, self.now).body


def _record(
    world: World, key: ObjectKey, plan: Plan, outcomes: list[Outcome], *, now: datetime, user: str
) -> None:
    subject = world.get(key)
    if subject is None:
        return
    for event in [*plan.events, *filter(None, map(told, outcomes))]:
        try:
            event_log.record(world, subject, event, now, component=user)
        except ApiError:  # events are best effort, as everywhere in Kubernetes
            continue
