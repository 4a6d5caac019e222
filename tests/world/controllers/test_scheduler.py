"""Node selection of the scheduler, and its message for a pod that fits nowhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.worlds import Lab, container, pod

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
EXISTS = {"key": "gpu", "operator": "Exists"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "namespace": ""}}


def needs(cpu: str) -> dict[str, Any]:
    return {"containers": [container(resources={"requests": {"cpu": cpu}})]}


def zone(*zones: str, operator: str = "In") -> dict[str, Any]:
    rule = {"key": "topology.kubernetes.io/zone", "operator": operator, "values": list(zones)}
    terms = [{"matchExpressions": [rule]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


FITS: dict[str, tuple[dict[str, Any], str]] = {
    "the first name of equal nodes": ({}, "node-0"),
    "node selector": ({"nodeSelector": {"kubernetes.io/hostname": "node-2"}}, "node-2"),
    "required zone": (zone("zone-b", "zone-c"), "node-1"),
    "not in zones": (zone("zone-a", "zone-b", operator="NotIn"), "node-2"),
}


@pytest.mark.parametrize(("spec", "node"), FITS.values(), ids=FITS)
def test_a_pod_gets_a_node_that_fits(spec: dict[str, Any], node: str) -> None:
    lab = Lab()
    lab.apply({**pod(), "spec": {**pod()["spec"], **spec}})
    lab.run()
    assert lab.pods()[0]["spec"]["nodeName"] == node


NOWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "selector": (
        {"nodeSelector": {"disk": "ssd"}},
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
    ),
    "too big": (needs("99"), "0/3 nodes are available: 3 Insufficient cpu."),
    "other scheduler": ({"schedulerName": "mine"}, ""),
    "gated": ({"schedulingGates": [{"name": "g"}]}, ""),
}


@pytest.mark.parametrize(("spec", "message"), NOWHERE.values(), ids=NOWHERE)
def test_a_pod_that_fits_nowhere_says_why(spec: dict[str, Any], message: str) -> None:
    lab = Lab()
    lab.apply({**pod(), "spec": {**pod()["spec"], **spec}})
    assert lab.run().quiet
    found = lab.pods()[0]
    messages = [
        c["message"]
        for c in (found.get("status") or {}).get("conditions") or ()
        if c.get("reason") == "Unschedulable"
    ]
    assert "nodeName" not in found["spec"]
    assert messages == ([message] if message else [])


def test_pods_spread_over_the_least_loaded_nodes() -> None:
    lab = Lab(nodes=3)
    for i in range(9):
        lab.apply({**pod(f"p{i}"), "spec": needs("1")})
    lab.run()
    assert Counter(p["spec"]["nodeName"] for p in lab.pods()) == {f"node-{i}": 3 for i in range(3)}


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it() -> None:
    lab = Lab(nodes=1)
    lab.patch(NODE, {"spec": {"taints": [TAINT]}})
    lab.apply(pod("plain"))
    lab.apply(pod("tolerant", tolerations=[EXISTS]))
    lab.run()
    assert [p["spec"].get("nodeName") for p in lab.pods()] == [None, "node-0"]


def test_a_cordoned_node_gets_pods_again_once_it_is_back() -> None:
    lab = Lab(nodes=1)
    lab.patch(NODE, {"spec": {"unschedulable": True}})
    lab.apply(pod())
    lab.run()
    assert lab.events("p") == ["FailedScheduling"]
    lab.patch(NODE, {"spec": {"unschedulable": False}})
    lab.run()
    assert lab.pods()[0]["spec"]["nodeName"] == "node-0"
    assert lab.pods()[0]["status"]["phase"] == "Running"


def test_a_host_port_is_taken_once_a_node() -> None:
    lab = Lab(nodes=2)
    port = container(ports=[{"containerPort": 80, "hostPort": 80}])
    for name in ("a", "b", "c"):
        lab.apply(pod(name, port))
    lab.run()
    assert sorted(p["spec"].get("nodeName", "") for p in lab.pods()) == ["", "node-0", "node-1"]


def test_claims_are_bound_to_what_they_asked_for() -> None:
    lab = Lab(nodes=1)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    lab.apply(claim)
    lab.run()
    assert lab.get(claim)["status"]["phase"] == "Bound"
    assert lab.get(claim)["status"]["capacity"] == {"storage": "1Gi"}


def test_room_of_a_deleted_pod_is_given_to_one_that_waits() -> None:
    lab = Lab(nodes=1)
    lab.apply({**pod("a"), "spec": needs("10")})
    lab.run()
    lab.apply({**pod("b"), "spec": needs("10")})
    lab.run()
    assert "nodeName" not in lab.get(pod("b"))["spec"]
    lab.delete(pod("a"))
    lab.run()
    assert lab.get(pod("b"))["status"]["phase"] == "Running"
