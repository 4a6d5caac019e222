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
from typing import Any, Final, NamedTuple, Protocol

from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.model.workloads.priority import Weight
from gitkruise.planner.pods.scatter import scatter
from gitkruise.wire.primitives.names import Obj

HOSTNAME: Final = "kubernetes.io/hostname"
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}  # anything else counts as Pending
_TRAILING: Final = re.compile(r"[0-9]+$")


class _Term(NamedTuple):
    """One key of an order, the least first, or with `falling` the greatest."""

    of: Callable[[PodFacts], Any]
    falling: bool = False


_PLACED: Final = _Term(lambda pod: 4 * (pod.node != "") + _PHASES.get(pod.phase, 0))
_READY: Final = _Term(attrgetter("ready"))
_COST: Final = _Term(attrgetter("deletion_cost"))
_READY_SINCE: Final = _Term(lambda pod: (pod.ready and pod.ready_since) or _LATEST, falling=True)
_RESTARTS: Final = _Term(attrgetter("restarts"), falling=True)
_SIDECAR_RESTARTS: Final = _Term(attrgetter("sidecar_restarts"), falling=True)
_CREATED: Final = _Term(lambda pod: pod.created or _LATEST, falling=True)
_NAMES: Final = (_Term(attrgetter("namespace")), _Term(attrgetter("name")))
_PREPARING: Final = _Term(lambda pod: pod.state != LifecycleState.PREPARING_UPDATE)
_BASE: Final = (_PLACED, _READY, _READY_SINCE, _RESTARTS, _SIDECAR_RESTARTS, _CREATED)  # ORD-30
_DELETION: Final = (_PLACED, _READY, _COST, _READY_SINCE, _RESTARTS, _CREATED)  # ORD-10 to ORD-18


def _in_order(pods: Iterable[PodFacts], terms: Sequence[_Term]) -> list[PodFacts]:
    """By `terms`, then by name. One sort per term, the last term first, as sorts are stable: most
    pods agree in most terms, and sorts of what is sorted are four times faster than one by tuples.
    """
    ordered = list(pods)
    for term in (*_NAMES[::-1], *terms[::-1]):
        ordered.sort(key=term.of, reverse=term.falling)
    return ordered


def deletion_order(
    pods: Iterable[PodFacts],
    *,
    available: Collection[str] | None,
    ranks: Mapping[str, float] | None = None,
) -> list[PodFacts]:
    """`pods`, the first to delete first. Source: CloneSet's active-pods comparator.

    `available` None leaves availability out; `ranks` (higher goes first) default to none.
    """
    up = [_Term(lambda pod: pod.name in available)] if available is not None else []
    crowded = [_Term(lambda pod: ranks.get(pod.name, 0), falling=True)] if ranks else []
    placed, ready, cost, *age = _DELETION
    return _in_order(pods, (placed, *up, ready, cost, *crowded, *age))


def base_order(pods: Iterable[PodFacts]) -> list[PodFacts]:
    """`pods` by the order that knows neither availability nor deletion costs (ORD-30)."""
    return _in_order(pods, _BASE)


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
    ordered.sort(key=_PREPARING.of)
    return ordered


def rollout_order(
    waiting: Sequence[PodFacts], everyone: Sequence[PodFacts], strategy: Strategy
) -> list[PodFacts]:
    """`waiting`, the first to update first: base order, priority, scatter.

    `everyone` are all pods of the workload, which scatter measures density by.
    """
    return scatter(_in_order(waiting, _update_terms(strategy)), everyone, strategy.scatter)


def by_priority(ordered: Sequence[PodFacts], strategy: Strategy) -> list[PodFacts]:
    """`ordered` by priority alone; pods of one priority keep their order."""
    terms = _update_terms(strategy)
    if len(terms) == len(_BASE):
        return list(ordered)
    return sorted(ordered, key=terms[0].of, reverse=terms[0].falling)


def _update_terms(strategy: Strategy) -> tuple[_Term, ...]:
    if strategy.weight_priority:
        return _Term(lambda pod: _weight(pod, strategy), falling=True), *_BASE
    if strategy.order_priority:
        return _Term(lambda pod: _level(pod, strategy.order_priority)), *_BASE
    return _BASE


def update_rank(pod: PodFacts, strategy: Strategy) -> tuple[Any, ...]:
    """Return the keys of `update_order` without the name. Pods to scatter all rank the same:
    scatter chooses by the order they come in."""
    if strategy.scatter:
        return ()
    return tuple([term.of(pod) for term in (_PREPARING, *_update_terms(strategy))])


def deletion_rank(pod: PodFacts) -> tuple[Any, ...]:
    """Return the same of `deletion_order`, without the rank that neighbours give a pod."""
    return tuple([term.of(pod) for term in _DELETION])


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
