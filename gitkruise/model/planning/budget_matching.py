"""Ties between pods, workloads and PodUnavailableBudgets, as a view shows them.

Source: PUB-20 to PUB-24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gitkruise.model.planning.unavailable_budget import (
    BudgetFacts,
    BudgetTarget,
    budget_facts,
    related_budget,
)
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    BUDGET,
    CLONESET,
    DEPLOYMENT,
    REPLICASET,
    STATEFULSET,
)
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.names import (
    GroupKind,
    Obj,
    ObjectKey,
    controller_of,
    split_api_version,
)
from gitkruise.wire.primitives.paths import get

# Kinds whose pods can be counted: those that views hold.
TARGETS: Final = (ADVANCED_STATEFULSET, CLONESET, DEPLOYMENT, REPLICASET, STATEFULSET)


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """The active pods of a budget in name order, and their wanted number.

    `problem` says why the number is unknown; then nothing is wanted.
    """

    pods: tuple[PodFacts, ...]
    count: int
    problem: str = ""


def budgets_in(view: ClusterView, namespace: str) -> list[BudgetFacts]:
    """The budgets of a namespace in name order."""
    return [budget_facts(raw) for raw in view.objects(BUDGET, namespace)]


def budget_of_new_pod(view: ClusterView, pod: Obj, namespace: str) -> str:
    """The name of the budget of a pod that is being created, or ""."""
    budgets = budgets_in(view, namespace)
    if not budgets:
        return ""
    workload = _top_of(view, controller_of(pod), namespace)
    labels = get(pod, "metadata", "labels", default={})
    return next((b.name for b in budgets if means(b, workload, labels)), "")


def budget_of_pod(view: ClusterView, pod: PodFacts) -> BudgetFacts | None:
    """The budget that the pod's annotations name; None where it is gone."""
    name = related_budget(pod.annotations)
    raw = view.get(ObjectKey(*BUDGET, pod.namespace, name)) if name else None
    return budget_facts(raw) if raw is not None else None


def expected_pods(view: ClusterView, budget: BudgetFacts) -> ExpectedPods:
    """The pods that a budget means and the number that their workloads ask for."""
    namespace = budget.key.namespace
    if budget.target is None:
        pods = [p for p in view.pods(namespace) if p.active and budget.selector.matches(p.labels)]
        count = budget.total
        return ExpectedPods(tuple(pods), _wanted_by(view, pods) if count is None else count)
    known = budget.target[:2] in TARGETS
    target = view.get(budget.target.key(namespace)) if known else None
    wanted = _replicas(target)
    pods = list(_controlled(view, target)) if target is not None and wanted else []
    count = wanted if budget.total is None else budget.total
    problem = f"pods of kind {budget.target.kind} cannot be counted" if not known else ""
    return ExpectedPods(tuple(sorted(pods, key=lambda p: p.name)), count, problem)


def workloads_of(kind: GroupKind) -> Callable[[ClusterView, ObjectKey], Iterable[ObjectKey]]:
    """Find the workloads of a kind that a budget means; all of its namespace when it is gone."""

    def found(view: ClusterView, key: ObjectKey) -> Iterable[ObjectKey]:
        raw = view.get(key)
        budget = budget_facts(raw) if raw is not None else None
        for workload in view.objects(kind, key.namespace):
            name = workload["metadata"]["name"]
            labels = get(workload, "spec", "template", "metadata", "labels", default={})
            if budget is None or means(budget, BudgetTarget(*kind, name), labels):
                yield ObjectKey(*kind, key.namespace, name)

    return found


def budgets_of_workload(view: ClusterView, key: ObjectKey) -> Iterable[ObjectKey]:
    """Budgets that a change of a workload concerns; all of its namespace when it is gone."""
    raw = view.get(key)
    labels = get(raw, "spec", "template", "metadata", "labels", default={})
    top = BudgetTarget(key.group, key.kind, key.name)
    for budget in budgets_in(view, key.namespace):
        if raw is None or means(budget, top, labels):
            yield budget.key


def budgets_of_pod(view: ClusterView, key: ObjectKey) -> Iterable[ObjectKey]:
    """Budgets that a change of a pod concerns; all of its namespace when it is gone."""
    budgets = [budget.key for budget in budgets_in(view, key.namespace)]
    pod = view.pod(key) if budgets else None
    named = ObjectKey(*BUDGET, key.namespace, related_budget(pod.annotations) if pod else "")
    return [named] if named in budgets else budgets


def means(budget: BudgetFacts, workload: BudgetTarget | None, labels: Mapping[str, str]) -> bool:
    """Return whether a budget is of pods of this workload with these labels."""
    if budget.target is not None:
        return workload == budget.target
    return budget.selector.matches(labels)


def _top_of(view: ClusterView, owner: Obj | None, namespace: str) -> BudgetTarget | None:
    """The workload behind an owner reference: the Deployment of a ReplicaSet, if it has one."""
    if owner is None:
        return None
    group, _ = split_api_version(str(owner.get("apiVersion") or ""))
    found = BudgetTarget(group, str(owner.get("kind") or ""), str(owner.get("name") or ""))
    if found[:2] != REPLICASET:
        return found
    above = controller_of(view.get(found.key(namespace)) or {})
    return _top_of(view, above, namespace) if above is not None else found


def _wanted_by(view: ClusterView, pods: Iterable[PodFacts]) -> int:
    """The replicas of the workloads that control the pods, each counted once."""
    owners = {pod.controller_uid: pod.namespace for pod in pods if pod.controller_uid}
    tops: dict[str, int] = {}
    for namespace in {*owners.values()}:
        for kind in TARGETS:
            for raw in view.objects(kind, namespace):
                if raw["metadata"]["uid"] in owners:
                    top = _object_above(view, raw)
                    tops[top["metadata"]["uid"]] = _replicas(top)
    return sum(tops.values())


def _object_above(view: ClusterView, raw: Obj) -> Obj:
    """The Deployment of a ReplicaSet; any other workload itself."""
    above = controller_of(raw) if raw["kind"] == REPLICASET.kind else None
    if above is None:
        return raw
    found = view.get(ObjectKey(*DEPLOYMENT, raw["metadata"]["namespace"], above["name"]))
    return found if found is not None and found["metadata"]["uid"] == above["uid"] else raw


def _replicas(raw: Obj | None) -> int:
    """The wanted number of pods; 0 of a workload that is gone or going."""
    if raw is None or raw["metadata"].get("deletionTimestamp"):
        return 0
    wanted = get(raw, "spec", "replicas")
    return 1 if wanted is None else int(wanted)


def _controlled(view: ClusterView, target: Obj) -> Iterable[PodFacts]:
    meta = target["metadata"]
    uids = [meta["uid"]]
    if target["kind"] == DEPLOYMENT.kind:
        owned = view.owned(meta["uid"], REPLICASET, meta["namespace"])
        uids += [raw["metadata"]["uid"] for raw in owned]
    for uid in uids:
        pods = view.pods_of(uid, meta["namespace"])
        yield from (pod for pod in pods if pod.active and pod.controller_uid == uid)
