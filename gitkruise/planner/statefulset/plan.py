"""One planning round of an Advanced StatefulSet: history, scale, refresh, update, status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gitkruise.model.planning.budget_matching import workloads_of
from gitkruise.model.planning.plan import Create, Delete, Event, Hold, Plan
from gitkruise.model.planning.workload import Shows, Workload
from gitkruise.model.workloads import conditions as rule
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, BUDGET
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION, Revision
from gitkruise.planner.budgets.ledger import ledger_of
from gitkruise.planner.pod_updates.predownload import plan_predownload
from gitkruise.planner.pod_updates.refresh import plan_refresh
from gitkruise.planner.pods.round_result import RoundResult, becoming_available, earliest
from gitkruise.planner.revisions.registration import (
    RevisionHistory,
    RevisionOwner,
    register,
)
from gitkruise.planner.statefulset.context import StatefulRound
from gitkruise.planner.statefulset.identity import CLAIM
from gitkruise.planner.statefulset.observe import (
    StatefulSetSnapshot,
    observe_stateful_set,
    sets_of_claim,
)
from gitkruise.planner.statefulset.scale import plan_scale
from gitkruise.planner.statefulset.status import (
    FAILED_UPDATE,
    StatusConclusion,
    differs,
    next_status,
)
from gitkruise.planner.statefulset.update import plan_update
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import Malformed, revision_data
from gitkruise.wire.primitives.paths import get


def plan_stateful_set(snapshot: StatefulSetSnapshot, gates: Gates) -> Plan:
    """Plan the next round. Pure: the same snapshot gives the same plan.

    While a revision is created no pod moves. A spec with an unreadable amount moves no pod at all,
    and what was begun is finished all the same.
    """
    owner = snapshot.owner
    try:
        history = _history(snapshot)
    except Malformed as error:
        return _unreadable(snapshot, f"spec.template: {error}")
    context = StatefulRound(
        owner=owner,
        pods=snapshot.pods,
        claims=snapshot.claims,
        ordinals=owner.ordinals(gates, snapshot.pods.keys()),
        history=history,
        gates=gates,
        now=snapshot.now,
        ledger=ledger_of(owner.key, snapshot.budgets, gates, snapshot.now),
    )
    out = RoundResult()
    problems = owner.problems()
    out.problems += [f"{'.'.join(p.field)}: {p.message}" for p in problems]
    if owner.deleting is None:
        if history.action is not None:
            return Plan(actions=(history.action,))
        if not problems:
            out.actions += plan_predownload(context.predownload, snapshot.pull_jobs)
        _decide(context, out, moves=not problems)
        out.actions += [*context.ledger.writes(), *_forgotten(context)]
    out.hold_all([p for p in snapshot.pods.values() if p.deleting is not None], Hold.TERMINATING)
    return _conclude(context, out)


def _decide(context: StatefulRound, out: RoundResult, *, moves: bool) -> None:
    """Scale, finish what was begun, update."""
    pods = [p for _, p in sorted(context.pods.items()) if p.active]
    if not moves:
        out.add(plan_refresh(context.rules, pods, skip=set()))
        return
    scaling = plan_scale(context)
    out.add(scaling.out)
    out.add(plan_refresh(context.rules, pods, skip=out.busy))
    out.add(plan_update(context, scaling, skip=set(out.busy)))


def _history(s: StatefulSetSnapshot) -> RevisionHistory:
    owner, template = s.owner, s.owner.raw["spec"]["template"]
    count = int(owner.status.get("collisionCount") or 0)
    data = revision_data(template)
    text = revision_hash(data, count)
    made = Revision(
        name=revision_name(owner.name, text),
        number=0,
        data=data,
        hash_label=text,
        labels={**get(template, "metadata", "labels", default={}), wire.HISTORY_HASH: text},
        annotations=dict(get(owner.raw, "metadata", "annotations", default={})),
    )
    where = RevisionOwner(owner.key.namespace, owner.owner_reference)
    named = str(owner.status.get("currentRevision") or "")
    return register(made, s.revisions, s.other_revisions, count, where, current=named)


def _forgotten(context: StatefulRound) -> Sequence[Delete]:
    """Revisions beyond the limit that no pod carries."""
    owner, carried = context.owner, {p.revision for p in context.pods.values()}
    limit, namespace = owner.history_limit, owner.key.namespace
    return context.history.forget(limit, namespace, lambda old: old.name in carried)


def _unreadable(snapshot: StatefulSetSnapshot, text: str) -> Plan:
    """No pod moves before the template is mended; an event names the spot once per spec."""
    owner = snapshot.owner
    if owner.status.get("observedGeneration") == owner.generation:
        return Plan()
    status = {**owner.status, "observedGeneration": owner.generation}
    return Plan(events=(Event("Warning", FAILED_UPDATE, text),), status=status)


def _conclude(context: StatefulRound, out: RoundResult) -> Plan:
    before = context.owner.status
    after = next_status(context, out.problems)
    failed = rule.find(after.get("conditions") or (), FAILED_UPDATE)
    known = rule.find(before.get("conditions") or (), FAILED_UPDATE)
    events = list(out.events)
    if failed is not None and failed != known:
        events.append(Event("Warning", FAILED_UPDATE, failed["message"]))
    acted = {a.key.name for a in out.actions if not isinstance(a, Create) and a.key.kind == "Pod"}
    ready = becoming_available(context.pods.values(), context.owner.min_ready_s)
    return Plan(
        actions=tuple(out.actions),
        holds=out.holds(acted),
        events=tuple(events),
        status=after if differs(before, after) else None,
        conclude=StatusConclusion(before, after, context.now),
        wake_at=earliest(wake for wake in (*out.wake, *ready) if wake > context.now),
    )


ADVANCED: Final[Workload[StatefulSetSnapshot]] = Workload(
    kind=ADVANCED_STATEFULSET,
    version="v1beta1",
    owns=(POD, CLAIM, REVISION),
    observe=observe_stateful_set,
    decide=plan_stateful_set,
    watches={CLAIM: sets_of_claim, BUDGET: workloads_of(ADVANCED_STATEFULSET)},
    stalls=Shows.CONDITION,
)
