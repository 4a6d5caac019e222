"""Leases of simulated nodes: fresh, and nothing of them depends on the number of looks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest

from gitkruise.wire.primitives.names import GroupKind
from gitkruise.world.controllers.node_leases import LEASES, NodeLeases
from gitkruise.world.kubelet.profiles import FAST
from tests.worlds import START, Lab, parts_of

LEASE: Final = GroupKind("coordination.k8s.io", "Lease")
NODE: Final = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "namespace": ""}}


def leased(nodes: int = 2) -> Lab:
    return Lab(nodes=nodes, parts=[*parts_of(FAST), NodeLeases()])


def renewals(lab: Lab) -> dict[str, str]:
    found = lab.world.objects(LEASE, LEASES)
    return {one["metadata"]["name"]: one["spec"]["renewTime"][11:19] for one in found}


def test_a_lease_of_each_node_is_renewed_every_ten_seconds() -> None:
    lab = leased()
    lab.run(5)
    (first, _) = lab.world.objects(LEASE, LEASES)
    assert first["spec"] == {
        "holderIdentity": "node-0",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-11-21T10:00:00.000000Z",
    }
    assert first["metadata"]["ownerReferences"][0]["kind"] == "Node"
    lab.run(31)
    assert renewals(lab) == {"node-0": "10:00:30", "node-1": "10:00:30"}
    assert lab.world.objects(LEASE, LEASES)[0]["metadata"]["uid"] == first["metadata"]["uid"]


@pytest.mark.parametrize("looks", [1, 50])
def test_looks_between_renewals_write_nothing(looks: int) -> None:
    lab, leases = Lab(nodes=2, parts=[]), NodeLeases()
    for look in range(looks + 1):
        leases.run(lab.world, START + timedelta(seconds=9.9 * look / looks))
    assert renewals(lab) == {"node-0": "10:00:00", "node-1": "10:00:00"}


def test_a_deleted_lease_comes_back_and_that_of_a_deleted_node_does_not() -> None:
    lab = leased()
    lab.run(5)
    lab.delete(lab.world.objects(LEASE, LEASES)[0])
    lab.delete(NODE)
    lab.run(30)
    assert list(renewals(lab)) == ["node-0"]
