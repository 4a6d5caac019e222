"""Forecast of the rollouts that a set of writes causes, played on a copy of the cluster.

The controllers' own planners run; this module contains no rollout logic. Delays are the profile's
without jitter, so that pods of one wave move at the same instant. What the copy does not hold and
pods wait for counts as given: ConfigMaps, Secrets, and the gates of other controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.model.planning.canary import ANNOTATION, PLAIN
from gitkruise.model.planning.forecast import ForecastStep, PodMove, RolloutForecast
from gitkruise.model.planning.trace import Trace
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DEPLOYMENT,
    SIDECARSET,
    STATEFULSET,
)
from gitkruise.planner.workloads import FORECAST
from gitkruise.wire.primitives.names import GroupKind, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ApiRequest
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.scheduler import Scheduler
from gitkruise.world.controllers.volumes import VolumeController
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import GENERAL, Profile
from gitkruise.world.node_agent.agent import NodeAgents
from gitkruise.world.simulation.forecast_cloneset import predict_cloneset
from gitkruise.world.simulation.forecast_deployment import predict_deployment
from gitkruise.world.simulation.forecast_sidecarset import predict_sidecarset
from gitkruise.world.simulation.forecast_statefulset import predict_stateful_set
from gitkruise.world.simulation.gates import GateOpener
from gitkruise.world.simulation.run import SimulatedRollout
from gitkruise.world.simulation.simulation import SimulatedComponent, Simulation

__all__ = ["Forecast", "ForecastStep", "PodMove", "RolloutForecast", "predict", "settle"]

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

HORIZON: Final = timedelta(minutes=30)
_PREDICTORS: Final[Mapping[GroupKind, Callable[[SimulatedRollout], RolloutForecast]]] = {
    SIDECARSET: predict_sidecarset,
    CLONESET: predict_cloneset,
    ADVANCED_STATEFULSET: predict_stateful_set,
    STATEFULSET: predict_stateful_set,
    DEPLOYMENT: predict_deployment,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Predictions of one set of writes in key order, the trace behind them, and the cluster after.

    A forecast of the next set of writes starts from `world` at `trace.end`.
    """

    rollouts: tuple[RolloutForecast, ...]
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
    any_node: bool = False,
) -> Forecast:
    """Play `writes` on a fork of `world`; with `any_node`, its nodes are made up and take any pod.

    Raises the ApiError of a rejected write.
    """
    twin = world.fork()
    for write in writes:
        twin.handle(write, now)
    written = [
        key
        for kind in _PREDICTORS
        for key in map(key_of, twin.objects(kind))
        if _request(world, key) != _request(twin, key)
    ]
    twin = twin.fork(fast_path=True)
    simulation = _simulation(twin, now, gates, profile, any_node=any_node)
    trace = simulation.run_until(now + horizon)
    return Forecast(
        rollouts=tuple(
            _PREDICTORS[key.group_kind](SimulatedRollout(world, simulation, trace, key))
            for key in written
        ),
        trace=trace,
        world=twin,
    )


def settle(
    world: World,
    now: datetime,
    *,
    gates: Gates = Gates(),
    profile: Profile = GENERAL,
    any_node: bool = False,
) -> Trace:
    """Run `world` itself until it is quiet, so that a forecast starts from a finished rollout."""
    return _simulation(world, now, gates, profile, any_node=any_node).run_until(now + HORIZON)


def _simulation(
    world: World, now: datetime, gates: Gates, profile: Profile, *, any_node: bool
) -> Simulation:
    steady = replace(profile, jitter=0.0, chaos_rate=0.0)
    kubelet = Kubelet(steady, events=False, assumed=True)
    parts: list[SimulatedComponent] = [
        GarbageCollector(),
        VolumeController(),
        GateOpener(),
        Scheduler(events=False, any_node=any_node),
        NodeAgents(kubelet),
        kubelet,
    ]
    made = Simulation(world, parts, FORECAST, gates, now)
    made.events = False
    return made


def _request(world: World, key: ObjectKey) -> tuple[object, ...]:
    """Marks of what an object asks for: a canary changes no generation."""
    obj = world.get(key)
    if obj is None:
        return ()
    meta = obj["metadata"]
    notes = meta.get("annotations") or {} if key.group_kind == DEPLOYMENT else {}
    return meta.get("generation", 0), notes.get(ANNOTATION), notes.get(PLAIN)
