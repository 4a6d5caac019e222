"""Rollouts of an Advanced StatefulSet in a model cluster."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.revision import REVISION
from gitkruise.wire.kruise.revision_data import revision_data
from tests.planner.statefulset.build import GATE, IN_PLACE, StatefulLab, advanced, lowest_ready
from tests.worlds import SPACE, template

PARALLEL: Any = {"podManagementPolicy": "Parallel"}


def placed(**spec: Any) -> StatefulLab:
    """A set that updates in place."""
    rolling = {**IN_PLACE, **spec.pop("rolling", {})}
    return StatefulLab(pod=GATE, rolling=rolling, **spec)


def order(lab: StatefulLab) -> list[str]:
    pods = sorted(lab.pods(), key=lambda p: str(p["metadata"]["creationTimestamp"]))
    return [p["metadata"]["name"] for p in pods]


def test_asts_60_an_update_goes_from_the_highest_down_one_at_a_time() -> None:
    lab = StatefulLab()
    lab.update()
    assert set(lab.images.values()) == {"v2"}
    assert order(lab) == ["db-2", "db-1", "db-0"]
    assert lab.status["currentRevision"] == lab.status["updateRevision"]


@pytest.mark.parametrize(
    ("partition", "updated"), [(0, "0 1 2 3"), (3, "3"), (1, "1 2 3"), (4, ""), (9, "")]
)
def test_asts_60_a_partition_keeps_the_lowest(partition: int, updated: str) -> None:
    lab = StatefulLab(replicas=4)
    lab.update(partition=partition)
    assert [n for n, tag in lab.images.items() if tag == "v2"] == [
        f"db-{x}" for x in updated.split()
    ]


def test_asts_60_reserved_ordinals_do_not_count() -> None:
    lab = StatefulLab(replicas=4, reserveOrdinals=[1])
    assert lab.names == ["db-0", "db-2", "db-3", "db-4"]
    lab.update(partition=2)
    assert lab.images == {"db-0": "v1", "db-2": "v1", "db-3": "v2", "db-4": "v2"}


def test_asts_63_a_deleted_pod_keeps_its_side_of_the_partition() -> None:
    lab = StatefulLab(replicas=4)
    lab.update(partition=2)
    for name in ("db-0", "db-3"):
        lab.delete(lab.pod_named(name))
        lab.run()
    assert list(lab.images.values()) == ["v1", "v1", "v2", "v2"]
    assert (lab.status["currentReplicas"], lab.status["updatedReplicas"]) == (2, 2)


@pytest.mark.parametrize(("most", "fewest"), [(1, 5), (3, 3), ("50%", 3), ("1%", 5), ("100%", 0)])
def test_asts_61_max_unavailable_limits_pods_that_are_down(most: int | str, fewest: int) -> None:
    lab = StatefulLab(replicas=6, rolling={"maxUnavailable": most}, **PARALLEL)
    lab.patch(advanced(), {"spec": {"template": template("app:v2", app="db")}})

    def over() -> bool:
        return lab.status["updatedReadyReplicas"] == 6 if lab.status else False

    assert lowest_ready(lab, lambda: set(lab.images.values()) == {"v2"}) >= fewest
    lab.run()
    assert set(lab.images.values()) == {"v2"}
    assert over()


def test_asts_61_a_pod_that_is_down_already_costs_nothing() -> None:
    lab = StatefulLab(replicas=4, **PARALLEL)
    lab.update("app:unready")
    assert [n for n, tag in lab.images.items() if tag == "unready"] == ["db-3"]
    lab.update("app:v2")
    assert set(lab.images.values()) == {"v2"}


def test_asts_44_a_bad_pod_holds_the_update_that_mends_it() -> None:
    lab = StatefulLab(replicas=3)
    lab.update("app:unready")
    lab.update("app:v2")
    assert list(lab.images.values()) == ["v1", "v1", "unready"]
    lab.delete(lab.pod_named("db-2"))
    lab.run()
    assert set(lab.images.values()) == {"v2"}


def weighted(lab: StatefulLab, weights: dict[str, str]) -> None:
    for name, value in weights.items():
        lab.label(name, tier=value)


def test_asts_62_heavier_pods_go_first() -> None:
    heavy = {"weight": 50, "matchSelector": {"matchLabels": {"tier": "test"}}}
    priority = {"unorderedUpdate": {"priorityStrategy": {"weightPriority": [heavy]}}}
    lab = StatefulLab(replicas=4, rolling=priority, **PARALLEL)
    weighted(lab, {"db-1": "test"})
    lab.update(partition=3)
    assert [n for n, tag in lab.images.items() if tag == "v2"] == ["db-1"]
    lab.rolling(partition=2)
    assert [n for n, tag in lab.images.items() if tag == "v2"] == ["db-1", "db-3"]


def test_asts_62_order_priority_follows_the_number_of_a_label() -> None:
    terms = {"orderPriority": [{"orderedKey": "tier"}]}
    lab = StatefulLab(
        replicas=3, rolling={"unorderedUpdate": {"priorityStrategy": terms}}, **PARALLEL
    )
    weighted(lab, {"db-0": "a-9", "db-1": "a-2", "db-2": "a-5"})
    lab.update(partition=1)
    assert [n for n, tag in lab.images.items() if tag == "v1"] == ["db-1"]


def test_asts_62_the_partition_counts_pods() -> None:
    lab = StatefulLab(replicas=4, rolling={"unorderedUpdate": {}}, **PARALLEL)
    lab.update(partition=3)
    assert lab.images["db-3"] == "v2"
    lab.delete(lab.pod_named("db-0"))
    lab.run()
    assert sorted(lab.images.values()) == ["v1", "v1", "v1", "v2"]


def test_asts_64_a_paused_set_updates_nothing() -> None:
    lab = StatefulLab(rolling={"paused": True})
    lab.update()
    assert set(lab.images.values()) == {"v1"}
    lab.change(replicas=4)
    assert lab.images["db-3"] == "v2"
    lab.rolling(paused=False)
    assert set(lab.images.values()) == {"v2"}


def test_asts_64_on_delete_updates_what_is_deleted() -> None:
    lab = StatefulLab(updateStrategy={"type": "OnDelete"})
    lab.update()
    lab.delete(lab.pod_named("db-1"))
    lab.run()
    assert list(lab.images.values()) == ["v1", "v2", "v1"]


def test_asts_66_an_update_in_place_keeps_pods_and_names_the_revision() -> None:
    lab = placed()
    before = lab.uids
    lab.update()
    assert lab.uids == before
    assert set(lab.images.values()) == {"v2"}
    labels = [p["metadata"]["labels"] for p in lab.pods()]
    assert {one["controller-revision-hash"] for one in labels} == {lab.status["updateRevision"]}
    assert not any("pod-template-hash" in one for one in labels)
    assert {one["lifecycle.apps.kruise.io/state"] for one in labels} == {"Normal"}
    assert lab.status["updatedAvailableReplicas"] == 3


def test_asts_61_updates_in_place_keep_to_max_unavailable() -> None:
    lab = placed(replicas=4)
    lab.patch(advanced(), {"spec": {"template": template("app:v2", app="db", **GATE)}})
    assert lowest_ready(lab, lambda: set(lab.images.values()) == {"v2"}) >= 3


def test_asts_66_a_grace_period_comes_before_the_new_image() -> None:
    lab = placed(replicas=1, rolling={"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}})
    lab.update(seconds=20)
    assert lab.images == {"db-0": "v1"}
    (one,) = lab.pods()
    ready = {c["type"]: c["status"] for c in one["status"]["conditions"]}
    assert ready["InPlaceUpdateReady"] == "False"
    lab.run(60)
    assert lab.images == {"db-0": "v2"}
    assert lab.status["readyReplicas"] == 1


def test_asts_65_what_cannot_be_done_in_place_recreates() -> None:
    lab = placed()
    before = lab.uids
    lab.change(template=template("app:v1", app="db", hostNetwork=True, **GATE))
    assert not set(before.values()) & set(lab.uids.values())


def test_asts_65_in_place_only_leaves_the_pods() -> None:
    lab = placed(rolling={"podUpdatePolicy": "InPlaceOnly"})
    before = lab.uids
    lab.change(template=template("app:v1", app="db", hostNetwork=True, **GATE))
    assert lab.uids == before
    (condition,) = lab.status["conditions"]
    assert condition["type"] == "FailedUpdatePod"
    assert "db-2 cannot be updated in place" in condition["message"]
    lab.change(template=template("app:v2", app="db", hostNetwork=None, **GATE))
    assert lab.uids == before
    assert "conditions" not in lab.status


def test_asts_67_a_hook_holds_an_update_in_place() -> None:
    hook = {"inPlaceUpdate": {"labelsHandler": {"hold": "yes"}}}
    made = template("app:v1", app="db", **GATE)
    made["metadata"]["labels"]["hold"] = "yes"
    lab = StatefulLab(replicas=2, template=made, rolling=IN_PLACE, lifecycle=hook)
    lab.update()
    state = "lifecycle.apps.kruise.io/state"
    assert lab.pod_named("db-1")["metadata"]["labels"][state] == "PreparingUpdate"
    assert set(lab.images.values()) == {"v1"}
    lab.label("db-1", hold=None)
    lab.run()
    assert lab.images == {"db-0": "v1", "db-1": "v2"}
    assert lab.pod_named("db-1")["metadata"]["labels"][state] == "Updated"
    lab.label("db-1", hold="yes")
    lab.run()
    assert lab.pod_named("db-0")["metadata"]["labels"][state] == "PreparingUpdate"


def test_asts_68_a_marked_pod_is_replaced_whatever_the_partition() -> None:
    lab = StatefulLab(rolling={"partition": 3})
    before = lab.uids
    lab.update()
    lab.label("db-1", specified_delete="true")
    lab.run()
    assert lab.images["db-1"] == "v1"
    changed = [name for name, uid in lab.uids.items() if uid != before[name]]
    assert changed == ["db-1"]


def test_asts_69_begun_updates_are_finished_under_ordered_ready() -> None:
    lab = placed(rolling={"inPlaceUpdateStrategy": {"gracePeriodSeconds": 30}})
    lab.update(seconds=10)
    lab.patch(lab.pods()[0], {"status": {"phase": "Pending"}}, subresource="status")
    lab.run(60)
    assert lab.images["db-2"] == "v2"


def test_a_lower_partition_lets_the_next_ones_through_and_a_rollback_returns_them() -> None:
    lab = placed(replicas=4, rolling={"partition": 4})
    lab.update()
    for partition, updated in ((3, 1), (1, 3)):
        lab.rolling(partition=partition)
        assert lab.status["updatedReplicas"] == updated
    lab.update("app:v1", partition=0)
    assert set(lab.images.values()) == {"v1"}
    assert lab.status["currentRevision"] == lab.status["updateRevision"]


def test_asts_80_history_beyond_its_limit_is_deleted() -> None:
    lab = StatefulLab(revisionHistoryLimit=1)
    for image in ("app:v2", "app:v3", "app:v4"):
        lab.update(image)
    found = lab.world.objects(REVISION, SPACE)
    assert sorted(r["revision"] for r in found) == [3, 4]


def test_asts_80_revisions_have_the_bytes_of_a_cloneset() -> None:
    lab = StatefulLab(replicas=1)
    (one,) = lab.world.objects(REVISION, SPACE)
    assert bytes(one["data"]) == revision_data(lab.get(advanced())["spec"]["template"])
    assert b'"creationTimestamp":null' in one["data"]
    owner = one["metadata"]["ownerReferences"][0]
    assert (owner["apiVersion"], owner["kind"]) == ("apps.kruise.io/v1beta1", "StatefulSet")


def test_a_deleted_set_takes_its_pods_along() -> None:
    lab = StatefulLab()
    lab.delete(advanced())
    lab.run()
    assert lab.pods() == []


def test_both_kinds_of_stateful_set_run_next_to_each_other() -> None:
    lab = StatefulLab(replicas=2)
    other = advanced(2)
    labels = {"matchLabels": {"app": "own"}}
    spec = {**other["spec"], "selector": labels, "template": template("app:v1", app="own")}
    lab.apply({**other, "apiVersion": "apps/v1", "metadata": {"name": "own"}, "spec": spec})
    lab.run()
    assert lab.names == ["db-0", "db-1", "own-0", "own-1"]
