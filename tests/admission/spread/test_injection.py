"""Subsets that are injected into new pods of the embedded cluster."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gitkruise.errors import InternalError
from gitkruise.model.planning.workload_spread import MATCHED
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from tests.worlds import SPACE, START, Lab, cloneset, pod, sidecarset, spread, subset

ZONE: Final = "topology.kubernetes.io/zone"
TERM: Final = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-a"]}]}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def lab_of(*subsets: Obj, gates: Gates | None = None, **changes: Any) -> Lab:
    """A cluster in which nothing runs by itself, with a CloneSet and its WorkloadSpread."""
    lab = Lab(nodes=0, gates=gates, parts=())
    lab.apply(cloneset())
    if not (gates and not gates.workload_spread):
        obj = spread("zones", *subsets)
        lab.apply({**obj, "spec": {**obj["spec"], **changes}})
    return lab


def owned(lab: Lab, name: str = "p", **spec: Any) -> dict[str, Any]:
    uid = lab.get(cloneset())["metadata"]["uid"]
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": uid}
    made = pod(name, **spec)
    made["metadata"] |= {
        "namespace": SPACE,
        "labels": {"app": "web"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    return made


def created(lab: Lab, obj: Obj, **params: str) -> Any:
    request = ApiRequest(verb="create", resource=PODS, namespace=SPACE, body=obj, params=params)
    return lab.world.handle(request, START).body


def match(made: Obj) -> Any:
    return json.loads(made["metadata"].get("annotations", {}).get(MATCHED, "null"))


def counts(lab: Lab) -> list[int]:
    versions = lab.get(spread())["status"]["versionedSubsetStatuses"]
    return [one["missingReplicas"] for one in versions["versionIgnored"]]


def test_ws_22_24_subsets_are_filled_in_order_and_recorded() -> None:
    lab = lab_of(subset("a", 1), subset("b", 1))
    assert match(created(lab, owned(lab, "p"))) == {"name": "zones", "subset": "a"}
    assert counts(lab) == [0, 1]
    (status, _) = lab.get(spread())["status"]["versionedSubsetStatuses"]["versionIgnored"]
    assert list(status["creatingPods"]) == ["p"]
    assert match(created(lab, owned(lab, "q")))["subset"] == "b"
    assert match(created(lab, owned(lab, "r"))) is None
    assert counts(lab) == [0, 0]


def test_ws_24_a_dry_run_records_nothing() -> None:
    lab = lab_of(subset("a", 1), subset("b"))
    assert match(created(lab, owned(lab), dryRun="All"))["subset"] == "a"
    assert "status" not in lab.get(spread())


def test_ws_26_the_only_subset_without_a_limit_needs_no_record() -> None:
    lab = lab_of(subset("a"))
    assert match(created(lab, owned(lab)))["subset"] == "a"
    assert "status" not in lab.get(spread())


def test_ws_20_pods_of_others_are_left_alone() -> None:
    lab = lab_of(subset("a"))
    assert match(created(lab, {**pod("bare"), "metadata": {"name": "bare"}})) is None
    other = owned(lab)
    other["metadata"]["ownerReferences"][0]["name"] = "other"
    assert match(created(lab, other)) is None


def test_ws_11_the_filter_selects_pods_and_counts_replicas() -> None:
    filtered = {
        "selector": {"matchLabels": {"tier": "front"}},
        "replicasPathList": ["spec.minReadySeconds", "spec.replicas", "spec.nothing"],
    }
    lab = lab_of(subset("a", "40%"), subset("b", "60%"), targetFilter=filtered)
    assert match(created(lab, owned(lab, "q"))) is None
    front = owned(lab)
    front["metadata"]["labels"]["tier"] = "front"
    assert match(created(lab, front))["subset"] == "a"
    assert counts(lab) == [1, 3], "40% and 60% of 5"


def test_spread_15_pods_are_created_unchanged_without_the_gate() -> None:
    lab = lab_of(gates=Gates(workload_spread=False))
    assert match(created(lab, owned(lab))) is None


def test_ws_40_deletions_are_recorded_once() -> None:
    lab = lab_of(subset("a", 1), subset("b"))
    created(lab, owned(lab, "p"))
    record = lab.get(spread())
    (a, b) = record["status"]["versionedSubsetStatuses"]["versionIgnored"]
    seen = {"versionIgnored": [{**a, "creatingPods": None}, b]}
    lab.patch(spread(), {"status": {"versionedSubsetStatuses": seen}}, subresource="status")
    gone = ApiRequest(verb="delete", resource=PODS, namespace=SPACE, name="p")
    lab.world.handle(gone, START)
    assert counts(lab) == [1, -1]
    (a, _) = lab.get(spread())["status"]["versionedSubsetStatuses"]["versionIgnored"]
    assert list(a["deletingPods"]) == ["p"]


def test_ws_30_to_35_parts_of_a_subset() -> None:
    toleration = {"key": "rented", "operator": "Exists"}
    weighted = {"weight": 5, "preference": TERM}
    patch = {
        "metadata": {"labels": {"subset": "a"}, "annotations": {"note": "a"}},
        "spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "1"}}}]},
    }
    lab = lab_of(
        subset(
            "a",
            requiredNodeSelector=TERM,
            preferredNodeSelector=[weighted],
            tolerations=[toleration],
            patch=patch,
        )
    )
    own = {"key": "own", "operator": "Exists"}
    made = created(lab, owned(lab, tolerations=[own]))
    spec = made["spec"]
    keys = [one["key"] for one in spec["tolerations"]]
    assert keys.index("own") < keys.index("rented")
    affinity = spec["affinity"]["nodeAffinity"]
    assert affinity == {REQUIRED: {"nodeSelectorTerms": [TERM]}, PREFERRED: [weighted]}
    assert made["metadata"]["labels"] == {"app": "web", "subset": "a"}
    assert made["metadata"]["annotations"] == {
        "note": "a",
        MATCHED: '{"name":"zones","subset":"a"}',
    }
    (container,) = spec["containers"]
    assert container["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert container["image"] == "app:v1"


def test_ws_32_alternatives_of_the_pod_are_each_narrowed() -> None:
    lab = lab_of(subset("a", requiredNodeSelector=TERM))
    (mine,) = TERM["matchExpressions"]
    arch = [{"key": "arch", "operator": "In", "values": [one]} for one in ("amd64", "arm64")]
    terms = [{"matchExpressions": [one]} for one in arch]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    made = created(lab, owned(lab, affinity=affinity))
    found = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert found == [{"matchExpressions": [one, mine]} for one in arch]


def test_ws_33_a_patch_that_does_not_fit() -> None:
    lab = lab_of(subset("a", patch={"spec": {"containers": [{"image": "x"}]}}))
    with pytest.raises(InternalError, match="patch of subset a of WorkloadSpread zones"):
        created(lab, owned(lab))


def test_ws_34_the_priority_follows_its_class() -> None:
    lab = lab_of(subset("a", patch={"spec": {"priorityClassName": "low"}}))
    klass = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": -10}
    lab.apply({**klass, "metadata": {"name": "low", "namespace": ""}})
    made = created(lab, owned(lab))
    assert (made["spec"]["priorityClassName"], made["spec"]["priority"]) == ("low", -10)


def test_ws_36_sidecars_see_the_labels_of_the_subset() -> None:
    lab = lab_of(subset("a", patch={"metadata": {"labels": {"mesh": "on"}}}))
    lab.apply(sidecarset(selector={"matchLabels": {"mesh": "on"}}))
    made = created(lab, owned(lab))
    assert [one["name"] for one in made["spec"]["containers"]] == ["mesh", "app"]


def test_ws_23_25_names_that_are_recorded_keep_their_subset() -> None:
    lab = lab_of(subset("a", 1), subset("b"))
    body = {
        "name": "a",
        "replicas": 0,
        "missingReplicas": 0,
        "creatingPods": {"p": "2026-11-21T10:00:00Z"},
    }
    rest = {"name": "b", "replicas": 0, "missingReplicas": -1}
    versions = {"versionedSubsetStatuses": {"versionIgnored": [body, rest]}}
    lab.patch(spread(), {"status": versions}, subresource="status")
    assert match(created(lab, owned(lab, "q")))["subset"] == "b"
    assert match(created(lab, owned(lab, "p")))["subset"] == "a"
    assert counts(lab) == [0, -1]
