"""DaemonSet: one pod on each node that it fits, updated node by node.

Source: daemon controller of Kubernetes 1.34. Two differences: a failed pod is deleted a second
after its creation at the earliest, where upstream counts a back-off in memory; nodes are updated
in name order, where upstream has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Create, Delete, Patch, Plan
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import FINISHED, POD, PodFacts
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_of
from gitkruise.planner.builtin.daemonset_nodes import DaemonNodes, Moves, placed_on, with_defaults
from gitkruise.planner.builtin.pod_owner import (
    Controlled,
    claimants,
    claims_on,
    delete_pod,
    new_pods,
    observe_controlled,
    pod_from,
    template_data,
)
from gitkruise.planner.builtin.replicasets import template_hash
from gitkruise.planner.pods.round_result import becoming_available, earliest
from gitkruise.planner.revisions.registration import (
    RevisionHistory,
    RevisionOwner,
    forget,
    register,
)
from gitkruise.planner.revisions.revisions import template_of
from gitkruise.wire.kruise.hashes import revision_name
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_reference
from gitkruise.wire.primitives.paths import get

NODE: Final = GroupKind("", "Node")
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_GENERATION_LABEL: Final = "pod-template-generation"
_BURST: Final = 250
_HISTORY_LIMIT: Final = 10
_FIRST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """One DaemonSet, the nodes by name, its pods by their node, and its revisions, oldest first.

    Pods of a node are in upstream's order: scheduled ones first, then by age, then by name.
    `adoptions` are those of pods and revisions, and releases.
    """

    raw: Obj
    adoptions: tuple[Patch, ...]
    nodes: tuple[Obj, ...]
    pods: Mapping[str, tuple[PodFacts, ...]]
    revisions: tuple[Revision, ...]
    now: datetime
    seed: int


def observe_daemon_set(view: ClusterView, key: ObjectKey, now: datetime) -> DaemonFacts | None:
    """None when the DaemonSet is gone."""
    found: Controlled | None = observe_controlled(view, key, now)
    if found is None:
        return None
    by_node: dict[str, list[PodFacts]] = {}
    for pod in found.pods:
        node = pod.node or placed_on(view.get(pod.key) or {})
        if node and not (pod.deleting and pod.phase in FINISHED):
            by_node.setdefault(node, []).append(pod)
    owned = view.owned(found.raw["metadata"]["uid"], REVISION, key.namespace)
    return DaemonFacts(
        raw=found.raw,
        adoptions=(*claims_on(found.raw, view, REVISION), *found.claims),
        nodes=tuple(view.objects(NODE, "")),
        pods={node: tuple(sorted(pods, key=_age)) for node, pods in by_node.items()},
        revisions=in_order(revision_of(raw) for raw in owned),
        now=now,
        seed=found.seed,
    )


def _age(pod: PodFacts) -> tuple[bool, datetime, str]:
    return not pod.node, pod.created or _FIRST, pod.name


def plan_daemon_set(s: DaemonFacts, gates: Gates) -> Plan:
    """Place and remove pods; update some once every node has what it should have."""
    del gates
    if s.raw["metadata"].get("deletionTimestamp"):
        return Plan()
    if s.adoptions:
        return Plan(actions=s.adoptions)
    history = _history(s)
    if history.action is not None:
        return Plan(actions=(history.action,))
    nodes = DaemonNodes(
        raw=s.raw,
        nodes=s.nodes,
        pods=s.pods,
        hash=history.update.short,
        generation=_generation(s.raw),
        now=s.now,
    )
    moves = nodes.manage()
    if moves.idle:
        moves = moves.and_then(nodes.update())
    actions: list[Action] = [delete_pod(pod) for pod in moves.delete[:_BURST]]
    actions += _create(s, history.update, moves)
    actions += _forgotten(s, history)
    status = _status(s, nodes, history)
    same = status == s.raw.get("status")
    pods = chain.from_iterable(s.pods.values())
    due = becoming_available(pods, s.raw["spec"].get("minReadySeconds") or 0)
    later = [at for at in due if at > s.now]
    return Plan(
        actions=tuple(actions),
        events=moves.events,
        status=None if same else status,
        wake_at=earliest([*later, *([moves.wake_at] if moves.wake_at else [])]),
    )


def _history(s: DaemonFacts) -> RevisionHistory:
    template, meta = s.raw["spec"]["template"], s.raw["metadata"]
    count = int(get(s.raw, "status", "collisionCount", default=0))
    text = template_hash(template, count)
    made = Revision(
        name=revision_name(meta["name"], text),
        number=0,
        data=template_data(template),
        labels={**get(template, "metadata", "labels", default={}), wire.REVISION_HASH: text},
        annotations=meta.get("annotations") or {},
    )
    where = RevisionOwner(meta["namespace"], controller_reference(s.raw))
    return register(made, s.revisions, {}, count, where)


def _generation(raw: Obj) -> str:
    """The number of the template, which pods of very old releases carry; "" without one."""
    noted = (raw["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "")
    return noted if noted.isascii() and noted.isdigit() else ""


def _create(s: DaemonFacts, revision: Revision, moves: Moves) -> list[Create]:
    places = moves.create[:_BURST]
    return new_pods(
        s.raw, chain.from_iterable(s.pods.values()), s.seed, len(places),
        lambda at, name: _pod(s, revision, name, places[at]),
    )  # fmt: skip


def _pod(s: DaemonFacts, revision: Revision, name: str, node: str) -> Obj:
    """A pod that only `node` takes, whatever its condition."""
    pod = pod_from(s.raw, template_of(revision.data), name)
    marks = {wire.REVISION_HASH: revision.short}
    if generation := _generation(s.raw):
        marks[_GENERATION_LABEL] = generation
    labels = {**(pod["metadata"].get("labels") or {}), **marks}
    spec: dict[str, Any] = {k: v for k, v in pod["spec"].items() if v is not None}
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    on_node = {**(affinity.get("nodeAffinity") or {}), **required}
    spec |= {"affinity": {**affinity, "nodeAffinity": on_node}}
    spec["tolerations"] = with_defaults(spec)
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}


def _forgotten(s: DaemonFacts, history: RevisionHistory) -> tuple[Delete, ...]:
    """The oldest revisions beyond the limit that no pod carries."""
    old = [r for r in history.known if r.name != history.update.name and r.uid]
    surplus = len(old) - int(s.raw["spec"].get("revisionHistoryLimit", _HISTORY_LIMIT))
    live = {pod.revision for pods in s.pods.values() for pod in pods}
    idle = [r for r in old if r.short not in live]
    return forget(idle[: max(surplus, 0)], s.raw["metadata"]["namespace"])


def _status(s: DaemonFacts, nodes: DaemonNodes, history: RevisionHistory) -> Obj:
    """The counters. Of each node that should run a pod, its first pod counts."""
    wanted = [node["metadata"]["name"] for node in s.nodes if nodes.should_run(node)]
    other = [n for node in s.nodes if (n := node["metadata"]["name"]) not in set(wanted)]
    first = [s.pods[node][0] for node in wanted if s.pods.get(node)]
    available = sum(map(nodes.available, first))
    numbers = {
        "observedGeneration": s.raw["metadata"].get("generation") or 0,
        "updatedNumberScheduled": sum(map(nodes.is_updated, first)),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
        "collisionCount": history.collision_count,
    }
    old = s.raw.get("status") or {}
    return {
        **({"conditions": old["conditions"]} if old.get("conditions") else {}),
        "currentNumberScheduled": len(first),
        "numberMisscheduled": sum(bool(s.pods.get(node)) for node in other),
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(p.ready for p in first),
        **{name: number for name, number in numbers.items() if number},
    }


def _every(view: ClusterView, _node: ObjectKey) -> Sequence[ObjectKey]:
    """Any node may be one that a DaemonSet wants."""
    listed = (raw["metadata"] for raw in view.objects(wire.DAEMONSET, ""))
    return [ObjectKey(*wire.DAEMONSET, meta["namespace"], meta["name"]) for meta in listed]


DAEMONSET: Final[Workload[DaemonFacts]] = Workload(
    kind=wire.DAEMONSET,
    version="v1",
    owns=(POD, REVISION),
    observe=observe_daemon_set,
    decide=plan_daemon_set,
    watches={NODE: _every, POD: claimants(wire.DAEMONSET)},
)
