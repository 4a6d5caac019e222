"""One planning round of a SidecarSet: history, status, flips, upgrades, as one straight line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gitkruise.model.planning.plan import Event, Hold, Plan
from gitkruise.model.planning.snapshot import SidecarSetSnapshot
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.planner.revisions.registration import RevisionHistory
from gitkruise.planner.sidecarset.history import next_history, registration, surplus
from gitkruise.planner.sidecarset.pod_view import MatchCriteria, PodState
from gitkruise.planner.sidecarset.update import SidecarRound, plan_rolling
from gitkruise.wire.kruise.go_round_trip import Malformed
from gitkruise.wire.primitives.names import Obj

_OPTIONAL: Final = ("updatedReadyPods", "latestRevision")  # absent when 0 or ""


def plan_sidecarset(snapshot: SidecarSetSnapshot, gates: Gates) -> Plan:
    """Plan the next round of one SidecarSet. Pure: the same snapshot gives the same plan.

    Invalid sidecars (no admission rejected them) move no pod and become a condition.
    """
    del gates  # they concern new pods only
    owner = snapshot.owner
    try:
        history = next_history(owner, snapshot.revisions, snapshot.other_revisions)
    except Malformed as error:
        return Plan(events=(Event("Warning", "FailedUpdate", f"spec: {error}"),))
    if not history.creating:
        latest = {**owner.status, "latestRevision": history.update.name}
        owner = replace(owner, status=latest)
    criteria = MatchCriteria(owner)
    pods = tuple([criteria.judge(pod) for pod in snapshot.pods])
    context = SidecarRound(
        owner=owner, criteria=criteria, pods=pods, history=history, now=snapshot.now
    )
    out = RoundResult(spaces=True)
    if owner.deleting is None:
        out.actions += registration(history, homeless=snapshot.homeless)
        out.add(plan_rolling(context))
        out.actions += surplus(
            owner, history, lambda: [criteria.mark(judged.pod) for judged in pods]
        )
    else:
        _hold_all(pods, out)
    return _conclude(snapshot.owner, context, out)


def _hold_all(pods: Sequence[PodState], out: RoundResult) -> None:
    """A SidecarSet on its way out changes no pod."""
    for judged in pods:
        if not judged.updated:
            out.hold(judged.pod, Hold.PAUSED, "the SidecarSet is being deleted")


def _conclude(before: SidecarSetFacts, context: SidecarRound, out: RoundResult) -> Plan:
    events = [*out.events, *(Event("Warning", "FailedUpdate", text) for text in out.problems)]
    after = next_status(context.owner, context.pods, context.history)
    news = not context.history.creating and _shown(before.status) != _shown(after)
    return Plan(
        actions=tuple(out.actions),
        holds=out.holds(out.busy),
        events=tuple(events),
        status=after if news else None,
    )


def next_status(owner: SidecarSetFacts, pods: Sequence[PodState], history: RevisionHistory) -> Obj:
    """The whole status: what was observed, never what is intended.

    `observedGeneration` never goes back. Source: SSET-18.
    """
    updated = [judged for judged in pods if judged.updated]
    status: dict[str, Any] = {
        "observedGeneration": max(owner.generation, owner.status.get("observedGeneration") or 0),
        "matchedPods": len(pods),
        "updatedPods": len(updated),
        "readyPods": sum(judged.up for judged in pods),
        "updatedReadyPods": sum(judged.up for judged in updated),
        "latestRevision": history.update.name,
        "collisionCount": history.collision_count,
    }
    return {name: value for name, value in status.items() if value or name not in _OPTIONAL}


def _shown(status: Obj) -> dict[str, Any]:
    """A status by what it says: a counter of 0 and none at all are the same."""
    return {name: value for name, value in status.items() if value not in (0, "", None)}
