"""One planning round of a CloneSet: history, count, scale, update, as one straight line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.planning.plan import Action, Create, Event, Hold, Patch, PatchStep, Plan
from gitkruise.model.planning.snapshot import CloneSetSnapshot
from gitkruise.model.workloads import conditions as rule
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.planner.budgets.ledger import ledger_of
from gitkruise.planner.cloneset.conflicts import split_claims
from gitkruise.planner.cloneset.context import RoundContext
from gitkruise.planner.cloneset.deletes import instance_id
from gitkruise.planner.cloneset.diffs import judge
from gitkruise.planner.cloneset.pvc_ownership import claim_pods, clean_claims
from gitkruise.planner.cloneset.scale import TakenIds, plan_scale
from gitkruise.planner.cloneset.status import count_status, differs, next_status
from gitkruise.planner.cloneset.status_after import Conclusion
from gitkruise.planner.cloneset.update import begun_updates, held_by_scaling, plan_update
from gitkruise.planner.pod_updates.predownload import plan_predownload
from gitkruise.planner.pod_updates.refresh import plan_refresh
from gitkruise.planner.pods.round_result import RoundResult, becoming_available, earliest
from gitkruise.planner.revisions.revisions import next_revisions, template_of
from gitkruise.wire.kruise.revision_data import Malformed
from gitkruise.wire.primitives.names import Obj


def plan_cloneset(snapshot: CloneSetSnapshot, gates: Gates) -> Plan:
    """Plan the next round of one CloneSet. Pure: the same snapshot gives the same plan.

    Scaling and updating never share a round; what was started is finished in every round.
    An invalid pod template (no admission rejected it) moves no pod and becomes a condition.
    """
    owner = snapshot.owner
    owned = claim_pods(owner, snapshot.pods)
    our_claims, conflicts = split_claims(owner, snapshot.claims)
    claims, claim_writes = clean_claims(owner, snapshot.pods, our_claims)
    try:
        history = next_revisions(owner, snapshot.revisions, snapshot.other_revisions)
    except Malformed as error:
        return _unreadable(snapshot, f"spec.template: {error}")
    context = RoundContext(
        owner=owner,
        amounts=resolve_amounts(owner),
        history=history,
        fleet=judge(
            owned.groups,
            update_revision=history.update.name,
            named=owner.scale.pods_to_delete,
            min_ready_s=owner.min_ready_s,
            now=snapshot.now,
        ),
        claims=claims,
        gates=gates,
        now=snapshot.now,
        ledger=ledger_of(snapshot.key, snapshot.budgets, gates, snapshot.now),
    )
    out = RoundResult(actions=[*owned.releases, *owned.adoptions, *claim_writes])
    out.problems += [*snapshot.conflicts, *conflicts, *_unreadable_revisions(context)]
    if owner.deleting is None:
        if history.action is not None:
            out.actions.insert(0, history.action)
        _decide(context, snapshot, out, adopting=bool(owned.adoptions))
        out.actions += context.ledger.writes()
        out.actions += _housekeeping(context, snapshot)
    _hold_inactive(snapshot.pods, out)
    return _conclude(context, out)


def _unreadable_revisions(context: RoundContext) -> list[str]:
    """Unreadable revisions that pods carry: such pods can only be recreated."""
    carried = {group.first.revision for group in context.fleet.groups}
    found = {r.name: r for r in map(context.history.of, sorted(carried)) if r is not None}
    sentences = []
    for revision in found.values():
        try:
            template_of(revision.data)
        except ValueError as error:
            sentences.append(f"ControllerRevision {revision.name}: {error}")
    return sentences


def _unreadable(snapshot: CloneSetSnapshot, text: str) -> Plan:
    """Nothing can be done before the spec is mended; the condition and an event name the spot."""
    owner = snapshot.owner
    listed = tuple(owner.status.get("conditions") or ())
    made = rule.put(listed, rule.condition(rule.FAILED_UPDATE, "True", message=text), snapshot.now)
    if made == listed:
        return Plan()
    status = {**owner.status, "conditions": [dict(c) for c in made]}
    return Plan(events=(Event("Warning", rule.FAILED_UPDATE, text),), status=status)


def _decide(
    context: RoundContext, snapshot: CloneSetSnapshot, out: RoundResult, *, adopting: bool
) -> None:
    """Scale, refresh, update. A spec with an unreadable amount moves no pod at all."""
    problems = context.amounts.problems
    if not problems:
        out.actions += plan_predownload(context.predownload, snapshot.pull_jobs)
    out.problems += context.amounts.problem_texts
    scaling = RoundResult()
    if not problems and not adopting:
        scaling = plan_scale(
            context,
            taken=lambda: _taken(snapshot, context.claims),
            seed=snapshot.seed,
            nodes=snapshot.nodes,
        )
        out.add(scaling)
    begun = frozenset() if problems else begun_updates(context)
    unsettled = context.fleet.where(lambda group: not group.first.settled)
    out.add(plan_refresh(context.rules, unsettled, skip=out.busy | begun))
    if problems or adopting or context.history.creating:
        return  # pods move to a revision once it is there
    scales = scaling.actions or context.ledger.noted
    if scales and not _stuck_scaling(context.owner):
        out.add(held_by_scaling(context))
        return
    # Scaling may fail again: the pods it takes are no longer in the budget.
    staying = context.fleet.without(scaling.busy)
    out.add(plan_update(replace(context, fleet=staying), skip=out.busy))
    if begun:  # those that are not to move after all serve again
        out.add(plan_refresh(context.rules, unsettled, skip=out.busy, only=begun))


def _stuck_scaling(owner: CloneSetFacts) -> bool:
    """The last round's scaling failed: updates must not wait for it to succeed."""
    failed = rule.find(owner.status.get("conditions") or (), rule.FAILED_SCALE)
    return failed is not None and failed.get("status") == "True"


