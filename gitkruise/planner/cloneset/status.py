"""Status of a CloneSet: what was observed, never what is intended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.amounts import Amounts
from gitkruise.model.workloads import conditions as rule
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.planner.cloneset.diffs import PodSet
from gitkruise.planner.pods.round_result import summed_up
from gitkruise.planner.revisions.registration import RevisionHistory
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import parse_time

PROGRESSING: Final = "Progressing"
_EXCEEDED: Final = "ProgressDeadlineExceeded"
# What restarts the clock of the deadline when it differs from the last status.
_OTHER_GOAL: Final = ("updateRevision",)
_GOALS: Final = (*_OTHER_GOAL, "observedGeneration", "expectedUpdatedReplicas", "replicas")
# What restarts it when it grew.
_SERVING: Final = ("updatedReadyReplicas", "updatedAvailableReplicas")
_GAINS: Final = ("updatedReplicas", *_SERVING, "availableReplicas")
_COUNTERS: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
    "updatedAvailableReplicas",
    "expectedUpdatedReplicas",
)
_PODS: Final = frozenset(_COUNTERS) - {"expectedUpdatedReplicas"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The seven numbers of the status, by their wire meaning."""

    replicas: int = 0
    ready: int = 0
    available: int = 0
    updated: int = 0
    updated_ready: int = 0
    updated_available: int = 0
    expected_updated: int = 0

    def as_obj(self) -> dict[str, int]:
        values = (
            self.replicas,
            self.ready,
            self.available,
            self.updated,
            self.updated_ready,
            self.updated_available,
            self.expected_updated,
        )
        return dict(zip(_COUNTERS, values, strict=True))


def count_status(fleet: PodSet, amounts: Amounts) -> Counters:
    """Counters over the owned active pods. Ready counts in any lifecycle state."""
    return Counters(
        replicas=fleet.size,
        ready=fleet.count(lambda g: g.first.in_service),
        available=fleet.count(lambda g: g.available),
        updated=fleet.count(lambda g: g.updated),
        updated_ready=fleet.count(lambda g: g.updated and g.first.in_service),
        updated_available=fleet.count(lambda g: g.updated and g.available),
        expected_updated=amounts.replicas - amounts.partition,
    )


def next_status(
    owner: CloneSetFacts,
    history: RevisionHistory,
    counters: Counters,
    *,
    problems: Sequence[str],
    now: datetime,
) -> tuple[Obj, datetime | None]:
    """(the whole new status, when its deadline needs another look).

    currentRevision becomes the update revision once every pod carries it, ready or not.
    """
    done = counters.updated == counters.replicas == owner.replicas
    current = history.update if done else history.current
    status: dict[str, Any] = {
        "observedGeneration": owner.generation,
        **counters.as_obj(),
        "updateRevision": history.update.name,
        "currentRevision": current.name,
        "collisionCount": history.collision_count,
        "labelSelector": str(owner.selector),
    }
    conditions = tuple(owner.status.get("conditions") or ())
    conditions = _failed_update(conditions, problems, now)
    conditions, wake = progressing(owner, status, conditions, now)
    if conditions:
        status["conditions"] = [dict(c) for c in conditions]
    return status, wake


def _failed_update(
    conditions: Sequence[Obj], problems: Sequence[str], now: datetime
) -> tuple[Obj, ...]:
    """True with what is wrong, and False again when it is not (OpenKruise never clears it)."""
    if problems:
        made = rule.condition(rule.FAILED_UPDATE, "True", message=summed_up(problems))
        return rule.put(conditions, made, now)
    old = rule.find(conditions, rule.FAILED_UPDATE)
    if old is None or old.get("status") == "False":
        return tuple(conditions)
    return rule.put(conditions, rule.condition(rule.FAILED_UPDATE, "False"), now)


