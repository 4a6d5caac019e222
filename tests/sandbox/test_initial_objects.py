"""A sandbox starts with what it always has, and finishes what a killed one had begun."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.initial_objects import POD, bootstrap
from gitkruise.sandbox.server import SandboxOptions, parts_of
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from gitkruise.world.api.cluster import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPACES = GroupKind("", "Namespace")

# id: what the pod was left with -> whether it is still there
LEFT = {
    "marked, not taken out": ({"deletionGracePeriodSeconds": 0}, False),
    "held by a finalizer": ({"deletionGracePeriodSeconds": 0, "finalizers": ["e.io/x"]}, True),
    "in its grace": ({"deletionGracePeriodSeconds": 30}, True),
}


@pytest.mark.parametrize(("meta", "stays"), LEFT.values(), ids=LEFT)
def test_a_deletion_that_was_cut_off_ends(meta: dict[str, Any], stays: bool) -> None:
    before = World(load_catalog())
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }
    before.handle(ApiRequest(verb="create", resource=PODS, namespace="default", body=body), NOW)
    (pod,) = before.objects(POD)
    ends = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", **meta}
    after = World(load_catalog())
    after.restore([{**pod, "metadata": ends}], before.version)
    bootstrap(after, NOW, nodes=0)
    assert len(after.objects(POD)) == stays


@pytest.mark.parametrize(("kubelet", "holders"), [(True, ["node-0", "node-1"]), (False, [])])
def test_each_node_has_the_lease_that_kubectl_describes(kubelet: bool, holders: list[str]) -> None:
    world = World(load_catalog())
    bootstrap(world, NOW, nodes=2)
    for part in parts_of(SandboxOptions(kubelet=kubelet)):
        part.run(world, NOW)
    leases = world.objects(GroupKind("coordination.k8s.io", "Lease"), "kube-node-lease")
    assert [lease["spec"]["holderIdentity"] for lease in leases] == holders


def test_an_emptied_store_gets_its_first_namespaces_again() -> None:
    world = World(load_catalog())
    first = [obj["metadata"]["name"] for obj in world.objects(SPACES)]
    world.restore([], 50)
    assert [*world.objects(SPACES)] == []
    world.add_namespaces(NOW)
    world.add_namespaces(NOW)
    assert [obj["metadata"]["name"] for obj in world.objects(SPACES)] == first
    assert min(int(obj["metadata"]["resourceVersion"]) for obj in world.objects(SPACES)) > 50
