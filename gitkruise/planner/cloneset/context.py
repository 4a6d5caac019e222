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
from gitkruise.planner.pod_updates.predownload import PredownloadRules
from gitkruise.planner.pod_updates.rules import UpdateRules
from gitkruise.planner.pods.order import update_order
from gitkruise.planner.revisions.registration import RevisionHistory
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.intstr import unavailable_count


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

    @property
    def predownload(self) -> PredownloadRules:
        owner = self.owner
        written = owner.update.max_unavailable
        return PredownloadRules(
            key=owner.key,
            reference=owner.owner_reference,
            selector=owner.selector_raw,
            replicas=owner.replicas,
            kept=self.amounts.partition,
            unavailable=unavailable_count(written, owner.replicas, surge=1),  # rounded down
            update=owner.update,
            status=owner.status,
            history=self.history,
            gates=self.gates,
        )

    def in_turn(self, pods: Sequence[PodFacts]) -> list[PodFacts]:
        """`pods`, the first to update first. Only scattering looks at all the others."""
        update = self.owner.update
        return update_order(pods, self.fleet.pods if update.scatter else (), update)