def _taken(snapshot: CloneSetSnapshot, claims: Sequence[Obj]) -> TakenIds:
    """Instance ids and names of pods that are still there in any shape, and of others' pods."""
    going = {instance_id(c) for c in snapshot.claims} - {instance_id(c) for c in claims}
    groups = snapshot.pods.groups
    ending = {p.instance_id for g in groups if g.first.deleting is not None for p in g}
    finished = {
        p.instance_id for g in groups if not g.first.active and g.first.deleting is None for p in g
    }
    prefix = f"{snapshot.owner.name}-"
    names = {name.removeprefix(prefix) for group in groups for name in group.by_name}
    barred = going | finished | (names - ending) | snapshot.foreign_ids
    return TakenIds(barred=frozenset(barred), terminating=frozenset(ending - {""}))


def _housekeeping(context: RoundContext, snapshot: CloneSetSnapshot) -> list[Action]:
    """Forget deleted names of podsToDelete, and revisions beyond the history limit."""
    owner, actions = context.owner, list[Action]()
    named = owner.scale.pods_to_delete
    names = {p.name for p in context.fleet.pods} if named else ()
    kept = [name for name in named if name in names]
    if len(kept) < len(named):
        body: dict[str, Any] = {"spec": {"scaleStrategy": {"podsToDelete": kept or None}}}
        actions.append(
            Patch(
                key=owner.key,
                version=owner.served,
                uid=owner.uid,
                resource_version=owner.resource_version,
                steps=(PatchStep(body=body),),
            )
        )
    # Finished and terminating pods keep no revision, as in OpenKruise: they are never updated.
    carried = {g.first.short_revision for g in snapshot.pods.groups if g.first.active}
    actions += context.history.forget(
        owner.history_limit, owner.namespace, lambda old: old.short in carried
    )
    return actions


def _hold_inactive(pods: PodGroups, out: RoundResult) -> None:
    for group in pods.groups:
        if group.first.deleting is not None:
            out.hold_group(group, Hold.TERMINATING)


def _conclude(context: RoundContext, out: RoundResult) -> Plan:
    """Fold what the phases found into a plan; status only when there is news.

    While the update revision is still to be created the status keeps silent: it would report
    the old revision as what this generation asked for.
    """
    status, deadline = _status(context, out.problems)
    failed = rule.find(status.get("conditions") or (), rule.FAILED_UPDATE)
    events = list(out.events)
    before = rule.find(context.owner.status.get("conditions") or (), rule.FAILED_UPDATE) or {}
    if failed and failed["status"] == "True" and failed.get("message") != before.get("message"):
        events.append(Event("Warning", rule.FAILED_UPDATE, failed["message"]))
    acted = {a.key.name for a in out.actions if not isinstance(a, Create) and a.key.kind == "Pod"}
    after = context.owner.status if context.history.creating else status
    news = differs(context.owner.status, after)
    down = (pod for group in context.fleet.groups if not group.available for pod in group.members)
    wakes = [*out.wake, *becoming_available(down, context.owner.min_ready_s)]
    wakes += [deadline] if deadline else []
    return Plan(
        actions=tuple(out.actions),
        holds=out.holds(acted),
        events=tuple(events),
        status=after if news else None,
        conclude=Conclusion(context.owner.status, after, context.now),
        wake_at=earliest(wake for wake in wakes if wake > context.now),
    )


def _status(context: RoundContext, problems: Sequence[str]) -> tuple[Obj, datetime | None]:
    counters = count_status(context.fleet, context.amounts)
    return next_status(context.owner, context.history, counters, problems=problems, now=context.now)
