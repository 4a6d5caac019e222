"""Observe an Advanced StatefulSet: one consistent snapshot from a view, live or model alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gitkruise.model.planning.budget_matching import budgets_in
from gitkruise.model.planning.unavailable_budget import BudgetFacts
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, PULL_JOB
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_of
from gitkruise.planner.statefulset.facts import (
    StatefulSetFacts,
    named_claims,
    ordinal_of,
    stateful_set_facts,
)
from gitkruise.planner.statefulset.identity import CLAIM, pods_by_ordinal
from gitkruise.wire.primitives.names import Obj, ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetSnapshot:
    """One Advanced StatefulSet, its pods by ordinal, and its revisions, oldest first.

    `claims` are live claims by name that its claim templates name: of its pods, and of ordinals
    whose pod is missing. `other_revisions` are foreign ones whose names might be wanted;
    `budgets` are the PodUnavailableBudgets of its namespace, `pull_jobs` refer to it.
    """

    owner: StatefulSetFacts
    pods: Mapping[int, PodFacts]
    claims: Mapping[str, Obj] = field(default_factory=dict)
    revisions: tuple[Revision, ...] = ()
    other_revisions: Mapping[str, Revision] = field(default_factory=dict)
    now: datetime
    budgets: tuple[BudgetFacts, ...] = ()
    pull_jobs: tuple[Obj, ...] = ()


def observe_stateful_set(
    view: ClusterView, key: ObjectKey, now: datetime
) -> StatefulSetSnapshot | None:
    """None when it is gone. Raises ValueError when the stored object is not one that an API server
    admits."""
    raw = view.get(key)
    if raw is None:
        return None
    owner = stateful_set_facts(raw)
    found = (p for p in view.pods_of(owner.uid, key.namespace) if p.controller_uid == owner.uid)
    pods = pods_by_ordinal(found, key.name)
    ours, others = _revisions(view, owner)
    return StatefulSetSnapshot(
        owner=owner,
        pods=pods,
        claims=dict(_claims(view, owner, pods)),
        revisions=in_order(ours),
        other_revisions={r.name: r for r in others},
        now=now,
        budgets=tuple(budgets_in(view, key.namespace)),
        pull_jobs=tuple(view.owned(owner.uid, PULL_JOB, key.namespace)),
    )


def _revisions(view: ClusterView, owner: StatefulSetFacts) -> tuple[list[Revision], list[Revision]]:
    """Its revisions, and others whose names it might want; those only for a spec not yet seen."""
    namespace = owner.key.namespace
    ours = [revision_of(raw) for raw in view.owned(owner.uid, REVISION, namespace)]
    if owner.status.get("observedGeneration") == owner.generation:
        return ours, []
    names = {revision.name for revision in ours}
    others = [
        revision_of(raw)
        for raw in view.objects(REVISION, namespace)
        if raw["metadata"]["name"].startswith(f"{owner.name}-")
        and raw["metadata"]["name"] not in names
    ]
    return ours, others


def _claims(
    view: ClusterView, owner: StatefulSetFacts, pods: Collection[int]
) -> Iterator[tuple[str, Obj]]:
    """Live claims by name: of its pods, and of every ordinal that may get one."""
    templates = [template["metadata"]["name"] for template in owner.claim_templates]
    if not templates:
        return
    gates = (Gates(), Gates(stateful_set_start_ordinal=True))
    for at in sorted({*pods, *(n for one in gates for n in owner.ordinals(one, pods))}):
        for template in templates:
            name = f"{template}-{owner.name}-{at}"
            claim = view.get(ObjectKey(*CLAIM, owner.key.namespace, name))
            if claim is not None:
                yield name, claim


def sets_of_claim(view: ClusterView, key: ObjectKey) -> Iterator[ObjectKey]:
    """The Advanced StatefulSets that a change of a claim concerns, by its name."""
    for raw in view.objects(ADVANCED_STATEFULSET, key.namespace):
        meta = raw["metadata"]
        for template in named_claims(raw):
            prefix = f"{template['metadata']['name']}-"
            pod = key.name.removeprefix(prefix)
            if key.name.startswith(prefix) and ordinal_of(pod, meta["name"]) is not None:
                yield ObjectKey(*ADVANCED_STATEFULSET, key.namespace, meta["name"])
