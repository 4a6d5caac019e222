"""WorkloadSpreads on a cluster that runs: where pods go, which go first, and the status."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Plan
from gitkruise.model.planning.workload_spread import IGNORE_PATCH, MATCHED
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import DELETION_COST, SPREAD, TEMPLATE_HASH
from gitkruise.planner.spread.controller import observe_spread, plan_spread
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from gitkruise.wire.primitives.times import format_time
from tests.worlds import SPACE, Lab, cloneset, deployment, spread, subset

A3_B: Final = (subset("a", 3, zone="zone-a"), subset("b", zone="zone-b"))
SPREAD_KEY: Final = ObjectKey(*SPREAD, SPACE, "zones")
STRATEGY: Final = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": 30}}


def lab_of(workload: Obj, *subsets: Obj, seconds: float = 60, **changes: Any) -> Lab:
    lab = Lab(nodes=6)
    obj = spread("zones", *subsets, kind=workload["kind"])
    lab.apply({**obj, "spec": {**obj["spec"], **changes}})
    lab.apply(workload)
    lab.run(seconds)
    return lab


def subset_of(one: Obj) -> str:
    """The subset that a pod names, or ""."""
    found = json.loads(one["metadata"].get("annotations", {}).get(MATCHED, "{}"))
    return str(found.get("subset", ""))


def divided(lab: Lab) -> dict[str, int]:
    """Active pods by subset."""
    alive = [one for one in lab.pods() if "deletionTimestamp" not in one["metadata"]]
    return dict(Counter(map(subset_of, alive)))


def costs(lab: Lab) -> dict[str, list[int]]:
    """Deletion costs by subset."""
    found: dict[str, list[int]] = {}
    for one in lab.pods():
        cost = int(one["metadata"]["annotations"][DELETION_COST])
        found.setdefault(subset_of(one), []).append(cost)
    return {name: sorted(found[name]) for name in sorted(found)}


def statuses(lab: Lab, version: str = "") -> list[tuple[str, int, int]]:
    """(name, replicas, missingReplicas) of each subset."""
    status = lab.get(spread())["status"]
    listed = status["versionedSubsetStatuses"][version] if version else status["subsetStatuses"]
    return [(one["name"], one["replicas"], one["missingReplicas"]) for one in listed]


def schedulable(lab: Lab) -> list[str]:
    listed = lab.get(spread())["status"]["subsetStatuses"]
    return [condition["status"] for one in listed for condition in one["conditions"]]


def scale(lab: Lab, replicas: int, kind: Obj | None = None) -> None:
    lab.patch(kind or cloneset(), {"spec": {"replicas": replicas}})
    lab.run(60)


def change_subsets(lab: Lab, *subsets: Obj) -> None:
    lab.patch(spread(), {"spec": {"subsets": list(subsets)}})
    lab.run(60)


@pytest.mark.parametrize(
    ("replicas", "subsets", "expected", "counted"),
    [
        pytest.param(
            5, A3_B, {"a": 3, "b": 2}, [("a", 3, 0), ("b", 2, -1)], id="SPREAD-1"
        ),
        pytest.param(
            10,
            (subset("a", "30%"), subset("b", "70%")),
            {"a": 3, "b": 7},
            [("a", 3, 0), ("b", 7, 0)],
            id="SPREAD-2",
        ),
        pytest.param(2, A3_B, {"a": 2}, [("a", 2, 1), ("b", 0, -1)], id="room left"),
    ],
)  # fmt: skip
def test_ws_51_52_56_pods_fill_subsets_in_order(
    replicas: int,
    subsets: tuple[Obj, ...],
    expected: Mapping[str, int],
    counted: list[tuple[str, int, int]],
) -> None:
    lab = lab_of(cloneset(replicas=replicas), *subsets)
    assert divided(lab) == expected
    assert statuses(lab) == statuses(lab, "versionIgnored") == counted
    assert lab.get(spread())["status"]["observedGeneration"] == 1


def test_spread_3_a_pod_for_which_no_subset_has_room() -> None:
    lab = lab_of(cloneset(), subset("a", 2, zone="zone-a"), subset("b", 2, zone="zone-b"))
    assert divided(lab) == {"a": 2, "b": 2, "": 1}
    assert costs(lab) == {"": [-300], "a": [200, 200], "b": [100, 100]}


def test_spread_4_and_ws_60_costs_fall_from_subset_to_subset() -> None:
    assert costs(lab_of(cloneset(), *A3_B)) == {"a": [200] * 3, "b": [100] * 2}


def test_spread_5_6_the_last_subset_is_scaled() -> None:
    lab = lab_of(cloneset(), *A3_B)
    scale(lab, 3)
    assert divided(lab) == {"a": 3}
    scale(lab, 8)
    assert divided(lab) == {"a": 3, "b": 5}


def test_ws_22_percentages_are_of_the_present_replicas() -> None:
    lab = lab_of(cloneset(replicas=10), subset("a", "30%"), subset("b", "70%"))
    scale(lab, 20)
    assert divided(lab) == {"a": 6, "b": 14}
    assert statuses(lab) == [("a", 6, 0), ("b", 14, 0)]


def test_ws_69_a_scale_in_acts_by_the_costs_of_before() -> None:
    lab = lab_of(cloneset(replicas=10), subset("a", "50%"), subset("b", "50%"))
    scale(lab, 6)
    assert divided(lab) == {"a": 5, "b": 1}
    assert costs(lab) == {"a": [-100, -100, 200, 200, 200], "b": [100]}
    scale(lab, 5)
    assert divided(lab) == {"a": 4, "b": 1}


def test_spread_5_a_deployment() -> None:
    lab = lab_of(deployment(replicas=5), *A3_B)
    assert divided(lab) == {"a": 3, "b": 2}
    scale(lab, 3, deployment())
    assert divided(lab) == {"a": 3}


def test_spread_7_a_pod_of_the_first_subset_is_replaced_there() -> None:
    lab = lab_of(cloneset(), *A3_B)
    first = next(one for one in lab.pods() if subset_of(one) == "a")
    lab.delete(first)
    lab.run(60)
    assert divided(lab) == {"a": 3, "b": 2}


def test_spread_8_pods_beyond_a_limit_go_first() -> None:
    lab = lab_of(cloneset(), *A3_B)
    change_subsets(lab, subset("a", 2, zone="zone-a"), subset("b", zone="zone-b"))
    assert costs(lab) == {"a": [-100, 200, 200], "b": [100, 100]}
    assert statuses(lab) == [("a", 3, 0), ("b", 2, -1)]
    scale(lab, 4)
    assert divided(lab) == {"a": 2, "b": 2}


def test_ws_62_a_subset_that_is_removed_leaves_pods_that_go_first() -> None:
    lab = lab_of(cloneset(), *A3_B)
    change_subsets(lab, subset("b", zone="zone-b"))
    assert costs(lab) == {"a": [-200] * 3, "b": [100] * 2}
    scale(lab, 2)
    assert divided(lab) == {"b": 2}


@pytest.mark.parametrize("policy", ["ReCreate", "InPlaceIfPossible"])
def test_spread_9_a_rollout_of_a_cloneset_keeps_the_division(policy: str) -> None:
    lab = lab_of(cloneset(podUpdatePolicy=policy, maxUnavailable=2), *A3_B)
    image = [{"name": "app", "image": "app:v2"}]
    lab.patch(cloneset(), {"spec": {"template": {"spec": {"containers": image}}}})
    lab.run(300)
    assert {one["spec"]["containers"][0]["image"] for one in lab.pods()} == {"app:v2"}
    assert divided(lab) == {"a": 3, "b": 2}


def test_spread_10_a_rollout_of_a_deployment_is_counted_by_version() -> None:
    lab = lab_of(deployment(replicas=5), *A3_B)
    old = lab.pods()[0]["metadata"]["labels"][TEMPLATE_HASH]
    image = [{"name": "app", "image": "app:v2"}]
    lab.patch(deployment(), {"spec": {"template": {"spec": {"containers": image}}}})
    lab.run(2)
    both = lab.get(spread())["status"]["versionedSubsetStatuses"]
    assert old in both, "WS-57"
    assert len(both) == 2
    lab.run(300)
    (new,) = lab.get(spread())["status"]["versionedSubsetStatuses"]
    assert new != old
    assert statuses(lab, new) == statuses(lab) == [("a", 3, 0), ("b", 2, -1)]
    assert divided(lab) == {"a": 3, "b": 2}


def test_ws_63_old_versions_empty_their_first_subset_first() -> None:
    careful = {"maxSurge": 1, "maxUnavailable": 0}
    workload = deployment(replicas=5, strategy={"type": "RollingUpdate", "rollingUpdate": careful})
    lab = lab_of(workload, *A3_B)
    gated = {"readinessGates": [{"conditionType": "never"}]}
    lab.patch(deployment(), {"spec": {"template": {"spec": gated}}})
    lab.run(60)
    gates = {"readinessGates"}
    new = [one for one in lab.pods() if gates <= one["spec"].keys()]
    assert [subset_of(one) for one in new] == ["a"]
    assert [one["metadata"]["annotations"][DELETION_COST] for one in new] == ["200"]
    rest = [one for one in lab.pods() if one not in new]
    found = {(subset_of(one), one["metadata"]["annotations"][DELETION_COST]) for one in rest}
    assert found == {("a", "100"), ("b", "200")}


@pytest.mark.parametrize("ignored", [False, True], ids=["WS-65", "WS-66"])
def test_spread_11_pods_that_are_older_than_their_spread(ignored: bool) -> None:
    lab = Lab(nodes=3)
    lab.apply(cloneset(replicas=3))
    lab.run(60)
    assert divided(lab) == {"": 3}
    patch = {"metadata": {"labels": {"subset": "a"}, "annotations": {"note": "a"}}}
    obj = spread("zones", subset("a", 3, zone="zone-a", patch=patch), subset("b", zone="zone-b"))
    obj["metadata"]["annotations"] = {IGNORE_PATCH: "true"} if ignored else {}
    lab.apply(obj)
    lab.run(60)
    zones = {"node-0": "a", "node-1": "b", "node-2": ""}
    for one in lab.pods():
        mine = subset_of(one)
        assert mine == zones[one["spec"]["nodeName"]]
        patched = mine == "a" and not ignored
        assert ("subset" in one["metadata"]["labels"]) == patched
        assert ("note" in one["metadata"]["annotations"]) == patched
    assert costs(lab) == {"": [-300], "a": [200], "b": [100]}


def test_ws_65_preferences_and_room_decide_between_subsets() -> None:
    lab = Lab(nodes=3)
    lab.apply(cloneset(replicas=3))
    lab.run(60)
    term = {
        "matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-c"]}
        ]
    }
    liked = subset("c", 1, preferredNodeSelector=[{"weight": 9, "preference": term}])
    lab.apply(spread("zones", subset("a", 1), liked, subset("b")))
    lab.run(60)
    by_node = {one["spec"]["nodeName"]: subset_of(one) for one in lab.pods()}
    assert by_node.pop("node-2") == "c"
    assert sorted(by_node.values()) in (["a", "b"], ["a", "c"])


def test_ws_65_taints_keep_pods_out_of_a_subset() -> None:
    lab = Lab(nodes=1)
    lab.apply(cloneset(replicas=1))
    lab.run(60)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "namespace": ""}}
    lab.patch(node, {"spec": {"taints": [{"key": "rented", "effect": "NoSchedule"}]}})
    tolerant = subset("b", tolerations=[{"key": "rented", "operator": "Exists"}])
    lab.apply(spread("zones", subset("a", 3), tolerant))
    lab.run(60)
    assert divided(lab) == {"b": 1}


def test_spread_12_13_pods_that_cannot_be_scheduled_move_on() -> None:
    far = subset("a", 3, zone="zone-x")
    lab = lab_of(cloneset(), far, subset("b", zone="zone-b"), seconds=20, scheduleStrategy=STRATEGY)
    assert divided(lab) == {"a": 3, "b": 2}
    assert schedulable(lab) == ["True", "True"]
    lab.run(60)
    assert divided(lab) == {"b": 5}, "WS-67"
    assert schedulable(lab) == ["False", "True"], "WS-55"
    scale(lab, 6)
    assert divided(lab) == {"b": 6}, "WS-22"
    lab.run(400)
    assert schedulable(lab) == ["True", "True"]
    assert "RecoverSchedulable" in lab.events("zones")


def test_ws_7_fixed_pods_wait_for_their_subset() -> None:
    far = subset("a", 3, zone="zone-x")
    lab = lab_of(cloneset(), far, subset("b", zone="zone-b"), seconds=900)
    assert divided(lab) == {"a": 3, "b": 2}
    assert "conditions" not in lab.get(spread())["status"]["subsetStatuses"][0]


@pytest.mark.parametrize(
    ("field", "ago_s", "event"),
    [("creatingPods", 29, ""), ("creatingPods", 31, "CreatePodFailed")],
    ids=["WS-53", "SPREAD-17"],
)
def test_records_of_pods_that_never_came(field: str, ago_s: float, event: str) -> None:
    lab = lab_of(cloneset(replicas=2), *A3_B)
    at = format_time(lab.now - timedelta(seconds=ago_s))
    (a, b) = lab.get(spread())["status"]["versionedSubsetStatuses"]["versionIgnored"]
    record = {"versionIgnored": [{**a, "missingReplicas": 0, field: {"web-never": at}}, b]}
    lab.patch(spread(), {"status": {"versionedSubsetStatuses": record}}, subresource="status")
    lab.run(0.5)
    assert statuses(lab) == [("a", 2, 1 if event else 0), ("b", 0, -1)]
    assert (event in lab.events("zones")) == bool(event)
    lab.run(60)
    assert statuses(lab) == [("a", 2, 1), ("b", 0, -1)]


def test_ws_54_a_pod_that_was_not_deleted() -> None:
    lab = lab_of(cloneset(replicas=3), *A3_B)
    (a, b) = lab.get(spread())["status"]["versionedSubsetStatuses"]["versionIgnored"]
    name = lab.pods()[0]["metadata"]["name"]
    record = {"versionIgnored": [{**a, "deletingPods": {name: format_time(lab.now)}}, b]}
    lab.patch(spread(), {"status": {"versionedSubsetStatuses": record}}, subresource="status")
    lab.run(5)
    assert statuses(lab) == [("a", 3, 1), ("b", 0, -1)]
    lab.run(20)
    assert statuses(lab) == [("a", 3, 0), ("b", 0, -1)]
    assert "DeletePodFailed" in lab.events("zones")


def test_ws_40_eviction_of_a_pod_makes_room() -> None:
    lab = lab_of(cloneset(), *A3_B)
    name = next(one for one in lab.pods() if subset_of(one) == "a")["metadata"]["name"]
    meta = {"name": name, "namespace": SPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    request = ApiRequest(
        verb="create", resource=PODS, namespace=SPACE, name=name, subresource="eviction", body=body
    )
    lab.world.handle(request, lab.now)
    assert statuses(lab, "versionIgnored")[0][2] == 1
    lab.run(60)
    assert divided(lab) == {"a": 3, "b": 2}


def test_spread_18_and_ws_68_a_deleted_spread_leaves_its_pods() -> None:
    lab = lab_of(cloneset(), *A3_B)
    before = costs(lab)
    lab.delete(spread())
    lab.run(60)
    assert costs(lab) == before
    scale(lab, 6)
    assert divided(lab) == {"a": 3, "b": 2, "": 1}


def test_ws_59_a_target_that_is_missing() -> None:
    lab = Lab()
    lab.apply(spread("zones", subset("a", "50%"), subset("b", "50%")))
    lab.run(10)
    assert statuses(lab) == [("a", 0, 0), ("b", 0, 0)]


def test_ws_12_nothing_acts_while_the_gate_is_off() -> None:
    lab = lab_of(cloneset(), *A3_B)
    facts = observe_spread(lab.world, SPREAD_KEY, lab.now)
    assert facts is not None
    moved = replace(facts, replicas=9, pods=facts.pods[1:])
    assert plan_spread(moved, Gates()).actions
    assert plan_spread(moved, Gates(workload_spread=False)) == Plan()
