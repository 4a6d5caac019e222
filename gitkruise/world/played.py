"""A rollout played ahead, and its moves put into steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from gitkruise.model.forecast import PodMove, PredictedStep
from gitkruise.model.trace import Trace
from gitkruise.wire.names import Obj, ObjectKey

if TYPE_CHECKING:
    from gitkruise.world.cluster import World
    from gitkruise.world.simulate import Simulation

Moves = Sequence[tuple[datetime, PodMove]]


class Played(NamedTuple):
    """One object of a cluster before and after: `before` is untouched, `simulation` at rest."""

    before: World
    simulation: Simulation
    trace: Trace
    key: ObjectKey

    @property
    def after(self) -> Obj:
        found = self.simulation.world.get(self.key)
        assert found is not None
        return found


def in_steps(
    moves: Moves, settled: Iterable[datetime], start: datetime
) -> tuple[PredictedStep, ...]:
    """Moves of one instant are a step; it lasts until the next, the last until all is ready.

    `settled` are instants at which something became ready or went away.
    """
    groups = [(at, [move for _, move in group]) for at, group in groupby(moves, lambda m: m[0])]
    ends = [at for at, _ in groups[1:]]
    if groups:
        ends.append(max([groups[-1][0], *settled]))
    return tuple(
        PredictedStep(moves=tuple(step), starts=at - start, lasts=end - at)
        for (at, step), end in zip(groups, ends, strict=True)
    )
