"""Protection of pods by PodUnavailableBudgets: what OpenKruise's validating pod webhook does.

Source: PUB-40 to PUB-53.
"""

from __future__ import annotations

from typing import Final

from gitkruise.errors import Forbidden
from gitkruise.model.planning.budget_matching import budget_of_pod
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads.labels import BUDGET
from gitkruise.model.workloads.pod import POD, pod_facts
from gitkruise.planner.budgets.decision import (
    BudgetAnswer,
    decide,
    disturbs,
    is_gated,
    refusal,
    spent_status,
)
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.store.commit import store
from gitkruise.world.store.request_context import RequestContext

_DENIED: Final = 'admission webhook "vpod.kb.io" denied the request: '


def spend_update(call: RequestContext, old: Obj, new: Obj) -> None:
    """Let the pod's budget pay for an update of the pod. Raises Forbidden."""
    if call.kind.group_kind != POD or call.subresource or not call.state.protects_updates():
        return
    if disturbs(old, new):
        spend(call, old, PodOperation.UPDATE, dry_run=call.options.dry_run)


def spend(call: RequestContext, pod: Obj, operation: PodOperation, *, dry_run: bool) -> None:
    """Let the pod's budget pay for the operation, and record the pod. Raises Forbidden."""
    state = call.state
    if call.kind.group_kind != POD or not state.knows(BUDGET):
        return
    if not is_gated(operation, state.gates):
        return
    facts = pod_facts(pod)
    budget = budget_of_pod(state, facts)
    decision = decide(facts, budget, operation, state.gates)
    if budget is None or decision.answer is BudgetAnswer.FREE:
        return
    if decision.answer is BudgetAnswer.REFUSED:
        raise Forbidden(f"{_DENIED}{refusal(budget, decision)}")
    kind, raw = state.catalog.stored(BUDGET), state.get(budget.key)
    if dry_run or kind is None or raw is None:
        return
    status = spent_status(budget, (facts.name,), operation, call.now)
    store(state, kind, {**raw, "status": status})
