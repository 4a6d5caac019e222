"""One round's inputs in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.planning.amounts import Amounts
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.budgets.ledger import BudgetLedger
from gitkruise.planner.cloneset.diffs import PodSet
from gitkruise.planner.pod_updates.rules import UpdateRules
from gitkruise.planner.pods.order import update_order
from gitkruise.planner.revisions.revisions import RevisionHistory
from gitkruise.wire.primitives.names import Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundContext:
    """Input of scale, refresh and update. `claims` are the live ones; `ledger` notes what the
    round asks of PodUnavailableBudgets."""

    owner: CloneSetFacts
    amounts: Amounts
    history: RevisionHistory
    fleet: PodSet
    claims: tuple[Obj, ...]
    gates: Gates
    now: datetime
    ledger: BudgetLedger

    @property
    def rules(self) -> UpdateRules:
        return UpdateRules(
            update=self.owner.update,
            lifecycle=self.owner.lifecycle,
            history=self.history,
            gates=self.gates,
            now=self.now,
            template_hash=True,
            holder=lambda pod: self.ledger.holder(pod, PodOperation.UPDATE),
        )

    def in_turn(self, pods: Sequence[PodFacts]) -> list[PodFacts]:
        """`pods`, the first to update first. Only scattering looks at all the others."""
        update = self.owner.update
        return update_order(pods, self.fleet.pods if update.scatter else (), update)
