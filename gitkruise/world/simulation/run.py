"""Result of a simulated rollout, and its steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from gitkruise.model.planning.forecast import CREATE, DELETE, ForecastStep, PodMove
from gitkruise.model.planning.trace import IN_PLACE, Line, Trace
from gitkruise.model.planning.workload_spread import Division, division, spread_of, spreads_in
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.wire.primitives.names import Obj, ObjectKey

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World
    from gitkruise.world.simulation.simulation import Simulation

Moves = Sequence[tuple[datetime, PodMove]]
_ACTIONS: Final = {"CreatePod": CREATE, "DeletePod": DELETE}
_MOVES: Final = {**_ACTIONS, IN_PLACE: IN_PLACE}


class SimulatedRollout(NamedTuple):
    """One object before and after a rollout: `before` is unchanged, `simulation` has finished."""

    before: World
    simulation: Simulation
    trace: Trace
    key: ObjectKey

    @property
    def after(self) -> Obj:
        found = self.simulation.world.get(self.key)
        assert found is not None
        return found


def division_of(played: SimulatedRollout) -> Division | None:
    """The pods at the end by subset, where a WorkloadSpread divides them."""
    world, key = played.simulation.world, played.key
    if not world.state.divides_pods(key.namespace):
        return None
    spread = spread_of(spreads_in(world, key.namespace), key)
    if spread is None:
        return None
    return division(spread, ROLLOUTS[key.group_kind].pods(world, played.after))


def effective(lines: Iterable[Line]) -> list[Line]:
    """Return the lines without actions on pods that had no effect, which say why: a budget refused
    them, or they came too late. They are tried again."""
    return [line for line in lines if not (line.why and line.what in _ACTIONS)]


def moves_of(lines: Iterable[Line]) -> list[tuple[datetime, PodMove]]:
    """Return the creations, deletions and updates in place of pods among `lines`."""
    return [
        (line.at, PodMove(pod=line.object, how=_MOVES[line.what]))
        for line in effective(lines)
        if line.what in _MOVES
    ]


def in_steps(
    moves: Moves, settled: Iterable[datetime], start: datetime
) -> tuple[ForecastStep, ...]:
    """Group moves by instant into steps; the last step lasts until every pod is ready.

    `settled` holds the instants at which a pod became ready or was removed.
    """
    groups = [(at, [move for _, move in group]) for at, group in groupby(moves, lambda m: m[0])]
    ends = [at for at, _ in groups[1:]]
    if groups:
        ends.append(max([groups[-1][0], *settled]))
    return tuple(
        ForecastStep(moves=tuple(step), starts=at - start, lasts=end - at)
        for (at, step), end in zip(groups, ends, strict=True)
    )
