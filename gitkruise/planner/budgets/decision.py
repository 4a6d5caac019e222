"""Decision about one operation on one pod: may it pass, and what does it cost its budget?

Source: PUB-40 to PUB-51.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from gitkruise.errors import Forbidden
from gitkruise.model.planning.unavailable_budget import (
    UNAVAILABLE_PREFIX,
    BudgetFacts,
    PodOperation,
    is_unprotected,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.budgets.availability import is_available
from gitkruise.planner.budgets.status import records_obj
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

RECORDS_MAX: Final = 2_000
_USED_UP: Final = "pub unavailable allowed is negative"
_TOO_MANY: Final = (
    "DisruptedPods and UnavailablePods map too big - too many unavailable not confirmed by PUB"
    " controller"
)


class BudgetAnswer(Enum):
    """FREE costs nothing; SPENDS takes one of the budget; REFUSED must not be done now."""

    FREE = "free"
    SPENDS = "spends"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Decision:
    """A answer; `why` completes the sentence of a refusal."""

    answer: BudgetAnswer
    why: str = ""


_FREE, _SPENDS = Decision(BudgetAnswer.FREE), Decision(BudgetAnswer.SPENDS)


def is_gated(operation: PodOperation, gates: Gates) -> bool:
    """Return whether budgets protect from the operation under these gates."""
    if operation in (PodOperation.UPDATE, PodOperation.RESIZE):
        return gates.pod_unavailable_budget_update_gate
    return gates.pod_unavailable_budget_delete_gate


def is_exempt(pod: PodFacts, gates: Gates) -> bool:
    """Return whether nothing of the pod's budget is asked, whatever the operation."""
    if is_unprotected(pod.annotations):
        return True
    vertical = gates.in_place_workload_vertical_scaling
    return pod.deleting is not None or not is_available(pod, vertical=vertical)


def decide(
    pod: PodFacts, budget: BudgetFacts | None, operation: PodOperation, gates: Gates
) -> Decision:
    """Decide about the pod as it is before the operation; `budget` is the one it names."""
    if not is_gated(operation, gates) or budget is None or is_exempt(pod, gates):
        return _FREE
    if budget.ignored.matches(pod.labels) or budget.desired == 0:
        return _FREE
    if not budget.protects_from(operation) or budget.recorded(pod.name):
        return _FREE
    if budget.allowed <= 0:
        return Decision(BudgetAnswer.REFUSED, _USED_UP)
    if len(budget.disrupted) + len(budget.unavailable) > RECORDS_MAX:
        return Decision(BudgetAnswer.REFUSED, _TOO_MANY)
    return _SPENDS


def refusal(budget: BudgetFacts, decision: Decision) -> Forbidden:
    """The error of a refused operation, in OpenKruise's words."""
    name = f'podunavailablebudget.policy.kruise.io "{budget.name}"'
    return Forbidden(f"{name} is forbidden: {decision.why}")


def spent_status(
    budget: BudgetFacts, pods: Iterable[str], operation: PodOperation, now: datetime
) -> dict[str, Any]:
    """The status of a budget after the operation was let pass on `pods`."""
    new = dict.fromkeys(pods, now)
    disrupted, unavailable = {**budget.disrupted}, {**budget.unavailable}
    (unavailable if operation is PodOperation.UPDATE else disrupted).update(new)
    rest = {k: v for k, v in budget.status.items() if k not in ("disruptedPods", "unavailablePods")}
    allowed = budget.allowed - len(new)
    return {**rest, "unavailableAllowed": allowed, **records_obj(disrupted, unavailable)}


def disturbs(old: Obj, new: Obj) -> bool:
    """Return whether an update of a raw pod may make it unavailable."""
    if old.get("spec") != new.get("spec"):
        return True
    before, after = (get(pod, "metadata", "labels", default={}) for pod in (old, new))
    return _marked(after) and not _marked(before)


def _marked(labels: Iterable[str]) -> bool:
    return any(label.startswith(UNAVAILABLE_PREFIX) for label in labels)
