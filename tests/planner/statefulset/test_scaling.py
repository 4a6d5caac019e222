"""Pods of an Advanced StatefulSet: their ordinals, their order, their claims."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.feature_gates import Gates
from tests.planner.statefulset.build import CLAIM, DATA, StatefulLab, advanced
from tests.worlds import Lab


def births(lab: Lab) -> list[str]:
    pods = sorted(lab.pods(), key=lambda p: str(p["metadata"]["creationTimestamp"]))
    return [p["metadata"]["name"] for p in pods]


def instants(lab: Lab) -> int:
    return len({p["metadata"]["creationTimestamp"] for p in lab.pods()})


def test_asts_40_pods_are_created_one_after_the_other() -> None:
    lab = StatefulLab()
    assert births(lab) == ["db-0", "db-1", "db-2"]
    assert instants(lab) == 3
    assert lab.status["availableReplicas"] == lab.status["readyReplicas"] == 3


def test_asts_40_a_pod_waits_for_min_ready_seconds_of_the_one_before() -> None:
    lab = Lab()
    lab.apply(advanced(2, rolling={"minReadySeconds": 120}))
    lab.run(100)
    assert [p["metadata"]["name"] for p in lab.pods()] == ["db-0"]
    lab.run(100)
    assert [p["metadata"]["name"] for p in lab.pods()] == ["db-0", "db-1"]


def test_asts_41_parallel_pods_do_not_wait() -> None:
    assert instants(StatefulLab(podManagementPolicy="Parallel")) == 1


@pytest.mark.parametrize(("limit", "waves"), [(2, 3), ("50%", 3), (10, 1), ("1%", 5)])
def test_asts_41_scale_strategy_limits_parallel_pods(limit: int | str, waves: int) -> None:
    lab = StatefulLab(
        replicas=5, podManagementPolicy="Parallel", scaleStrategy={"maxUnavailable": limit}
    )
    assert instants(lab) == waves
    assert len(lab.names) == 5


def test_asts_30_reserved_ordinals_have_no_pod() -> None:
    lab = StatefulLab(replicas=4, reserveOrdinals=[0, "2-3"])
    assert lab.names == ["db-1", "db-4", "db-5", "db-6"]


def test_asts_31_a_reserved_ordinal_moves_its_pod() -> None:
    lab = StatefulLab(replicas=3)
    lab.change(reserveOrdinals=[1])
    assert lab.names == ["db-0", "db-2", "db-3"]
    lab.change(reserveOrdinals=[])
    assert lab.names == ["db-0", "db-1", "db-2"]


def test_asts_3_ordinals_start_where_the_gate_allows_it() -> None:
    chosen: Any = {"replicas": 2, "ordinals": {"start": 5}}
    assert StatefulLab(**chosen).names == ["db-0", "db-1"]
    gates = Gates(stateful_set_start_ordinal=True)
    assert StatefulLab(gates=gates, **chosen).names == ["db-5", "db-6"]


def test_asts_3_the_label_of_the_index_goes_with_its_gate() -> None:
    name = "apps.kubernetes.io/pod-index"
    assert StatefulLab(replicas=1).pods()[0]["metadata"]["labels"][name] == "0"
    lab = StatefulLab(replicas=1, gates=Gates(pod_index_label=False))
    assert name not in lab.pods()[0]["metadata"]["labels"]


def test_asts_42_surplus_pods_go_from_the_highest_down() -> None:
    lab = StatefulLab(replicas=4)
    lab.change(0.2, replicas=1)
    going = [p["metadata"]["name"] for p in lab.pods() if "deletionTimestamp" in p["metadata"]]
    assert going == ["db-3"]
    lab.run()
    assert lab.names == ["db-0"]


def test_asts_43_a_pod_that_ended_is_created_again() -> None:
    lab = StatefulLab()
    before = lab.uids
    lab.patch(lab.pods()[1], {"status": {"phase": "Failed"}}, subresource="status")
    lab.run()
    assert lab.names == ["db-0", "db-1", "db-2"]
    assert lab.uids["db-1"] != before["db-1"]


def test_asts_45_pods_start_as_normal() -> None:
    lab = StatefulLab()
    assert {p["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] for p in lab.pods()} == {
        "Normal"
    }


def test_asts_45_a_hook_holds_the_next_pod_until_its_handler_is_there() -> None:
    lab = StatefulLab(lifecycle={"preNormal": {"labelsHandler": {"ready": "yes"}}})
    assert lab.names == ["db-0"]
    lab.label("db-0", ready="yes")
    lab.run()
    assert lab.names == ["db-0", "db-1"]


HELD: Any = {"lifecycle": {"preDelete": {"labelsHandler": {"hold": "yes"}}}}


def held_lab() -> StatefulLab:
    labels = {"metadata": {"labels": {"app": "db", "hold": "yes"}}}
    made = advanced()["spec"]["template"]
    return StatefulLab(template={**made, **labels}, **HELD)


def test_asts_46_a_hook_holds_a_surplus_pod() -> None:
    lab = held_lab()
    lab.change(replicas=2)
    state = lab.pod_named("db-2")["metadata"]["labels"]["lifecycle.apps.kruise.io/state"]
    assert state == "PreparingDelete"
    lab.label("db-2", hold=None)
    lab.run()
    assert lab.names == ["db-0", "db-1"]


def test_asts_46_a_pod_that_is_needed_again_returns() -> None:
    lab = held_lab()
    lab.change(replicas=2)
    lab.change(replicas=3)
    state = lab.pod_named("db-2")["metadata"]["labels"]["lifecycle.apps.kruise.io/state"]
    assert state == "Normal"


def test_asts_50_a_claim_is_used_again() -> None:
    lab = StatefulLab(volumeClaimTemplates=[DATA])
    assert lab.claims() == ["data-db-0", "data-db-1", "data-db-2"]
    lab.change(replicas=1)
    assert lab.claims() == ["data-db-0", "data-db-1", "data-db-2"]
    lab.change(replicas=3)
    assert lab.claims() == ["data-db-0", "data-db-1", "data-db-2"]


POLICIES = {
    "Retain Retain": (3, 3),
    "Retain Delete": (2, 2),
    "Delete Retain": (3, 0),
    "Delete Delete": (2, 0),
}


@pytest.mark.parametrize(("policy", "left"), POLICIES.items(), ids=POLICIES)
def test_asts_51_and_52_claims_go_with_their_owner(policy: str, left: tuple[int, int]) -> None:
    deleted, scaled = policy.split()
    lab = StatefulLab(
        volumeClaimTemplates=[DATA],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": deleted, "whenScaled": scaled},
    )
    lab.change(replicas=2)
    assert len(lab.claims()) == left[0]
    lab.delete(advanced())
    lab.run()
    assert len(lab.claims()) == left[1]


def test_asts_51_a_new_policy_counts_for_claims_there_are() -> None:
    lab = StatefulLab(volumeClaimTemplates=[DATA])
    lab.change(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"})
    lab.delete(advanced())
    lab.run()
    assert lab.claims() == []


def test_asts_3_claims_stay_without_the_gate() -> None:
    lab = StatefulLab(
        gates=Gates(stateful_set_auto_delete_pvc=False),
        volumeClaimTemplates=[DATA],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"},
    )
    lab.delete(advanced())
    lab.run()
    assert len(lab.claims()) == 3


def test_asts_53_a_new_pod_waits_until_the_claim_of_the_old_one_is_gone() -> None:
    lab = StatefulLab(
        volumeClaimTemplates=[DATA],
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Delete"},
    )
    claim = "data-db-2"
    lab.change(1, replicas=2)
    lab.change(replicas=3)
    assert lab.names == ["db-0", "db-1", "db-2"]
    assert claim in lab.claims()
    references = [c["metadata"].get("ownerReferences") for c in lab.world.objects(CLAIM, "shop")]
    assert not any(references)


def test_asts_83_claims_are_counted() -> None:
    lab = StatefulLab(volumeClaimTemplates=[DATA])
    assert lab.status["volumeClaims"] == [
        {"volumeClaimName": "data", "compatibleReplicas": 3, "compatibleReadyReplicas": 3}
    ]
