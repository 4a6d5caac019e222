"""Pod order: deletion order with its ranks, and update order with its priorities.

Sorts are total: the pod's name is the last key everywhere, so that a plan can promise pods.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, Protocol

from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.model.workloads.priority import Weight
from gitkruise.planner.pods.scatter import scatter
from gitkruise.wire.primitives.names import Obj

HOSTNAME: Final = "kubernetes.io/hostname"
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}  # anything else counts as Pending
_TRAILING: Final = re.compile(r"[0-9]+$")
_Key = tuple[Any, ...]


def _newest_first(instant: datetime | None) -> float:
    """Sort key: the later, the earlier in line; no time counts as latest."""
    return -(instant or _LATEST).timestamp()


def _health(pod: PodFacts) -> _Key:
    return (pod.node != "", _PHASES.get(pod.phase, 0))


def _age(pod: PodFacts) -> _Key:
    ready_since = _newest_first(pod.ready_since) if pod.ready else 0.0
    return (ready_since, -pod.restarts)


def deletion_order(
    pods: Iterable[PodFacts],
    *,
    available: Collection[str] | None,
    ranks: Mapping[str, float] | None = None,
) -> list[PodFacts]:
    """`pods`, the first to delete first. Source: CloneSet's active-pods comparator.

    `available` None leaves availability out; `ranks` (higher goes first) default to none.
    """
    ranked = ranks or {}

    def key(pod: PodFacts) -> _Key:
        return (
            *_health(pod),
            available is not None and pod.name in available,
            pod.ready,
            pod.deletion_cost,
            -ranked.get(pod.name, 0),
            *_age(pod),
            _newest_first(pod.created),
            pod.name,
        )

    return sorted(pods, key=key)


def same_node_ranks(pods: Sequence[PodFacts]) -> dict[str, float]:
    """Pods that share a node rank by how dispensable they are; the best of a node ranks 0."""
    ranks: dict[str, float] = {}
    for name, group in _grouped(pods, lambda pod: pod.node).items():
        if name and len(group) > 1:
            for at, pod in enumerate(deletion_order(group, available=None)[:-1]):
                ranks[pod.name] = len(group) - 1 - at
    return ranks


def spread_ranks(
    pods: Sequence[PodFacts], keys: Sequence[str], nodes: Mapping[str, Mapping[str, str]]
) -> dict[str, float]:
    """Pods in crowded topologies rank higher. `nodes` are labels by node name.

    Only the topology keys of the spread constraints count, not their skew or selectors.
    """
    known = [pod for pod in pods if pod.node in nodes]
    ranks: dict[str, float] = defaultdict(float)
    for key in keys:
        labelled = [pod for pod in known if key in nodes[pod.node]]
        groups = _grouped(labelled, lambda pod, key=key: nodes[pod.node][key])  # type: ignore[misc]  # bound early on purpose
        weight = math.log(len(groups) + 2)
        for group in groups.values():
            inner = None if key == HOSTNAME else same_node_ranks(group)
            for at, pod in enumerate(deletion_order(group, available=None, ranks=inner)):
                ranks[pod.name] += (len(group) - at) * weight
    return dict(ranks)


def _grouped(pods: Iterable[PodFacts], key: Callable[[PodFacts], str]) -> dict[str, list[PodFacts]]:
    groups: dict[str, list[PodFacts]] = defaultdict(list)
    for pod in pods:
        groups[key(pod)].append(pod)
    return groups


def topology_keys(template: Obj) -> tuple[str, ...]:
    """Keys of a pod template's spread constraints; () when it has none."""
    constraints = (template.get("spec") or {}).get("topologySpreadConstraints") or ()
    return tuple(c["topologyKey"] for c in constraints if c.get("topologyKey"))


class Strategy(Protocol):
    """Order settings of an update strategy: the same for a CloneSet and a SidecarSet."""

    @property
    def order_priority(self) -> tuple[str, ...]: ...
    @property
    def weight_priority(self) -> tuple[Weight, ...]: ...
    @property
    def scatter(self) -> tuple[tuple[str, str], ...]: ...


def update_order(
    waiting: Sequence[PodFacts], everyone: Sequence[PodFacts], strategy: Strategy
) -> list[PodFacts]:
    """The order of a CloneSet: `rollout_order`, but pods already preparing go first."""
    ordered = rollout_order(waiting, everyone, strategy)
    ordered.sort(key=lambda pod: pod.state != LifecycleState.PREPARING_UPDATE)
    return ordered


def rollout_order(
    waiting: Sequence[PodFacts], everyone: Sequence[PodFacts], strategy: Strategy
) -> list[PodFacts]:
    """`waiting`, the first to update first: base order, priority, scatter.

    `everyone` are all pods of the workload, which scatter measures density by.
    """
    ordered = _base_order(waiting)
    if strategy.weight_priority:
        ordered.sort(key=lambda pod: -_weight(pod, strategy))
    elif strategy.order_priority:
        ordered.sort(key=lambda pod: _level(pod, strategy.order_priority))
    return scatter(ordered, everyone, strategy.scatter)


def _base_order(pods: Sequence[PodFacts]) -> list[PodFacts]:
    """By health, then who is ready since the latest, restarts most, and is newest; then by name.

    Sorted by the last key first, which a stable sort allows: most pods agree in most keys.
    """
    ordered = sorted(pods, key=attrgetter("name"))
    ordered.sort(key=attrgetter("namespace"))
    ordered.sort(key=lambda pod: pod.created or _LATEST, reverse=True)
    if any(pod.restarts or pod.sidecar_restarts for pod in pods):
        ordered.sort(key=attrgetter("restarts", "sidecar_restarts"), reverse=True)
    ordered.sort(key=lambda pod: (pod.ready and pod.ready_since) or _LATEST, reverse=True)
    ordered.sort(key=_standing)
    return ordered


def _standing(pod: PodFacts) -> int:
    """With a node, by phase, ready: each counts for more than all that follow."""
    return 8 * (pod.node != "") + 2 * _PHASES.get(pod.phase, 0) + pod.ready


def update_rank(pod: PodFacts, strategy: Strategy) -> _Key:
    """The key of `update_order` without the name. Pods to scatter all rank the same: scatter
    chooses by the order they come in."""
    if strategy.scatter:
        return ()
    first = pod.state == LifecycleState.PREPARING_UPDATE
    return first, _weight(pod, strategy), _level(pod, strategy.order_priority), *_base_rank(pod)


def deletion_rank(pod: PodFacts) -> _Key:
    """The same of `deletion_order`; what neighbours say about a pod's rank is left out."""
    return pod.deletion_cost, *_base_rank(pod)


def _base_rank(pod: PodFacts) -> _Key:
    ready_since = pod.ready and pod.ready_since
    return _standing(pod), ready_since, pod.restarts, pod.sidecar_restarts, pod.created


def _weight(pod: PodFacts, strategy: Strategy) -> int:
    return sum(w.weight for w in strategy.weight_priority if w.selector.matches(pod.labels))


def _level(pod: PodFacts, keys: Sequence[str]) -> tuple[int, int]:
    """The first key the pod carries, then the number at the end of its value, larger first.

    Pods without any of the keys go first: OpenKruise does so, against its own documentation.
    """
    for level, key in enumerate(keys):
        if key in pod.labels:
            digits = _TRAILING.search(pod.labels[key])
            number = int(digits[0]) if digits else 0
            return level, -number if number < 2**63 else 0
    return -1, 0
