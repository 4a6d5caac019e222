"""Carry out a plan against the model cluster, with the live executor's semantics.

Creates run in waves (slow start): a wave is tried when every create of the wave before it went
through. Claims are created before their pod. Patches and deletes carry preconditions
(`model.preconditions`); one that does not hold makes the outcome Stale and ends the action. Events
and status come after the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from gitkruise.errors import ApiError, NotFound
from gitkruise.model.planning.execution import failed, performing
from gitkruise.model.planning.plan import (
    Action,
    Applied,
    Create,
    Outcome,
    Patch,
    Plan,
    Skipped,
    event_for,
)
from gitkruise.model.planning.workload import Workload
from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.controllers import event_recorder as event_log
from gitkruise.world.controllers.client import resource_of

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

Send: TypeAlias = Callable[[ApiRequest, datetime], ApiReply]


def execute(
    plan: Plan,
    world: World,
    workload: Workload[Any],
    key: ObjectKey,
    now: datetime,
    *,
    send: Send | None = None,
    events: bool = True,
) -> list[Outcome]:
    """Return one outcome per action, in order. `send` wraps the requests to the World (faults).

    Never raises for errors of an action or an event; a failed status write is the last outcome, a
    Stale or Refused Patch of the subject.
    """
    user = workload.component

    def plainly(request: ApiRequest, at: datetime) -> ApiReply:
        return world.handle(request, at, user=user)

    run = _Execution(world, send or plainly, now, direct=send is None)
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
    if status is not None and (failure := run.write_status(workload, key, status)):
        outcomes.append(failure)
    return outcomes


class _Execution:
    def __init__(self, world: World, send: Send, now: datetime, *, direct: bool) -> None:
        self.world, self.send, self.now = world, send, now
        self.direct = direct  # no faults between us and the World

    def act(self, action: Action) -> Outcome:
        try:
            made = self.world.try_fast(action, self.now) if self.direct else None
        except ApiError as error:
            return failed(action, error)
        if made is not None:
            return Applied(action=action, replies=(made,))
        return self._drive(performing(action, self._kind, self.world.get))

    def _drive(self, writes: Generator[ApiRequest, Obj, Outcome]) -> Outcome:
        """Carry out the requests that `writes` asks for, until it is done."""
        step = partial(next, writes)
        while True:
            try:
                request = step()
            except StopIteration as done:
                outcome: Outcome = done.value
                return outcome
            try:
                body = self._ask(request)
            except ApiError as error:
                step = partial(writes.throw, error)
            else:
                step = partial(writes.send, body)

    def _kind(self, key: ObjectKey, version: str) -> Kind:
        kind = self.world.catalog.by_ref(resource_of(self.world.catalog, key, version))
        assert kind is not None, f"no planner writes kinds that are not served: {key}"
        return kind

    def write_status(
        self, workload: Workload[Any], key: ObjectKey, status: Mapping[str, Any]
    ) -> Outcome | None:
        """Replace the subject's status through its subresource; None when that went well."""
        if self.direct and self.world.try_fast_status(key, workload.version, status):
            return None
        request = self._on(key, workload.version, "get")
        try:
            subject = self.world.handle(request, self.now).body
            if subject.get("status") == status:
                return None
            body = {**subject, "status": status}
            self._ask(replace(request, verb="update", subresource="status", body=body))
        except NotFound:
            return None  # deleted by our own actions or meanwhile: no status to write
        except ApiError as error:
            action = Patch(key=key, version=workload.version, uid="", resource_version="", steps=())
            return failed(action, error)
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
    for event in [*plan.events, *filter(None, map(event_for, outcomes))]:
        try:
            event_log.record(world, subject, event, now, component=user)
        except ApiError:  # events are best effort, as everywhere in Kubernetes
            continue
