"""Deletion costs: pods of the last subset go first, and pods beyond a limit before these.

Source: WS-60 to WS-63.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gitkruise.model.planning.workload_spread import UNLIMITED, SpreadFacts
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.pods.order import base_order
from gitkruise.planner.spread.grouping import NO_SUBSET, PlacedPod

STEP: Final = 100


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
