"""Ledger of a planner's round: which pods its budgets let go, and what is recorded first.

A round that may move pods records them, and the next one moves them: recorded pods are free. The
record is bound to the version of the budget that was read, so no number is spent twice.
Source: PUB-60 to PUB-64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from gitkruise.model.planning.budget_matching import means
from gitkruise.model.planning.plan import Patch
from gitkruise.model.planning.unavailable_budget import (
    BudgetFacts,
    BudgetTarget,
    PodOperation,
    related_budget,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.budgets.decision import (
    BudgetAnswer,
    decide,
    is_exempt,
    is_gated,
    spent_status,
)
from gitkruise.planner.budgets.status import status_write
from gitkruise.wire.primitives.names import ObjectKey


@dataclass(slots=True)
class BudgetLedger:
    """The budgets in the namespace of the workload `owner`, as spent so far in this round."""

    owner: BudgetTarget
    gates: Gates
    now: datetime
    budgets: dict[str, BudgetFacts] = field(default_factory=dict)  # by name, in name order
    noted: dict[str, str] = field(default_factory=dict)  # pods to record, and their budgets

    def holder(self, pod: PodFacts, operation: PodOperation) -> str:
        """The budget that the pod waits for before the operation; "" when it may be done.

        It also waits for the record that is noted here, and until it is tied to its budget and
        the budget is counted: a budget without status would let everything pass.
        """
        if not self.budgets or not is_gated(operation, self.gates):
            return ""
        budget = self._budget_of(pod)
        if budget is None or is_exempt(pod, self.gates):
            return ""
        if pod.name in self.noted or not budget.counted or not related_budget(pod.annotations):
            return budget.name
        answer = decide(pod, budget, operation, self.gates).answer
        if answer is BudgetAnswer.FREE:
            return ""
        if answer is BudgetAnswer.SPENDS:
            self.noted[pod.name] = budget.name
            self.budgets[budget.name] = _spent(budget, pod, operation, self.now)
        return budget.name

    def _budget_of(self, pod: PodFacts) -> BudgetFacts | None:
        """The budget that the pod names, or the one that its controller will name."""
        named = self.budgets.get(related_budget(pod.annotations))
        if named is not None:
            return named
        lasting = (b for b in self.budgets.values() if not b.deleting)
        return next((b for b in lasting if means(b, self.owner, pod.labels)), None)

    def writes(self) -> Iterator[Patch]:
        """The writes of the records, one for each budget."""
        for name in sorted(set(self.noted.values())):
            yield status_write(self.budgets[name], self.budgets[name].status)


def ledger_of(
    owner: ObjectKey, budgets: Iterable[BudgetFacts], gates: Gates, now: datetime
) -> BudgetLedger:
    """The ledger of a round of the workload `owner`; `budgets` are those of its namespace."""
    target = BudgetTarget(*owner.group_kind, owner.name)
    return BudgetLedger(target, gates, now, {b.name: b for b in budgets})


def _spent(
    budget: BudgetFacts, pod: PodFacts, operation: PodOperation, now: datetime
) -> BudgetFacts:
    """The budget after the operation was let pass: fewer left for the pods that come next."""
    status = spent_status(budget, (pod.name,), operation, now)
    left = replace(budget, status=status, allowed=budget.allowed - 1)
    if operation is PodOperation.UPDATE:
        return replace(left, unavailable={**budget.unavailable, pod.name: now})
    return replace(left, disrupted={**budget.disrupted, pod.name: now})
