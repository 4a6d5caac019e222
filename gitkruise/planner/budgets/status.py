"""Controller of PodUnavailableBudgets: status, records, and the annotations of their pods.

Source: PUB-20 to PUB-36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.budget_matching import (
    TARGETS,
    ExpectedPods,
    budgets_of_pod,
    budgets_of_workload,
    expected_pods,
)
from gitkruise.model.planning.plan import Event, Patch, PatchStep, Plan
from gitkruise.model.planning.unavailable_budget import (
    VERSION,
    BudgetFacts,
    budget_facts,
    related_budget,
    related_notes,
)
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.budgets.availability import is_available
from gitkruise.planner.pods.pod_patch import metadata_patch
from gitkruise.planner.pods.round_result import earliest
from gitkruise.wire.patch.json_patch import merge_diff
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.intstr import IntOrString, UnreadableAmount, resolve

DISRUPTED_FOR: Final = timedelta(seconds=20)
UNAVAILABLE_FOR: Final = timedelta(seconds=10)
Records = Mapping[str, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSnapshot:
    """One budget with its pods. `others` are the names of all budgets of the namespace."""

    facts: BudgetFacts
    expected: ExpectedPods
    others: frozenset[str]
    now: datetime


def observe_budget(view: ClusterView, key: ObjectKey, now: datetime) -> BudgetSnapshot | None:
    """None when the budget is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    facts = budget_facts(raw)
    return BudgetSnapshot(
        facts=facts,
        expected=expected_pods(view, facts),
        others=frozenset(b["metadata"]["name"] for b in view.objects(BUDGET, key.namespace)),
        now=now,
    )


def plan_budget(s: BudgetSnapshot, gates: Gates) -> Plan:
    """Plan one round: the status, and annotations of pods that name no budget yet."""
    if s.facts.deleting or not gates.budgets_pods:
        return Plan()
    facts, expected = s.facts, s.expected
    events: list[Event] = []
    if expected.problem or not expected.pods:
        events.append(_silence(expected))
    active = {pod.name for pod in expected.pods}
    disrupted = _kept(facts.disrupted, active, s.now - DISRUPTED_FOR)
    unavailable = _kept(facts.unavailable, active, s.now - UNAVAILABLE_FOR)
    events += [
        _not_deleted(facts, pod)
        for pod in sorted(active & (facts.disrupted.keys() - disrupted.keys()))
    ]
    try:
        status = _status(s, gates, disrupted, unavailable)
    except UnreadableAmount as error:
        return Plan(events=(_uncountable(str(error)),))
    ends = [at + DISRUPTED_FOR for at in disrupted.values()]
    ends += [at + UNAVAILABLE_FOR for at in unavailable.values()]
    changed = status != facts.status
    writes = [_tied(pod, s) for pod in expected.pods if _is_untied(pod, s)]
    if changed:
        writes.append(status_write(facts, merge_diff(facts.status, status)))
    return Plan(
        actions=tuple(writes),
        events=tuple(events) if changed else (),
        wake_at=earliest(end + timedelta(milliseconds=1) for end in ends),
    )


def desired_available(facts: BudgetFacts, expected: int) -> int:
    """The pods that must stay available of so many expected. Raises UnreadableAmount."""
    if facts.max_unavailable is not None:
        return max(0, expected - _share(facts.max_unavailable, expected))
    return _share(facts.min_available, expected)


def _share(amount: IntOrString | None, expected: int) -> int:
    return resolve(amount, expected, round_up=True)


def _status(
    s: BudgetSnapshot, gates: Gates, disrupted: Records, unavailable: Records
) -> dict[str, Any]:
    vertical = gates.in_place_workload_vertical_scaling
    recorded = disrupted.keys() | unavailable.keys()
    counted = (pod for pod in s.expected.pods if pod.name not in recorded)
    current = sum(is_available(pod, vertical=vertical) for pod in counted)
    desired = desired_available(s.facts, s.expected.count)
    status: dict[str, Any] = {
        "observedGeneration": s.facts.generation,
        "unavailableAllowed": max(0, current - desired),
        "currentAvailable": current,
        "desiredAvailable": desired,
        "totalReplicas": s.expected.count,
    }
    return status | records_obj(disrupted, unavailable)


def records_obj(disrupted: Records, unavailable: Records) -> dict[str, Any]:
    """The two maps of a status, without those that are empty."""
    maps = {"disruptedPods": disrupted, "unavailablePods": unavailable}
    return {
        name: {pod: format_time(records[pod]) for pod in sorted(records)}
        for name, records in maps.items()
        if records
    }


def _kept(records: Records, active: set[str], since: datetime) -> dict[str, datetime]:
    """Records of pods that are still active, not older than `since`."""
    return {pod: at for pod, at in records.items() if pod in active and at >= since}


def _is_untied(pod: PodFacts, s: BudgetSnapshot) -> bool:
    return related_budget(pod.annotations) not in s.others


def status_write(seen: BudgetFacts, change: Obj) -> Patch:
    """The write of a status, bound to the version it was counted from.

    A webhook may record a pod meanwhile: that record must not be overwritten.
    """
    return Patch(
        key=seen.key,
        version=VERSION,
        uid=seen.uid,
        resource_version=seen.resource_version,
        steps=(PatchStep(body={"status": change}, subresource="status"),),
    )


def _tied(pod: PodFacts, s: BudgetSnapshot) -> Patch:
    return metadata_patch(pod, {"annotations": related_notes(s.facts.name)})


def _not_deleted(facts: BudgetFacts, pod: str) -> Event:
    where = f"{facts.key.namespace}/{facts.name}"
    text = f"Pod {pod} was expected by PUB {where} to be deleted but it wasn't"
    return Event("Warning", "NotDeleted", text)


def _silence(expected: ExpectedPods) -> Event:
    if expected.problem:
        return _uncountable(expected.problem)
    return Event("Normal", "NoPods", "No matching pods found")


def _uncountable(why: str) -> Event:
    text = f"Failed to calculate the number of expected pods: {why}"
    return Event("Warning", "CalculateExpectedPodCountFailed", text)


BUDGETS: Final[Workload[BudgetSnapshot]] = Workload(
    kind=BUDGET,
    version=VERSION,
    owns=(),
    observe=observe_budget,
    decide=plan_budget,
    watches={POD: budgets_of_pod, **dict.fromkeys(TARGETS, budgets_of_workload)},
)
