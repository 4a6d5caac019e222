"""What a set of writes will do to the rollouts of a cluster, played on a copy of it.

The controllers' own planners run; nothing here knows how a rollout works. Delays are the
profile's without jitter, so that pods which move together are seen to move together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.model.forecast import PodMove, PredictedStep, Prediction
from gitkruise.model.labels import CLONESET, SIDECARSET
from gitkruise.model.settings import Gates
from gitkruise.model.trace import Trace
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.wire.names import GroupKind, ObjectKey, key_of
from gitkruise.wire.request import ApiRequest
from gitkruise.world.claims import ClaimBinder
from gitkruise.world.foretell_clonesets import foretell_cloneset
from gitkruise.world.foretell_sidecars import foretell_sidecarset
from gitkruise.world.garbage import GarbageCollector
from gitkruise.world.kubelet import Kubelet
from gitkruise.world.played import Played
from gitkruise.world.profiles import GENERAL, Profile
from gitkruise.world.scheduler import Scheduler
from gitkruise.world.simulate import Part, Simulation

__all__ = ["Forecast", "PodMove", "PredictedStep", "Prediction", "predict", "settle"]

if TYPE_CHECKING:
    from gitkruise.world.cluster import World

HORIZON: Final = timedelta(minutes=30)
_FORETELL: Final[Mapping[GroupKind, Callable[[Played], Prediction]]] = {
    SIDECARSET: foretell_sidecarset,
    CLONESET: foretell_cloneset,
}


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
        for kind in _FORETELL
        for key in map(key_of, twin.objects(kind))
        if _generation(world, key) != _generation(twin, key)
    ]
    twin = twin.fork(lean=True)
    simulation = _simulation(twin, now, gates, profile)
    trace = simulation.run_until(now + horizon)
    return Forecast(
        predictions=tuple(
            _FORETELL[key.group_kind](Played(world, simulation, trace, key)) for key in written
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
