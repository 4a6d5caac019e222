"""Nodes as they are shown: pods of workloads by revision and condition, and the Node itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.dashboard.pod_rows import CellShape
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

NODE: Final = GroupKind("", "Node")
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


def machine_row(node: Obj, image: Obj | None) -> dict[str, Any]:
    """Return what a Node and its NodeImage say: the kubelet, conditions that are not as they should
    be, and tags of images to pull."""
    return {
        "kubelet": get(node, "status", "nodeInfo", "kubeletVersion", default=""),
        "cordoned": bool(get(node, "spec", "unschedulable", default=False)),
        "conditions": list(_unwell(get(node, "status", "conditions", default=()))),
        "images": _pulls(image) if image is not None else "",
    }


def _unwell(conditions: Iterable[Obj]) -> Iterator[str]:
    """Yield `Ready False: reason`, and every other condition that holds."""
    for one in conditions:
        wanted = "True" if one["type"] == "Ready" else "False"
        if one["status"] != wanted:
            yield f"{one['type']} {one['status']}: {one.get('reason', '')}"


def _pulls(image: Obj) -> str:
    """Return `3 of 4 pulled, 1 failed`; "" where no image is to be pulled."""
    counts = image.get("status") or {}
    wanted = counts.get("desired", 0)
    parts = [f"{counts[word]} {word}" for word in ("pulling", "failed") if counts.get(word)]
    done = f"{counts.get('succeeded', 0)} of {wanted} pulled"
    return ", ".join([done, *parts]) if wanted else ""
