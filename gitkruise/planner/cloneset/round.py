"""One round's inputs in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.cloneset import CloneSetFacts
from gitkruise.model.pod import PodFacts
from gitkruise.model.settings import Gates
from gitkruise.planner.cloneset.budget import Amounts
from gitkruise.planner.cloneset.count import Fleet
from gitkruise.planner.order import update_order
from gitkruise.planner.revisions import History
from gitkruise.wire.names import Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What scale, refresh and update decide from. `claims` are the live ones."""

    owner: CloneSetFacts
    amounts: Amounts
    history: History
    fleet: Fleet
    claims: tuple[Obj, ...]
    gates: Gates
    now: datetime

    def in_turn(self, pods: Sequence[PodFacts]) -> list[PodFacts]:
        """`pods`, the first to update first. Only scattering looks at all the others."""
        update = self.owner.update
        return update_order(pods, self.fleet.pods if update.scatter else (), update)
