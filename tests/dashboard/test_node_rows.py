"""Nodes with the pods of managed workloads."""

from __future__ import annotations

from gitkruise.dashboard.node_rows import FAILING_MAX, NOT_SCHEDULED, node_rows
from tests.dashboard.scenes import pod


def test_pods_are_counted_by_node_revision_and_condition() -> None:
    cart = {"a": pod(), "b": pod("current"), "c": pod(node="node-2"), "d": pod(node="")}
    found = node_rows([("cloneset/shop/cart", cart), ("cloneset/shop/web", {"e": pod()})])
    assert sorted(found) == [NOT_SCHEDULED, "node-1", "node-2"]
    first = found["node-1"]
    assert (first["name"], first["pods"], first["states"]) == ("node-1", 3, {"Ready": 3})
    assert first["roles"] == {"update": 2, "current": 1}
    assert first["workloads"] == {"cloneset/shop/cart": 2, "cloneset/shop/web": 1}
    assert (found[NOT_SCHEDULED]["name"], found[NOT_SCHEDULED]["pods"]) == ("", 1)


def test_failing_pods_are_named_up_to_a_limit_and_counted() -> None:
    count = FAILING_MAX + 3
    pods = {f"a{n}": pod(state="Failing", why="no image") for n in range(count)}
    (row,) = node_rows([("cloneset/shop/cart", pods)]).values()
    assert row["failing"][0] == {"pod": "shop/a0", "why": "no image"}
    assert (len(row["failing"]), row["failingPods"]) == (FAILING_MAX, count)