def progressing(
    owner: CloneSetFacts, status: Mapping[str, Any], conditions: Sequence[Obj], now: datetime
) -> tuple[tuple[Obj, ...], datetime | None]:
    """Conditions with Progressing brought up to date, and the time of the deadline.

    The clock of the deadline restarts whenever something moved: a new revision, generation or
    partition, a resumed pause, a pod more that is updated, ready or available. In OpenKruise
    nothing renews it, so that a rollout that follows a quiet day fails immediately. Once the
    deadline is exceeded, only a new revision or a pod more that serves it restarts the clock.
    """
    if owner.progress_deadline_s is None:
        return rule.drop(conditions, PROGRESSING), None
    settled = _settled_reason(owner, status)
    if settled is not None:
        reason, message = settled
        made = rule.condition(PROGRESSING, "True", reason=reason, message=message)
        return rule.put(conditions, made, now), None
    old = rule.find(conditions, PROGRESSING)
    moved = old is None or _moved(owner.status, status, old)
    since = now if moved or old is None else parse_time(old.get("lastUpdateTime")) or now
    deadline = since + timedelta(seconds=owner.progress_deadline_s)
    exceeded = not moved and old is not None and old.get("reason") == _EXCEEDED
    if exceeded or deadline < now:
        text = f"CloneSet revision {status['updateRevision']} has timed out progressing"
        made = rule.condition(PROGRESSING, "False", reason=_EXCEEDED, message=text)
        return rule.put(conditions, made, now), None
    made = rule.condition(
        PROGRESSING, "True", reason="CloneSetUpdated", message="CloneSet is progressing"
    )
    return rule.put(conditions, made, now, renew=moved), deadline + timedelta(seconds=1)


def _settled_reason(owner: CloneSetFacts, status: Mapping[str, Any]) -> tuple[str, str] | None:
    replicas, available = owner.replicas, status["updatedAvailableReplicas"]
    complete = (
        status["currentRevision"] == status["updateRevision"]
        and status["replicas"] == status["updatedReplicas"] == available == replicas
    )
    if complete:
        return "CloneSetAvailable", "CloneSet is available"
    if owner.update.paused:
        return "CloneSetPaused", "CloneSet is paused"
    expected = status["expectedUpdatedReplicas"]
    if expected < replicas and expected <= available:
        return "ProgressPartitionAvailable", "CloneSet has been paused due to partition ready"
    return None


def _moved(before: Obj, after: Mapping[str, Any], condition: Obj) -> bool:
    """Progress since the last status: the goal changed, or more pods got there.

    An exceeded deadline outlives a change of replicas or partition: the status does not tell the
    two apart, and a scaled revision that serves nowhere still fails. Source: ST-28.
    """
    exceeded = condition.get("reason") == _EXCEEDED
    if not exceeded and condition.get("reason") != "CloneSetUpdated":
        return True
    goals, gains = (_OTHER_GOAL, _SERVING) if exceeded else (_GOALS, _GAINS)
    if any(before.get(name, 0) != after[name] for name in goals):
        return True
    return any(after[name] > (before.get(name) or 0) for name in gains)


def is_interim(known: Obj, status: Mapping[str, Any]) -> bool:
    """Return whether the only news are counts of pods while some are not available (ST-17).

    Expected pods follow the spec, and the time of Progressing follows the counts.
    """
    under_way = status.get("availableReplicas") != status.get("replicas")
    return under_way and not differs(_uncounted(known), _uncounted(status))


def _uncounted(status: Mapping[str, Any]) -> Obj:
    listed = [{**c, "lastUpdateTime": None} for c in status.get("conditions") or ()]
    return {**{k: v for k, v in status.items() if k not in _PODS}, "conditions": listed}


def differs(old: Obj, new: Mapping[str, Any]) -> bool:
    """Return whether `new` is worth writing: 0, empty and null equal an absent field."""
    for name in {*old, *new}:
        left, right = old.get(name), new.get(name)
        if left != right and (left or right):
            return True
    return "collisionCount" in new and "collisionCount" not in old
