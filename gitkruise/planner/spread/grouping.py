"""Pods of a WorkloadSpread by version and subset.

Source: WS-50, WS-65.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gitkruise.model.node.node_fit import meets_term, untolerated
from gitkruise.model.planning.workload_spread import UNLIMITED, SpreadFacts, Subset, subset_match
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

NO_SUBSET: Final = ""
_TAINTS: Final = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """One pod of a target. `subset` is NO_SUBSET where it fits none; `adopted`: it has to be
    annotated."""

    facts: PodFacts
    version: str
    subset: str
    adopted: bool = False


def belongs(pod: PodFacts, spread: SpreadFacts) -> bool:
    """Return whether the pod's annotation names the WorkloadSpread."""
    match = subset_match(pod.annotations)
    return match is not None and match.spread == spread.name


def grouped(
    spread: SpreadFacts,
    pods: Iterable[PodFacts],
    placements: Mapping[str, tuple[Obj, Obj]],
    replicas: int,
) -> list[PlacedPod]:
    """The pods with their subsets, in the order given.

    `placements` are by name the raw pod and its node of pods that are scheduled and belong to no
    WorkloadSpread, or to another one.
    """
    listed = list(pods)
    room: dict[tuple[str, str], int] = {}
    versions = {spread.version_of(pod.labels) for pod in listed}
    for subset in spread.subsets:
        limit = subset.pods(replicas)
        for version in versions:
            room[version, subset.name] = len(listed) + 1 if limit == UNLIMITED else limit
    found: list[PlacedPod] = []
    for pod in listed:
        match = subset_match(pod.annotations) if belongs(pod, spread) else None
        if match is not None and spread.subset(match.subset) is not None:
            room[spread.version_of(pod.labels), match.subset] -= 1
    for pod in listed:
        version = spread.version_of(pod.labels)
        match = subset_match(pod.annotations) if belongs(pod, spread) else None
        if match is not None:
            name = match.subset if spread.subset(match.subset) else NO_SUBSET
            found.append(PlacedPod(facts=pod, version=version, subset=name))
            continue
        left = {s.name: room[version, s.name] for s in spread.subsets}
        chosen = best_subset(spread, *placements[pod.name], left) if pod.name in placements else ""
        if chosen:
            room[version, chosen] -= 1
        found.append(
            PlacedPod(facts=pod, version=version, subset=chosen, adopted=chosen != NO_SUBSET)
        )
    return found


def best_subset(spread: SpreadFacts, pod: Obj, node: Obj, room: Mapping[str, int]) -> str:
    """The subset that a scheduled pod fits best by its node; NO_SUBSET where it fits none."""
    best, most = NO_SUBSET, (-1, False)
    for subset in spread.subsets:
        if _fits(subset, pod, node):
            score = (_preference(subset, node), room[subset.name] > 0)
            if score > most:
                best, most = subset.name, score
    return best


def _fits(subset: Subset, pod: Obj, node: Obj) -> bool:
    tolerations = [*get(pod, "spec", "tolerations", default=()), *subset.tolerations]
    if untolerated(node, {"tolerations": tolerations}, _TAINTS) is not None:
        return False
    return subset.required is None or meets_term(node, subset.required)


def _preference(subset: Subset, node: Obj) -> int:
    """The sum of the weights of preferred terms that the node meets."""
    return sum(
        int(one.get("weight") or 0)
        for one in subset.preferred
        if meets_term(node, one.get("preference") or {})
    )
