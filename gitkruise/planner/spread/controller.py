"""Controller of WorkloadSpreads: status, deletion costs, older pods, and rescheduling.

Source: WS-50 to WS-68.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Delete, Event, Patch, PatchStep, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.planning.workload_spread import (
    MATCHED,
    TARGETS,
    UNLIMITED,
    UNVERSIONED,
    VERSION,
    SpreadFacts,
    SubsetMatch,
    replicas_of,
    spread_facts,
    spreads_in,
    subset_match,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import (
    DELETION_COST,
    DEPLOYMENT,
    REPLICASET,
    SPREAD,
    TEMPLATE_HASH,
)
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.pods.order import base_order
from gitkruise.planner.pods.pod_patch import metadata_patch
from gitkruise.planner.pods.round_result import earliest
from gitkruise.planner.spread.counts import Counting
from gitkruise.planner.spread.grouping import NO_SUBSET, PlacedPod, belongs, grouped
from gitkruise.wire.patch.json_patch import merge_diff
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get

STEP: Final = 100
NODE: Final = GroupKind("", "Node")
_NUMBER: Final = "deployment.kubernetes.io/revision"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSnapshot:
    """One WorkloadSpread with the pods of its target in name order.

    `placements` are the raw pods and nodes of scheduled pods that belong to no subset yet;
    `newest` is the version that a rollout of the target goes to.
    """

    facts: SpreadFacts
    replicas: int
    pods: tuple[PodFacts, ...]
    placements: Mapping[str, tuple[Obj, Obj]]
    newest: str
    now: datetime


def observe_spread(view: ClusterView, key: ObjectKey, now: datetime) -> SpreadSnapshot | None:
    """None when the WorkloadSpread is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    facts = spread_facts(raw)
    owners = _owners(view, facts)
    pods = sorted(_pods(view, facts, owners), key=lambda pod: pod.name)
    return SpreadSnapshot(
        facts=facts,
        replicas=replicas_of(view, facts),
        pods=tuple(pods),
        placements=_placements(view, facts, pods),
        newest=_newest(facts, owners),
        now=now,
    )


def plan_spread(s: SpreadSnapshot, gates: Gates) -> Plan:
    """Plan one round: marks of pods, the status, and pods to schedule elsewhere."""
    if s.facts.deleting or not gates.workload_spread:
        return Plan()
    pods = grouped(s.facts, s.pods, s.placements, s.replicas)
    costs = deletion_costs(s.facts, pods, s.newest, s.replicas)
    counting = Counting(spread=s.facts, replicas=s.replicas, now=s.now)
    status = counting.status(pods)
    actions: list[Action] = list(_marks(s.facts, pods, costs))
    changed = status != s.facts.status
    if changed:
        actions.append(_counted(s.facts, status))
    actions += [_rescheduled(pod) for pod in counting.failing(pods)]
    return Plan(
        actions=tuple(actions),
        events=tuple(counting.events) if changed else (),
        wake_at=earliest(counting.wakes),
    )


def spreads_of_pod(view: ClusterView, key: ObjectKey) -> Iterable[ObjectKey]:
    """WorkloadSpreads that a change of a pod concerns; all of its namespace without an annotation
    that says so."""
    spreads = spreads_in(view, key.namespace)
    pod = view.pod(key) if spreads else None
    match = subset_match(pod.annotations) if pod is not None else None
    named = [s.key for s in spreads if match is not None and s.name == match.spread]
    return named or [s.key for s in spreads]


def spreads_of_workload(view: ClusterView, key: ObjectKey) -> Iterable[ObjectKey]:
    """WorkloadSpreads that a change of a workload concerns."""
    meant = {key}
    above = controller_of(view.get(key) or {}) if key.group_kind == REPLICASET else None
    if above is not None:
        meant.add(ObjectKey(*DEPLOYMENT, key.namespace, str(above.get("name") or "")))
    return [s.key for s in spreads_in(view, key.namespace) if s.target in meant]


def _owners(view: ClusterView, facts: SpreadFacts) -> list[Obj]:
    """The objects that control pods of the target: itself, or a Deployment's ReplicaSets."""
    raw = view.get(facts.target) if facts.target.group_kind in TARGETS else None
    if raw is None:
        return []
    if facts.target.group_kind != DEPLOYMENT:
        return [raw]
    return list(view.owned(raw["metadata"]["uid"], REPLICASET, facts.key.namespace))


def _pods(view: ClusterView, facts: SpreadFacts, owners: Iterable[Obj]) -> Iterable[PodFacts]:
    for owner in owners:
        uid = owner["metadata"]["uid"]
        for pod in view.pods_of(uid, facts.key.namespace):
            if pod.controller_uid == uid and facts.selects(pod.labels):
                yield pod


