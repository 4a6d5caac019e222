"""Protection of pods by PodUnavailableBudgets on a real cluster: decide, record, then answer.

Source: PUB-40 to PUB-54.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gitkruise.admission.rules.request import CREATE, DELETE, UPDATE
from gitkruise.errors import ApiError, Conflict, Forbidden, NotFound
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.model.planning.unavailable_budget import (
    VERSION,
    PodOperation,
    budget_facts,
    related_budget,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET
from gitkruise.model.workloads.pod import POD, PodFacts, pod_facts
from gitkruise.planner.budgets.decision import (
    BudgetAnswer,
    decide,
    disturbs,
    is_exempt,
    is_gated,
    refusal,
    spent_status,
)
from gitkruise.webhook.review import Review
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import PODS, ApiRequest, ResourceRef

BUDGETS: Final = ResourceRef(BUDGET.group, VERSION, "podunavailablebudgets")
EVICTION: Final = GroupKind("policy", "Eviction")
ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class BudgetGuard:
    """Asks the budget of a pod before the pod is deleted, evicted or updated."""

    transport: Transport
    clock: Clock
    gates: Gates

    async def refusal(self, review: Review) -> ApiError | None:
        """Return why the operation may not pass; None when it may, and is recorded.

        Raises ApiError for what cannot be read or written.
        """
        operation = operation_of(review)
        if operation is None or not is_gated(operation, self.gates):
            return None
        raw = await pod_before(review, self.transport)
        pod = pod_facts(raw) if raw is not None else None
        if pod is None or not related_budget(pod.annotations) or is_exempt(pod, self.gates):
            return None
        for _ in range(ATTEMPTS):
            try:
                return await self._asked(pod, operation, dry_run=is_dry_run(review))
            except NotFound:
                return None  # the budget is gone
            except Conflict:
                continue
        name = related_budget(pod.annotations)
        message = f"couldn't update PodUnavailableBudget {name} due to conflicts"
        return Forbidden(f"Timeout: {message}")

    async def _asked(
        self, pod: PodFacts, operation: PodOperation, *, dry_run: bool
    ) -> Forbidden | None:
        """Ask the budget as it is now. Raises NotFound, and Conflict when another was faster."""
        name = related_budget(pod.annotations)
        found = ApiRequest(verb="get", resource=BUDGETS, namespace=pod.namespace, name=name)
        raw = (await self.transport.send(found)).body
        marks = {"apiVersion": f"{BUDGETS.group}/{BUDGETS.version}", "kind": BUDGET.kind}
        budget = budget_facts({**marks, **raw})
        decision = decide(pod, budget, operation, self.gates)
        if decision.answer is BudgetAnswer.REFUSED:
            return refusal(budget, decision)
        if decision.answer is BudgetAnswer.SPENDS and not dry_run:
            status = spent_status(budget, (pod.name,), operation, self.clock.now())
            body = {**marks, **raw, "status": status}
            await self.transport.send(
                ApiRequest(
                    verb="update",
                    resource=BUDGETS,
                    namespace=pod.namespace,
                    name=name,
                    subresource="status",
                    body=body,
                )
            )
        return None


async def pod_before(review: Review, transport: Transport) -> Obj | None:
    """The pod before the operation of a review; None where it is gone. Raises ApiError."""
    if review.operation != CREATE:
        return review.old
    return await find_object(transport, PODS, review.key.name, review.key.namespace)


def operation_of(review: Review) -> PodOperation | None:
    """The operation on a pod that a review is about; None where no budget is asked."""
    kind = review.key.group_kind
    if review.operation == CREATE and review.subresource == "eviction":
        return PodOperation.EVICT if kind == EVICTION else None
    if kind != POD or review.subresource or review.old is None:
        return None
    if review.operation == DELETE:
        return PodOperation.DELETE
    if review.operation == UPDATE and review.obj is not None:
        return PodOperation.UPDATE if disturbs(review.old, review.obj) else None
    return None


def is_dry_run(review: Review) -> bool:
    """Return whether the operation of a review is not carried out."""
    given = get(review.obj, "deleteOptions", "dryRun", default=())
    return review.dry_run or "All" in given
