"""What a set of writes will do to the CloneSets of a cluster, played on a copy of it.

The controllers' own planners run; nothing here knows how a rollout works. Delays are the
profile's without jitter, so that pods which move together are seen to move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gitkruise.model.cloneset import CLONESET, cloneset_facts
from gitkruise.model.forecast import (
    CREATE,
    DELETE,
    RECREATE,
    STUCK,
    PodMove,
    PredictedStep,
    Prediction,
)
from gitkruise.model.health import Health, Phase
from gitkruise.model.settings import Gates
from gitkruise.model.trace import IN_PLACE, Line, Trace
from gitkruise.planner.health import health
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.wire.intstr import partition_count, surge_count, unavailable_count
from gitkruise.wire.names import Obj, ObjectKey, key_of
from gitkruise.wire.request import ApiRequest
from gitkruise.world.claims import ClaimBinder
from gitkruise.world.garbage import GarbageCollector
from gitkruise.world.kubelet import Kubelet
from gitkruise.world.profiles import GENERAL, Profile
from gitkruise.world.scheduler import Scheduler
from gitkruise.world.simulate import Part, Simulation

__all__ = ["Forecast", "PodMove", "PredictedStep", "Prediction", "predict", "settle"]

if TYPE_CHECKING:
    from gitkruise.world.cluster import World

HORIZON: Final = timedelta(minutes=30)
_MOVES: Final = {IN_PLACE: IN_PLACE, "CreatePod": CREATE, "DeletePod": DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Predictions of one set of writes in key order, the trace behind them, and the cluster after.

    A forecast of the next set of writes starts from `world` at `trace.end`.
    """

    predictions: tuple[Prediction, ...]
    trace: Trace
    world: World


def predict(
    world: World,
    writes: Sequence[ApiRequest],
    now: datetime,
    *,
    gates: Gates = Gates(),
    profile: Profile = GENERAL,
    horizon: timedelta = HORIZON,
) -> Forecast:
    """Play `writes` on a fork of `world`. Raises the ApiError that a write meets."""
    twin = world.fork()
    for write in writes:
        twin.handle(write, now)
    written = [
        key
        for key in map(key_of, twin.objects(CLONESET))
        if _generation(world, key) != _generation(twin, key)
    ]
    twin = twin.fork(lean=True)
    simulation = _simulation(twin, now, gates, profile)
    trace = simulation.run_until(now + horizon)
    return Forecast(
        predictions=tuple(_prediction(world, simulation, trace, key) for key in written),
        trace=trace,
        world=twin,
    )


def settle(
    world: World,
    now: datetime,
    *,
    gates: Gates = Gates(),
    profile: Profile = GENERAL,
) -> Trace:
    """Let `world` itself come to rest, so that a forecast starts from a finished rollout."""
    return _simulation(world, now, gates, profile).run_until(now + HORIZON)


def _simulation(world: World, now: datetime, gates: Gates, profile: Profile) -> Simulation:
    steady = replace(profile, jitter=0.0, trouble=0.0)
    parts: list[Part] = [
        GarbageCollector(),
        ClaimBinder(),
        Scheduler(events=False),
        Kubelet(steady, events=False),
    ]
    made = Simulation(world, parts, EMBEDDED, gates, now)
    made.events = False
    return made


def _generation(world: World, key: ObjectKey) -> int | None:
    obj = world.get(key)
    return obj["metadata"].get("generation", 0) if obj else None


def _prediction(world: World, simulation: Simulation, trace: Trace, key: ObjectKey) -> Prediction:
    after = simulation.world.get(key)
    assert after is not None
    facts = cloneset_facts(after)
    rolling = facts.update
    surge = surge_count(rolling.max_surge, facts.replicas, paused=rolling.paused)
    lines = [line for line in trace.lines if line.workload == str(key)]
    steps = _steps(lines, trace.start)
    revision = str(facts.status.get("updateRevision") or "")
    verdict = health(after)
    return Prediction(
        key=key,
        steps=steps,
        revision=revision,
        previous=_previous(world.get(key)),
        replicas=facts.replicas,
        updated_before=_on_revision(world, key, revision),
        updated_after=int(facts.status.get("updatedReplicas") or 0),
        max_unavailable=unavailable_count(rolling.max_unavailable, facts.replicas, surge=surge),
        max_surge=surge,
        partition=partition_count(rolling.partition, facts.replicas) if rolling.rolling else 0,
        hold=_hold(verdict),
        message=verdict.message,
        held=tuple(sorted(simulation.held(key).items())),
        lasts=steps[-1].starts + steps[-1].lasts if steps else timedelta(0),
    )


def _hold(verdict: Health) -> str:
    if verdict.phase in {Phase.HELD, Phase.PAUSED}:
        return verdict.reason
    return "" if verdict.phase is Phase.CURRENT else STUCK


def _previous(before: Obj | None) -> str:
    status = (before or {}).get("status") or {}
    return str(status.get("updateRevision") or "")


def _on_revision(world: World, key: ObjectKey, revision: str) -> int:
    before = world.get(key)
    if before is None:
        return 0
    pods = world.pods_of(before["metadata"]["uid"], key.namespace)
    return sum(pod.active and pod.on_revision(revision) for pod in pods)


def _steps(lines: Sequence[Line], start: datetime) -> tuple[PredictedStep, ...]:
    """Moves of one instant are a step; it lasts until the next, the last until all is ready."""
    moves = _moves(lines)
    groups = [(at, [move for _, move in group]) for at, group in groupby(moves, lambda m: m[0])]
    ends = [at for at, _ in groups[1:]]
    settled = [line.at for line in lines if line.what in {"ready", "gone"}]
    if groups:
        ends.append(max([groups[-1][0], *settled]))
    return tuple(
        PredictedStep(moves=tuple(step), starts=at - start, lasts=end - at)
        for (at, step), end in zip(groups, ends, strict=True)
    )


def _moves(lines: Sequence[Line]) -> list[tuple[datetime, PodMove]]:
    """Deletions with a creation to match are recreations; the creation itself is no move then."""
    found = [(line.at, line.object, _MOVES[line.what]) for line in lines if line.what in _MOVES]
    created = sum(how == CREATE for _, _, how in found)
    deleted = sum(how == DELETE for _, _, how in found)
    replaced = min(created, deleted)
    extra, left, moves = created - replaced, replaced, []
    for at, pod, how in found:
        if how == CREATE:
            if extra > 0:
                moves.append((at, PodMove(pod=pod, how=CREATE)))
            extra -= 1
        elif how == DELETE and left > 0:
            moves.append((at, PodMove(pod=pod, how=RECREATE)))
            left -= 1
        else:
            moves.append((at, PodMove(pod=pod, how=how)))
    return moves
