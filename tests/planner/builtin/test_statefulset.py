"""StatefulSets in the model cluster: order, claims, updates, and what a real controller writes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.revision import REVISION
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.worlds import SPACE, Lab, template

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
ASKED: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DATA: Final = {"metadata": {"name": "data"}, "spec": ASKED}


def stateful(replicas: int = 3, **spec: Any) -> dict[str, Any]:
    body = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template(app="db"),
        **spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": body,
    }


def started(**spec: Any) -> Lab:
    lab = Lab()
    lab.apply(stateful(**spec))
    lab.run()
    return lab


def change(lab: Lab, **spec: Any) -> None:
    lab.patch(stateful(), {"spec": spec})
    lab.run(600)


def images(lab: Lab) -> list[str]:
    return [p["spec"]["containers"][0]["image"].partition(":")[2] for p in lab.pods()]


def names(lab: Lab) -> list[str]:
    return [p["metadata"]["name"] for p in lab.pods()]


def births(lab: Lab) -> list[str]:
    """Pods by the time of their creation."""
    pods = sorted(lab.pods(), key=lambda p: str(p["metadata"]["creationTimestamp"]))
    assert len({p["metadata"]["creationTimestamp"] for p in pods}) == len(pods)
    return [p["metadata"]["name"] for p in pods]


def status(lab: Lab) -> Obj:
    found: Obj = lab.get(stateful())["status"]
    return found


def test_pods_are_created_one_after_the_other() -> None:
    lab = started()
    assert births(lab) == ["db-0", "db-1", "db-2"]
    assert status(lab)["availableReplicas"] == status(lab)["readyReplicas"] == 3


def test_parallel_pods_do_not_wait() -> None:
    lab = started(podManagementPolicy="Parallel")
    assert len({p["metadata"]["creationTimestamp"] for p in lab.pods()}) == 1


def test_a_pod_that_does_not_serve_holds_the_next() -> None:
    assert names(started(template=template("app:unready", app="db"))) == ["db-0"]


def test_ordinals_may_start_elsewhere() -> None:
    assert names(started(replicas=2, ordinals={"start": 5})) == ["db-5", "db-6"]


def test_an_update_goes_from_the_highest_down() -> None:
    lab = started()
    change(lab, template=template("app:v2", app="db"))
    assert images(lab) == ["v2", "v2", "v2"]
    assert births(lab) == ["db-2", "db-1", "db-0"]
    assert status(lab)["currentRevision"] == status(lab)["updateRevision"]


def test_a_partition_keeps_lower_ordinals_and_gives_them_the_current_revision() -> None:
    lab = started()
    kept = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
    change(lab, template=template("app:v2", app="db"), **kept)
    assert images(lab) == ["v1", "v1", "v2"]
    lab.delete(lab.pods()[0])
    lab.run()
    assert images(lab) == ["v1", "v1", "v2"]
    assert (status(lab)["currentReplicas"], status(lab)["updatedReplicas"]) == (2, 1)


def test_on_delete_updates_what_is_deleted() -> None:
    lab = started(updateStrategy={"type": "OnDelete"})
    change(lab, template=template("app:v2", app="db"))
    assert images(lab) == ["v1", "v1", "v1"]
    lab.delete(lab.pods()[1])
    lab.run()
    assert images(lab) == ["v1", "v2", "v1"]


def test_a_bad_image_stops_at_the_first_pod() -> None:
    lab = started()
    change(lab, template=template("app:bad", app="db"))
    assert images(lab) == ["v1", "v1", "bad"]
    assert status(lab)["readyReplicas"] == 2


def test_scaling_in_keeps_claims_and_scaling_out_uses_them() -> None:
    lab = started(volumeClaimTemplates=[DATA])
    uids = {c["metadata"]["name"]: c["metadata"]["uid"] for c in lab.world.objects(CLAIM, SPACE)}
    assert list(uids) == ["data-db-0", "data-db-1", "data-db-2"]
    change(lab, replicas=1)
    assert names(lab) == ["db-0"]
    change(lab, replicas=3)
    assert names(lab) == ["db-0", "db-1", "db-2"]
    again = {c["metadata"]["name"]: c["metadata"]["uid"] for c in lab.world.objects(CLAIM, SPACE)}
    assert again == uids


@pytest.mark.parametrize("options", [{}, {"gracePeriodSeconds": 0}], ids=["grace", "force"])
def test_a_deleted_pod_comes_back_with_its_name(options: dict[str, int]) -> None:
    lab = started()
    gone = lab.pods()[1]
    lab.delete(gone, **options)
    lab.run()
    assert names(lab) == ["db-0", "db-1", "db-2"]
    assert lab.pods()[1]["metadata"]["uid"] != gone["metadata"]["uid"]


def test_history_beyond_its_limit_is_deleted() -> None:
    lab = started(revisionHistoryLimit=1)
    for image in ("app:v2", "app:v3", "app:v4"):
        change(lab, template=template(image, app="db"))
    found = lab.world.objects(REVISION, SPACE)
    assert sorted(r["revision"] for r in found) == [3, 4]


def test_a_deleted_stateful_set_takes_its_pods_along_and_leaves_its_claims() -> None:
    lab = started(volumeClaimTemplates=[DATA])
    lab.delete(stateful())
    lab.run()
    assert lab.pods() == []
    assert len(lab.world.objects(CLAIM, SPACE)) == 3


def test_a_pod_carries_what_a_real_controller_writes() -> None:
    """Recorded from kube-controller-manager 1.34: the names are hashes of the revision's bytes."""
    noted = template("app:v1", app="db")
    noted = {**noted, "metadata": {**noted["metadata"], "annotations": {"note": "1"}}}
    lab = started(replicas=1, template=noted, volumeClaimTemplates=[DATA])
    (one,) = lab.pods()
    assert one["metadata"]["labels"] == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": "db-56974b74d7",
        "statefulset.kubernetes.io/pod-name": "db-0",
    }
    assert one["metadata"]["generateName"] == "db-"
    assert (one["spec"]["hostname"], one["spec"]["subdomain"]) == ("db-0", "db")
    assert one["spec"]["volumes"][0] == {
        "name": "data",
        "persistentVolumeClaim": {"claimName": "data-db-0"},
    }


def test_ctl_55_a_bad_pod_holds_the_update_that_mends_it() -> None:
    lab = started()
    change(lab, template=template("app:bad", app="db"))
    change(lab, template=template("app:v2", app="db"))
    assert images(lab) == ["v1", "v1", "bad"]
    lab.delete(lab.pods()[2])
    lab.run()
    assert images(lab) == ["v2", "v2", "v2"]


def test_ctl_54_parallel_pods_do_not_hold_it() -> None:
    lab = started(podManagementPolicy="Parallel")
    change(lab, template=template("app:bad", app="db"))
    change(lab, template=template("app:v2", app="db"))
    assert images(lab) == ["v2", "v2", "v2"]
