"""Health of what OpenKruise rolls out: rolling, held at its partition, or stuck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.model.planning.amounts import resolve_amounts, resolve_sidecar_amounts
from gitkruise.model.workloads.cloneset import CloneSetFacts, cloneset_facts
from gitkruise.model.workloads.conditions import STALLED
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.planner.health.builtin import condition_of, counts, first, from_condition, progress
from gitkruise.planner.statefulset.facts import StatefulSetFacts, stateful_set_facts
from gitkruise.planner.statefulset.status import FAILED_CREATE, FAILED_UPDATE
from gitkruise.wire.primitives.names import Obj

UNREADABLE: Final = "UnreadableAmount"
# Of an Advanced StatefulSet; its controller tries again to create a pod that the server refused.
_REPORTED: Final = (
    (STALLED, Phase.FAILED),
    (FAILED_UPDATE, Phase.FAILED),
    (FAILED_CREATE, Phase.IN_PROGRESS),
)


def clone_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    facts = cloneset_facts(obj)
    if "observedGeneration" not in facts.status:
        return progress("NoStatus", "the controller has not reported yet")
    progressing = condition_of(obj, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return from_condition(Phase.FAILED, progressing)
    stalled = condition_of(obj, STALLED)
    if stalled and stalled.get("status") == "True":
        return from_condition(Phase.FAILED, stalled)
    amounts = resolve_amounts(facts)
    return _rollout(obj, facts, amounts.asked, amounts.problem_texts)


def advanced_stateful_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    facts = stateful_set_facts(obj)
    if "observedGeneration" not in facts.status:
        return progress("NoStatus", "the controller has not reported yet")
    for type_, phase in _REPORTED:
        condition = condition_of(obj, type_)
        if condition and condition.get("status") == "True":
            return from_condition(phase, condition)
    problems = tuple(f"{'.'.join(map(str, p.field))}: {p.message}" for p in facts.problems())
    return _rollout(obj, facts, facts.asked, problems)


def _rollout(
    obj: Obj,
    facts: CloneSetFacts | StatefulSetFacts,
    asked_of: Callable[[int], int],
    problems: Sequence[str],
) -> Health:
    total, updated, ready, available = counts(
        obj, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"
    )
    update_ready = facts.status.get("updatedAvailableReplicas")
    if update_ready is None:
        update_ready = facts.status.get("updatedReadyReplicas") or 0
    if problems:
        return Health(Phase.FAILED, UNREADABLE, "; ".join(problems))
    old = max(0, total - updated)
    share = f"{updated}/{facts.replicas} updated"
    asked = asked_of(updated)
    if facts.update.paused and old > facts.replicas - asked:
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    checks = (
        (total != facts.replicas, "Scaling", f"{total} of {facts.replicas} pods exist"),
        (updated < asked, "RollingUpdate", f"{share}, {asked} asked"),
        (update_ready < min(asked, updated), "LessAvailable", f"{update_ready} of {asked} ready"),
    )
    if found := first(checks):
        return found
    if old:
        reason = "OnDelete" if facts.update.on_delete else "PartitionReached"
        return Health(Phase.HELD, reason, share)
    if min(ready, available) < facts.replicas:
        return progress("LessAvailable", f"{min(ready, available)} of {facts.replicas} available")
    return Health(Phase.CURRENT, "Updated", share)


def sidecar_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    status, owner = obj.get("status") or {}, sidecarset_facts(obj)
    if "observedGeneration" not in status:
        return progress("NoStatus", "the controller has not reported yet")
    matched, updated, ready = counts(obj, "matchedPods", "updatedPods", "updatedReadyPods")
    share, old = f"{updated}/{matched} pods updated", updated < matched
    amounts, rolling = resolve_sidecar_amounts(owner, matched), not owner.update.inject_only
    if rolling and amounts.problems:
        return Health(Phase.FAILED, UNREADABLE, "; ".join(amounts.problem_texts))
    if old and rolling and owner.update.paused:
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    asked = amounts.asked(updated) if rolling else updated
    checks = (
        (updated < asked, "RollingUpdate", f"{share}, {asked} asked"),
        (ready < updated, "LessReady", f"{ready} of {updated} updated pods ready"),
    )
    if found := first(checks):
        return found
    held = old and rolling
    return (
        Health(Phase.HELD, "PartitionReached", share)
        if held
        else Health(Phase.CURRENT, "Updated", share)
    )
