"""Health of a CloneSet or a SidecarSet: rolling, held at its partition, or stuck."""

from __future__ import annotations

from datetime import datetime

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.model.workloads.cloneset import CloneSetFacts, cloneset_facts
from gitkruise.model.workloads.conditions import STALLED
from gitkruise.planner.health.builtin import condition_of, counts, first, progress, told
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import partition_count


def clone_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    facts = cloneset_facts(obj)
    if "observedGeneration" not in facts.status:
        return progress("NoStatus", "the controller has not reported yet")
    progressing = condition_of(obj, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return told(Phase.FAILED, progressing)
    stalled = condition_of(obj, STALLED)
    if stalled and stalled.get("status") == "True":
        return told(Phase.FAILED, stalled)
    return _rollout(obj, facts)


def _rollout(obj: Obj, facts: CloneSetFacts) -> Health:
    total, updated, ready, available = counts(
        obj, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"
    )
    update_ready = facts.status.get("updatedAvailableReplicas")
    if update_ready is None:
        update_ready = facts.status.get("updatedReadyReplicas") or 0
    kept = partition_count(facts.update.partition, facts.replicas) if facts.update.rolling else 0
    old = max(0, total - updated)
    share = f"{updated}/{facts.replicas} updated"
    asked = 0 if facts.update.on_delete else facts.replicas - kept
    if facts.update.paused and old > kept:
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    ladder = (
        (total != facts.replicas, "Scaling", f"{total} of {facts.replicas} pods exist"),
        (updated < asked, "RollingUpdate", f"{share}, {asked} asked"),
        (update_ready < min(asked, updated), "LessAvailable", f"{update_ready} of {asked} ready"),
    )
    if found := first(ladder):
        return found
    if old:
        reason = "OnDelete" if facts.update.on_delete else "PartitionReached"
        return Health(Phase.HELD, reason, share)
    if min(ready, available) < facts.replicas:
        return progress("LessAvailable", f"{min(ready, available)} of {facts.replicas} available")
    return Health(Phase.CURRENT, "Updated", share)


def sidecar_set(obj: Obj, now: datetime | None) -> Health | None:
    del now
    status, strategy = obj.get("status") or {}, get(obj, "spec", "updateStrategy", default={})
    if "observedGeneration" not in status:
        return progress("NoStatus", "the controller has not reported yet")
    matched, updated, ready = counts(obj, "matchedPods", "updatedPods", "updatedReadyPods")
    share, old = f"{updated}/{matched} pods updated", updated < matched
    rolling = strategy.get("type") != "NotUpdate"
    if old and rolling and strategy.get("paused"):
        return Health(Phase.PAUSED, "Paused", f"{share}, paused")
    asked = matched - partition_count(strategy.get("partition"), matched) if rolling else updated
    ladder = (
        (updated < asked, "RollingUpdate", f"{share}, {asked} asked"),
        (ready < updated, "LessReady", f"{ready} of {updated} updated pods ready"),
    )
    if found := first(ladder):
        return found
    held = old and rolling
    return (
        Health(Phase.HELD, "PartitionReached", share)
        if held
        else Health(Phase.CURRENT, "Updated", share)
    )
