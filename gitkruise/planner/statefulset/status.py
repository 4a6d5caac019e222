"""Status of an Advanced StatefulSet: what was observed, and what the server refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.model.planning.plan import Create, Outcome, Refused
from gitkruise.model.workloads import conditions as rule
from gitkruise.planner.pods.round_result import summed_up
from gitkruise.planner.statefulset.context import StatefulRound
from gitkruise.planner.statefulset.resize import claim_counts
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

FAILED_CREATE: Final = "FailedCreatePod"
FAILED_UPDATE: Final = "FailedUpdatePod"
_OURS: Final = frozenset({FAILED_CREATE, FAILED_UPDATE})
_CREATED: Final = frozenset({"Pod", "PersistentVolumeClaim"})


def next_status(context: StatefulRound, problems: Sequence[str]) -> dict[str, Any]:
    """The whole new status. `problems` become condition FailedUpdatePod."""
    owner, history = context.owner, context.history
    pods = [p for _, p in sorted(context.pods.items()) if p.phase]
    staying = [p for p in pods if p.deleting is None]
    ready = [p for p in pods if p.in_service]
    available = [p for p in ready if p.available(context.now, min_ready_s=owner.min_ready_s)]
    updated = sum(map(context.updated, staying))
    current = sum(p.on_revision(history.current.name) for p in staying)
    done = not owner.update.on_delete and updated == len(pods) == len(ready)
    status: dict[str, Any] = {
        "observedGeneration": owner.generation,
        "replicas": len(pods),
        "readyReplicas": len(ready),
        "availableReplicas": len(available),
        "currentReplicas": updated if done else current,
        "updatedReplicas": updated,
        "updatedReadyReplicas": sum(map(context.updated, ready)),
        "updatedAvailableReplicas": sum(map(context.updated, available)),
        "currentRevision": history.update.name if done else history.current.name,
        "updateRevision": history.update.name,
        "collisionCount": history.collision_count,
        "labelSelector": str(owner.selector),
    }
    if owner.claim_templates:
        status["volumeClaims"] = claim_counts(owner, pods, context.claims)
    before = tuple(owner.status.get("conditions") or ())
    conditions = tuple(c for c in before if c.get("type") not in _OURS)
    if problems:
        made = _condition(FAILED_UPDATE, summed_up(problems), before, context.now)
        conditions = (*conditions, made)
    return _with(status, conditions)


def _with(status: Mapping[str, Any], conditions: Sequence[Obj]) -> dict[str, Any]:
    rest = {name: value for name, value in status.items() if name != "conditions"}
    return {**rest, "conditions": [dict(c) for c in conditions]} if conditions else rest


def _condition(type_: str, message: str, before: Sequence[Obj], now: datetime) -> Obj:
    """The condition, True; it keeps its time while its message stays."""
    known = rule.find(before, type_)
    if known is not None and known.get("message") == message:
        return known
    made = rule.condition(type_, "True", message=message)
    return {**made, "lastTransitionTime": format_time(now)}


@dataclass(frozen=True, slots=True)
class StatusConclusion:
    """Turns outcomes into the status to write; a value, so that plans compare.

    `before` is the status as observed, `after` the one this round computed.
    """

    before: Obj
    after: Obj
    now: datetime

    def __call__(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any] | None:
        """The whole status, or None when nothing worth writing changed."""
        after = self.after
        refused = next((o for o in outcomes if isinstance(o, Refused) and _creates(o)), None)
        if refused is not None:
            known = tuple(self.before.get("conditions") or ())
            made = _condition(FAILED_CREATE, refused.text, known, self.now)
            after = _with(after, (*(after.get("conditions") or ()), made))
        return after if differs(self.before, after) else None


def _creates(outcome: Refused) -> bool:
    return isinstance(outcome.action, Create) and outcome.action.obj["kind"] in _CREATED


def differs(before: Obj, after: Mapping[str, Any]) -> bool:
    """Return whether `after` is worth writing; the counters are required, 0 or not."""
    return any(before.get(name) != after.get(name) for name in {*before, *after})
