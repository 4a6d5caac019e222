"""Adoption and release: objects without an owner that a selector matches, and those it matches not.

Source: ControllerRefManager of Kubernetes 1.34.
"""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.labels import REPLICASET
from gitkruise.model.workloads.revision import REVISION
from gitkruise.planner.builtin.pod_owner import claimants
from gitkruise.wire.primitives.names import controller_of, key_of
from tests.worlds import SPACE, Lab, deployment, pod, template

OTHER = {"metadata": {"labels": {"app": "debug"}}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }


SIZED = [
    workload("ReplicaSet", replicas=3),
    workload("StatefulSet", replicas=3, serviceName="web"),
    workload("DaemonSet"),
    deployment(),
]
BY_KIND = pytest.mark.parametrize("owner", SIZED, ids=lambda one: one["kind"])


def uids(lab: Lab) -> set[str]:
    return {one["metadata"]["uid"] for one in lab.pods()}


@BY_KIND
def test_a_workload_created_again_adopts_what_its_predecessor_left(owner: Any) -> None:
    """`kubectl delete --cascade=orphan`, then `kubectl apply`: no pod is replaced or doubled."""
    lab = Lab(nodes=3)
    lab.apply(owner)
    lab.run()
    before = uids(lab)
    lab.delete(owner, propagationPolicy="Orphan")
    lab.run()
    assert lab.get(owner) is None
    assert uids(lab) == before
    lab.apply(owner)
    lab.run()
    assert uids(lab) == before
    owners = {controller_of(one)["uid"] for one in lab.pods()}  # type: ignore[index]
    sets = [one["metadata"]["uid"] for one in lab.world.objects(REPLICASET, SPACE)]
    assert owners == set(sets) or owners == {lab.get(owner)["metadata"]["uid"]}
    assert len(lab.world.objects(REVISION, SPACE)) <= 1


def test_a_changed_deployment_rolls_adopted_replica_sets_out() -> None:
    lab = Lab()
    lab.apply(deployment())
    lab.run()
    lab.delete(deployment(), propagationPolicy="Orphan")
    lab.run()
    lab.apply(deployment(image="app:v2"))
    lab.run()
    assert [p["spec"]["containers"][0]["image"] for p in lab.pods()] == ["app:v2"] * 3
    assert sorted(one["spec"]["replicas"] for one in lab.world.objects(REPLICASET, SPACE)) == [0, 3]


@BY_KIND
def test_a_pod_whose_labels_no_longer_match_is_released_and_replaced(owner: Any) -> None:
    """A pod is taken out of service to be examined: it stays, and another one takes its place."""
    lab = Lab(nodes=3)
    lab.apply(owner)
    lab.run()
    moved = lab.pods()[0]
    lab.patch(moved, OTHER)
    lab.run(600)
    kept = lab.get(moved)
    assert kept["metadata"]["uid"] == moved["metadata"]["uid"]
    assert "ownerReferences" not in kept["metadata"]
    others = [one for one in lab.pods() if one["metadata"]["labels"]["app"] == "web"]
    assert len(others) == (2 if owner["kind"] == "StatefulSet" else 3)  # its name is taken


def test_a_surplus_pod_that_matches_is_adopted_and_goes() -> None:
    lab = Lab()
    lab.apply(SIZED[0])
    lab.run()
    before = uids(lab)
    stray = pod("stray")
    stray["metadata"]["labels"] = {"app": "web"}
    lab.apply(stray)
    lab.run(600)
    assert uids(lab) == before


def test_a_pod_that_another_controls_is_left_to_it() -> None:
    lab = Lab()
    lab.apply(SIZED[0])
    lab.run()
    second = {**SIZED[0], "metadata": {"name": "second"}}
    lab.apply(second)
    lab.run()
    assert len(lab.pods()) == 6


def test_a_pod_of_another_name_is_no_member_of_a_stateful_set() -> None:
    lab = Lab()
    lab.apply(SIZED[1])
    lab.run()
    stray = pod("stray")
    stray["metadata"]["labels"] = {"app": "web"}
    lab.apply(stray)
    lab.run(600)
    assert "ownerReferences" not in lab.get(stray)["metadata"]


def damaged(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """An object as an older program may have left it in the store."""
    meta = {"name": name, "namespace": SPACE, "uid": name, "resourceVersion": "1"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, **rest}


@pytest.mark.parametrize(
    "bad",
    [
        damaged("ReplicaSet", "bad", spec="x"),
        damaged("ReplicaSet", "bad", spec={"selector": 5}),
        damaged("ReplicaSet", "bad", spec={"selector": {"matchExpressions": [{"operator": "?"}]}}),
    ],
    ids=str,
)
def test_a_damaged_selector_claims_nothing(bad: Any) -> None:
    lab = Lab()
    stray = pod("stray")
    stray["metadata"]["labels"] = {"app": "web"}
    lab.apply(stray)
    lab.world.restore([*lab.world.state.everything(), bad], lab.world.version + 1)
    assert list(claimants(REPLICASET)(lab.world, key_of(lab.get(stray)))) == []
