"""Ledger of a planner's round: which pods its budgets let go, and what is recorded first.

A round that may move pods records them, and the next one moves them: recorded pods are free. The
record is bound to the version of the budget that was read, so no number is spent twice.
Source: PUB-60 to PUB-63.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from gitkruise.model.planning.plan import Patch, PatchStep
from gitkruise.model.planning.unavailable_budget import (
    VERSION,
    BudgetFacts,
    PodOperation,
    related_budget,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.budgets.decision import BudgetAnswer, decide, spent_status


@dataclass(slots=True)
class BudgetLedger:
    """The budgets of a namespace by name, as spent so far in this round."""

    gates: Gates
    now: datetime
    budgets: dict[str, BudgetFacts] = field(default_factory=dict)
    noted: dict[str, str] = field(default_factory=dict)  # pods to record, and their budgets

    def lets(self, pod: PodFacts, operation: PodOperation) -> bool:
        """Return whether the operation may be done in this round.

        If not, the pod waits for its budget, or for the record that is noted here.
        """
        if not self.budgets:
            return True
        name = related_budget(pod.annotations)
        budget = self.budgets.get(name)
        if budget is None:
            return True
        if pod.name not in self.noted:
            answer = decide(pod, budget, operation, self.gates).answer
            if answer is BudgetAnswer.FREE:
                return True
            if answer is BudgetAnswer.SPENDS:
                self.noted[pod.name] = name
                self.budgets[name] = _spent(budget, pod, operation, self.now)
        return False

    def writes(self) -> Iterator[Patch]:
        """The writes of the records, one for each budget."""
        for name in sorted(set(self.noted.values())):
            budget = self.budgets[name]
            yield Patch(
                key=budget.key,
                version=VERSION,
                uid=budget.uid,
                resource_version=budget.resource_version,
                steps=(PatchStep(body={"status": budget.status}, subresource="status"),),
            )


def _spent(
    budget: BudgetFacts, pod: PodFacts, operation: PodOperation, now: datetime
) -> BudgetFacts:
    """The budget after the operation was let pass: fewer left for the pods that come next."""
    status = spent_status(budget, (pod.name,), operation, now)
    left = replace(budget, status=status, allowed=budget.allowed - 1)
    if operation is PodOperation.UPDATE:
        return replace(left, unavailable={**budget.unavailable, pod.name: now})
    return replace(left, disrupted={**budget.disrupted, pod.name: now})
