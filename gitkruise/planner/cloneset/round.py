"""One round's inputs in one place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.cloneset import CloneSetFacts
from gitkruise.model.settings import Gates
from gitkruise.planner.cloneset.budget import Amounts
from gitkruise.planner.cloneset.count import Fleet
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
