"""Nodes with the pods of managed workloads."""

from __future__ import annotations

from gitkruise.dashboard.node_rows import FAILING_MAX, NOT_SCHEDULED, machine_row, node_rows
from gitkruise.wire.primitives.names import Obj
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


def node(**status: str) -> Obj:
    """A Node with these conditions."""
    conditions = [{"type": kind, "status": word, "reason": "r"} for kind, word in status.items()]
    about = {"nodeInfo": {"kubeletVersion": "v1.35.1"}, "conditions": conditions}
    return {"metadata": {"name": "node-1"}, "spec": {}, "status": about}


def test_a_node_says_what_is_not_as_it_should_be() -> None:
    well = node(Ready="True", MemoryPressure="False")
    assert machine_row(well, None) == {
        "kubelet": "v1.35.1", "cordoned": False, "conditions": [], "images": "",
    }  # fmt: skip
    ill = {**node(Ready="Unknown", DiskPressure="True"), "spec": {"unschedulable": True}}
    found = machine_row(ill, None)
    assert found["cordoned"] is True
    assert found["conditions"] == ["Ready Unknown: r", "DiskPressure True: r"]
    assert machine_row({"metadata": {"name": "new"}}, None)["kubelet"] == ""


def test_images_to_pull_are_counted() -> None:
    status = {"desired": 4, "succeeded": 2, "pulling": 1, "failed": 1}
    found = machine_row(node(), {"status": status})["images"]
    assert found == "2 of 4 pulled, 1 pulling, 1 failed"
    assert machine_row(node(), {"status": {"desired": 0}})["images"] == ""
