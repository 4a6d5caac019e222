"""Node agent's side of ContainerRecreateRequests: which request of a pod, and its next step.

A pass reads the containers of the pod, writes how far each is, and stops at most one of them. The
agent only stops containers; kubelet starts them again. Whether a container was stopped already
follows from its id, never from a clock: an agent that was killed between the stop and
the report finds another id, and does not stop a container twice.

Source: CRR-40 to CRR-46. Where OpenKruise forgets under forceRecreate which container it was
stopping, the state's message names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from gitkruise.model.node.containers import ContainerPhase, NodeContainer, runtime_name
from gitkruise.model.node.recreate_request import (
    ContainerRecreateState,
    FailurePolicy,
    RecreatePhase,
    RecreateRequest,
    TargetContainer,
    states_on_wire,
)
from gitkruise.model.planning.plan import Event
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

GRACE_DEFAULT_S, GRACE_MIN_S = 30, 2
JUST_AFTER: Final = timedelta(milliseconds=100)  # what is due "after" an instant is due then
_STOPPING: Final = "stopping "
_NOT_FOUND: Final = "not found container on Node"
_FINAL: Final = frozenset({RecreatePhase.SUCCEEDED, RecreatePhase.FAILED})
_WEIGHT: Final[Mapping[str, int]] = {
    RecreatePhase.COMPLETED: 1,
    RecreatePhase.RECREATING: 2,
    RecreatePhase.PENDING: 3,
}


class Picked(NamedTuple):
    """The request of a pod to work on, and those that have to become Pending meanwhile."""

    current: RecreateRequest | None
    to_pending: tuple[RecreateRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """Merge `status` into the request's status, and plan again."""

    status: Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class StopContainer:
    """Run the pre-stop hook of `target` and stop its container `id`, all within `grace_s` seconds.

    The hook (raw; exec, httpGet or tcpSocket) may use at most `grace_s`; the rest, at least
    GRACE_MIN_S, is the grace of the stop (`rest_of_grace`). A hook that fails does not prevent the
    stop. A container that is gone already counts as stopped. `after_stop` is the status to write.
    """

    target: TargetContainer
    id: str
    grace_s: int
    event: Event

    @property
    def hook(self) -> Obj | None:
        """The hook to run; None without one, and where no second is left for it."""
        return self.target.pre_stop or None if self.grace_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do before `until`; None: before something changes."""

    until: datetime | None = None


Step: TypeAlias = WriteStatus | StopContainer | Wait


def pick(requests: Iterable[RecreateRequest]) -> Picked:
    """Choose among the requests of one pod: the first by phase, then by creation (CRR-41).

    Requests that are complete or being deleted are left out.
    """
    ranked = sorted((r for r in requests if not r.over), key=_rank)
    if not ranked:
        return Picked(None)
    first, *others = ranked
    return Picked(first, tuple(r for r in others if r.status.phase == RecreatePhase.NONE))


def pending_status() -> Obj:
    """The status of a request that waits for another one of its pod."""
    return {"phase": RecreatePhase.PENDING.value}


def next_step(
    request: RecreateRequest,
    containers: Mapping[str, NodeContainer],
    now: datetime,
    *,
    runtimes: Collection[str],
) -> Step:
    """Return what to do next for a request that `pick` chose.

    `containers` are the newest ones of the pod with the request's uid, by name, whatever their
    phase; `runtimes` the names of the runtimes that the agent reaches; `now` is the node's clock.
    """
    if request.over:
        return Wait()
    if request.status.phase != RecreatePhase.RECREATING:
        return WriteStatus(status={"phase": RecreatePhase.RECREATING.value})
    return _undrained(request, now) or _recreate(request, containers, now, runtimes)


def after_stop(request: RecreateRequest, name: str, error: str = "") -> Obj:
    """Return the status to write once the container `name` was stopped, or could not be.

    `error` "" is success. `request` is the version that the step was planned from.
    """
    phase = RecreatePhase.FAILED if error else RecreatePhase.RECREATING
    message = f"kill container error: {error}" if error else ""
    new = ContainerRecreateState(name=name, phase=phase, message=message, is_killed=not error)
    return {"containerRecreateStates": states_on_wire(_replaced(request, new))}


def rest_of_grace(grace_s: int, spent_s: float) -> int:
    """Return the seconds left for the stop once the hook took `spent_s` (whole ones count)."""
    return max(grace_s - int(spent_s), GRACE_MIN_S)


def _undrained(request: RecreateRequest, now: datetime) -> Wait | None:
    """Wait until the pod was out of service for long enough (CRR-42); None when it was."""
    grace, began = request.spec.strategy.unready_grace_s, request.drain_began
    if grace is None:
        return None
    if began is None:
        return Wait()
    drained = began + timedelta(seconds=grace)
    return Wait(until=drained + JUST_AFTER) if drained > now else None


def _recreate(
    request: RecreateRequest,
    containers: Mapping[str, NodeContainer],
    now: datetime,
    runtimes: Collection[str],
) -> Step:
    if problem := _runtime_problem(request.spec.containers, runtimes):
        return WriteStatus(status=_completed(now, f"failed to find runtime service: {problem}"))
    states = tuple(_state(request, target, containers, now) for target in request.spec.containers)
    done = _completed(now) if _all_done(request, states) else {}
    if states != request.status.states:
        return WriteStatus(status={"containerRecreateStates": states_on_wire(states), **done})
    return WriteStatus(status=done) if done else _walk(request, containers, now)


def _rank(request: RecreateRequest) -> tuple[int, float, str]:
    created = request.metadata.created
    age = created.timestamp() if created else 0.0
    return _WEIGHT.get(request.status.phase, 4), age, request.metadata.name


def _runtime_problem(targets: Sequence[TargetContainer], runtimes: Collection[str]) -> str:
    """Reason why no single runtime of this node runs all targets; "" when one does."""
    found: set[str] = set()
    for target in targets:
        context = target.status_context
        if context is None or not context.container_id:
            return f"no statusContext or empty containerID in {target.name} container"
        try:
            found.add(runtime_name(context.container_id))
        except ValueError as error:
            return str(error)
    if len(found) != 1:
        names = ", ".join(sorted(found))
        return f"has different runtime types {names} in Pod" if found else "no runtime type in Pod"
    (name,) = found
    return "" if name in runtimes else f"not found runtime service for {name} in daemon"


def _completed(now: datetime, message: str = "") -> dict[str, Any]:
    status = {"phase": RecreatePhase.COMPLETED.value, "completionTime": format_time(now)}
    return {**status, "message": message} if message else status


def _state(
    request: RecreateRequest,
    target: TargetContainer,
    containers: Mapping[str, NodeContainer],
    now: datetime,
) -> ContainerRecreateState:
    """Progress of one container (CRR-43); the first rule that fits."""
    old = request.state_of(target.name)
    if old is not None and old.phase in _FINAL:
        return old
    killed, seen = old is not None and old.is_killed, containers.get(target.name)
    if seen is None:
        return ContainerRecreateState(target.name, RecreatePhase.PENDING, _NOT_FOUND, killed)
    exited = seen.phase is ContainerPhase.EXITED
    if old is not None and (stopping := _being_stopped(old)):
        if seen.id == stopping and not exited:
            return old  # it runs, so it was not stopped yet
        killed = True  # it was, by an agent that did not live to report it
    phase = RecreatePhase.RECREATING
    if not exited:
        if not _is_new(target, seen) or (request.spec.strategy.force_recreate and not killed):
            phase = RecreatePhase.PENDING
        elif _has_come_back(request, seen, now):
            phase = RecreatePhase.SUCCEEDED
    return ContainerRecreateState(target.name, phase, is_killed=killed)


def _being_stopped(state: ContainerRecreateState) -> str:
    """The id that a forced stop was about to end when it was last written down; "" without one."""
    message = state.message if state.phase == RecreatePhase.PENDING else ""
    return message.removeprefix(_STOPPING) if message.startswith(_STOPPING) else ""


def _is_new(target: TargetContainer, seen: NodeContainer) -> bool:
    """Return whether the container was restarted since the request was admitted."""
    before = target.status_context
    return before is not None and (
        seen.id != before.container_id or seen.attempt > before.restart_count
    )


def _has_come_back(request: RecreateRequest, seen: NodeContainer, now: datetime) -> bool:
    """Return whether the manager saw this container ready, and it has run for long enough."""
    ready = any(
        entry.name == seen.name and entry.container_id == seen.id and entry.ready
        for entry in request.status.snapshot
    )
    began = _came_up(request, seen)
    return ready and seen.runs and began is not None and now > began


def _came_up(request: RecreateRequest, seen: NodeContainer) -> datetime | None:
    """The instant at which the container will have run for minStartedSeconds."""
    least = timedelta(seconds=request.spec.strategy.min_started_s)
    return None if seen.started is None else seen.started + least


def _all_done(request: RecreateRequest, states: Sequence[ContainerRecreateState]) -> bool:
    """Every container is done, or one failed where that ends the request."""
    fails = request.spec.strategy.failure_policy == FailurePolicy.FAIL
    for state in states:
        if state.phase == RecreatePhase.FAILED and fails:
            return True
        if state.phase not in _FINAL:
            return False
    return True


def _walk(request: RecreateRequest, containers: Mapping[str, NodeContainer], now: datetime) -> Step:
    """The first container to stop, in the order of the spec (CRR-44)."""
    strategy = request.spec.strategy
    for target, state in zip(request.spec.containers, request.status.states, strict=True):
        if state.phase in _FINAL:
            continue
        if state.phase == RecreatePhase.RECREATING:
            if strategy.ordered_recreate:
                break
            continue
        seen = containers.get(target.name)
        if seen is None:
            break
        if strategy.force_recreate and _being_stopped(state) != seen.id:
            return WriteStatus(status=_announced(request, target.name, seen.id))
        return _stop(request, target, seen)
    times = [
        at + JUST_AFTER
        for state in request.status.states
        if state.phase == RecreatePhase.RECREATING
        and (seen := containers.get(state.name)) is not None
        and (at := _came_up(request, seen)) is not None
        and at >= now
    ]
    return Wait(until=min(times, default=None))


def _announced(request: RecreateRequest, name: str, id_: str) -> Obj:
    """The status that names the container which is stopped next."""
    new = ContainerRecreateState(name, RecreatePhase.PENDING, f"{_STOPPING}{id_}")
    return {"containerRecreateStates": states_on_wire(_replaced(request, new))}


def _stop(request: RecreateRequest, target: TargetContainer, seen: NodeContainer) -> StopContainer:
    grace = request.spec.strategy.termination_grace_s
    name = request.metadata.name
    message = f"Stopping container {target.name} by ContainerRecreateRequest {name}"
    return StopContainer(
        target=target,
        id=seen.id,
        grace_s=GRACE_DEFAULT_S if grace is None else grace,
        event=Event("Normal", "Killing", message),
    )


def _replaced(
    request: RecreateRequest, new: ContainerRecreateState
) -> tuple[ContainerRecreateState, ...]:
    return tuple(new if state.name == new.name else state for state in request.status.states)
