"""Nodes as they are shown: the pods of the workloads on each, by revision and condition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.dashboard.pod_rows import CellShape

FAILING_MAX: Final = 10  # of one node
NOT_SCHEDULED: Final = "(none)"  # the key of pods without a node; no node has such a name


@dataclass(slots=True)
class _Tally:
    states: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    workloads: Counter[str] = field(default_factory=Counter)
    failing: list[dict[str, str]] = field(default_factory=list)


def node_rows(workloads: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return a row for each node; `workloads` are pages with the rows of their pods."""
    nodes: dict[str, _Tally] = defaultdict(_Tally)
    for page, pods in workloads:
        for name, pod in pods.items():
            tally = nodes[pod["node"] or NOT_SCHEDULED]
            tally.states[pod["state"]] += 1
            tally.roles[pod["role"]] += 1
            tally.workloads[page] += 1
            if pod["state"] == CellShape.FAILING:
                tally.failing.append({"pod": f"{pod['namespace']}/{name}", "why": pod["why"]})
    return {
        node: {
            "name": "" if node == NOT_SCHEDULED else node,
            "pods": tally.states.total(),
            "states": dict(tally.states),
            "roles": dict(tally.roles),
            "workloads": dict(tally.workloads),
            "failing": tally.failing[:FAILING_MAX],
            "failingPods": tally.states[CellShape.FAILING],
        }
        for node, tally in nodes.items()
    }