def _placements(
    view: ClusterView, facts: SpreadFacts, pods: Iterable[PodFacts]
) -> dict[str, tuple[Obj, Obj]]:
    strangers = [pod for pod in pods if pod.node and not belongs(pod, facts)]
    if not strangers:
        return {}
    nodes = {node["metadata"]["name"]: node for node in view.objects(NODE, "")}
    found = ((pod, view.get(pod.key), nodes.get(pod.node)) for pod in strangers)
    return {
        pod.name: (raw, node) for pod, raw, node in found if raw is not None and node is not None
    }


def _newest(facts: SpreadFacts, owners: Iterable[Obj]) -> str:
    """The version that new pods are of: a Deployment gives its newest ReplicaSet the highest
    number."""
    versioned = [raw for raw in owners if raw["kind"] == REPLICASET.kind]
    if not versioned:
        return UNVERSIONED
    last = max(versioned, key=lambda raw: int_or_none(_notes(raw).get(_NUMBER)) or 0)
    labels = get(last, "spec", "template", "metadata", "labels", default={})
    return facts.version_of({TEMPLATE_HASH: labels.get(TEMPLATE_HASH, "")})


def _notes(raw: Obj) -> Mapping[str, str]:
    return raw["metadata"].get("annotations") or {}


def _marks(
    facts: SpreadFacts, pods: Iterable[PlacedPod], costs: Mapping[str, int]
) -> Iterable[Patch]:
    """Writes of deletion costs, and of what ties older pods to their subset."""
    for pod in pods:
        metadata: dict[str, Any] = _adoption(facts, pod) if pod.adopted else {}
        notes = dict(metadata.get("annotations") or {})
        cost = costs.get(pod.facts.name)
        if cost is not None and pod.facts.annotations.get(DELETION_COST) != str(cost):
            notes[DELETION_COST] = str(cost)
        if notes:
            yield metadata_patch(pod.facts, {**metadata, "annotations": notes})


def _adoption(facts: SpreadFacts, pod: PlacedPod) -> dict[str, Any]:
    """The metadata that make an older pod one of its subset."""
    subset = facts.subset(pod.subset)
    patch = subset.patch if subset is not None and facts.patches_existing else None
    given = {
        name: dict(get(patch, "metadata", name, default={})) for name in ("labels", "annotations")
    }
    given["annotations"][MATCHED] = SubsetMatch(spread=facts.name, subset=pod.subset).text
    return {name: found for name, found in given.items() if found}


def _counted(facts: SpreadFacts, status: Obj) -> Patch:
    """The write of a status, bound to the version it was counted from.

    A webhook may record a pod meanwhile: that record must not be overwritten.
    """
    return Patch(
        key=facts.key,
        version=VERSION,
        uid=facts.uid,
        resource_version=facts.resource_version,
        steps=(PatchStep(body={"status": merge_diff(facts.status, status)}, subresource="status"),),
    )


def _rescheduled(pod: PodFacts) -> Delete:
    where = f"{pod.namespace}/{pod.name}"
    return Delete(
        key=pod.key,
        version="v1",
        uid=pod.uid,
        resource_version="",
        failed=Event("Warning", "DeletePodFailed", f"Failed to delete unschedulable Pod {where}: "),
    )


SPREADS: Final[Workload[SpreadSnapshot]] = Workload(
    kind=SPREAD,
    version=VERSION,
    owns=(),
    observe=observe_spread,
    decide=plan_spread,
    watches={POD: spreads_of_pod, **dict.fromkeys(TARGETS, spreads_of_workload)},
)


def deletion_costs(
    spread: SpreadFacts, pods: Sequence[PlacedPod], newest: str, replicas: int
) -> dict[str, int]:
    """The costs of the active pods by name. `newest` is the version that a rollout goes to."""
    costs: dict[str, int] = {}
    count = len(spread.subsets)
    for version in {pod.version for pod in pods}:
        active = [p for p in pods if p.version == version and p.facts.active]
        for at, subset in enumerate(spread.subsets):
            mine = [p.facts for p in active if p.subset == subset.name]
            index = at if version == newest else count - 1 - at
            keep = STEP * (count - index)
            costs |= dict.fromkeys((pod.name for pod in mine), keep)
            extra = _beyond(mine, subset.pods(replicas))
            costs |= dict.fromkeys((pod.name for pod in extra), -STEP * (index + 1))
        lost = (p.facts.name for p in active if p.subset == NO_SUBSET)
        costs |= dict.fromkeys(lost, -STEP * (count + 1))
    return costs


def _beyond(pods: Sequence[PodFacts], limit: int) -> list[PodFacts]:
    """The pods beyond a limit: those whose loss hurts least."""
    over = 0 if limit == UNLIMITED else len(pods) - limit
    return base_order(pods)[:over] if over > 0 else []
