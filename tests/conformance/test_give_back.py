"""What we write on the wire is what OpenKruise expects to find, byte for byte."""

from __future__ import annotations

import json
from typing import Any, Final

from gitkruise.kube.client.codec import encode
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.times import format_time
from tests.conformance.test_takeover import DATA, GRACE, NEW, OLD, STATE, cloneset
from tests.worlds import SPACE, Lab

CLAIMS: Final = [
    {
        "metadata": {"name": "data", "labels": {"x": "y"}, "annotations": {"n": "1"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
]


def running(**strategy: Any) -> tuple[Lab, Obj]:
    """One pod with a claim, at rest."""
    raw = cloneset("nginx:1.25", 1, **strategy)
    raw["metadata"]["annotations"] = {"team": "a"}
    raw["spec"]["volumeClaimTemplates"] = CLAIMS
    lab = Lab()
    made = lab.apply(raw)
    lab.run()
    return lab, made


def owner(made: Obj) -> Obj:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def only(lab: Lab, group: str, kind: str) -> Any:
    (found,) = lab.world.objects(GroupKind(group, kind), SPACE)
    return found


def chosen(meta: Obj) -> dict[str, Any]:
    """Of an object's metadata, what a controller writes."""
    names = ("name", "generateName", "labels", "annotations", "ownerReferences")
    found = {name: meta[name] for name in names if name in meta}
    notes = found.get("annotations") or {}
    own = {k: v for k, v in notes.items() if not k.startswith(("pv.", "volume."))}
    return {**found, "annotations": own} if "annotations" in found else found


def test_a_revision_carries_the_exact_bytes_and_marks() -> None:
    lab, made = running()
    found = only(lab, "apps", "ControllerRevision")
    assert chosen(found["metadata"]) == {
        "name": OLD,
        "labels": {"app": "web", "controller.kubernetes.io/hash": "cd5565c86"},
        "annotations": {"team": "a", "kruise.io/cloneset-volumeclaimtemplate-hash": "1866150430"},
        "ownerReferences": [owner(made)],
    }
    assert found["revision"] == 1
    assert b'"data":' + DATA.encode() in encode(found)


def test_a_pod_and_its_claim_carry_what_they_are_found_by() -> None:
    lab, made = running()
    (pod,) = lab.pods()
    labels = pod["metadata"]["labels"]
    instance = labels["apps.kruise.io/cloneset-instance-id"]
    assert len(instance) == 5
    assert set(instance) <= set("bcdfghjklmnpqrstvwxz2456789")
    written = chosen(pod["metadata"])
    at = written["annotations"].pop("lifecycle.apps.kruise.io/timestamp")
    assert at.startswith("2026-11-21T10:00")
    assert written == {
        "name": f"web-{instance}",
        "generateName": "web-",
        "labels": {
            "app": "web",
            "apps.kruise.io/cloneset-instance-id": instance,
            "controller-revision-hash": OLD,
            "pod-template-hash": "cd5565c86",
            "lifecycle.apps.kruise.io/state": "Normal",
        },
        "annotations": {},
        "ownerReferences": [owner(made)],
    }
    assert {"conditionType": "InPlaceUpdateReady"} in pod["spec"]["readinessGates"]
    assert pod["spec"]["volumes"][0] == {
        "name": "data",
        "persistentVolumeClaim": {"claimName": f"data-web-{instance}"},
    }
    assert chosen(only(lab, "", "PersistentVolumeClaim")["metadata"]) == {
        "name": f"data-web-{instance}",
        "labels": {"x": "y", "app": "web", "apps.kruise.io/cloneset-instance-id": instance},
        "annotations": {"n": "1"},
        "ownerReferences": [owner(made)],
    }


def conditions(pod: Obj) -> dict[str, tuple[str, Any, Any]]:
    return {
        c["type"]: (c["status"], c.get("reason"), c.get("message"))
        for c in pod["status"]["conditions"]
    }


def test_an_update_in_place_is_written_down_as_openkruise_reads_it() -> None:
    lab, made = running()
    (before,) = lab.pods()
    change = [{"name": "main", "image": "nginx:1.26"}]
    lab.patch(made, {"spec": {"template": {"spec": {"containers": change}}}})
    lab.run(0)
    (pod,) = lab.pods()
    now = format_time(lab.now)
    last = before["status"]["containerStatuses"][0]["imageID"]
    assert pod["metadata"]["annotations"][STATE] == (
        f'{{"revision":"{NEW}","updateTimestamp":"{now}",'
        f'"lastContainerStatuses":{{"main":{{"imageID":"{last}"}}}},"updateImages":true,'
        f'"containerBatchesRecord":[{{"timestamp":"{now}","containers":["main"]}}]}}'
    )
    labels = pod["metadata"]["labels"]
    assert labels["controller-revision-hash"] == NEW
    assert labels["pod-template-hash"] == "c6778477c"
    assert labels["lifecycle.apps.kruise.io/state"] == "Updating"
    found = conditions(pod)
    assert found["InPlaceUpdateReady"] == ("False", "StartInPlaceUpdate", None)
    assert found["Ready"][:2] == ("False", "ReadinessGatesNotReady")
    assert found["KruisePodReady"][0] == "True"


def test_a_grace_period_is_written_down_as_openkruise_reads_it() -> None:
    lab, made = running(inPlaceUpdateStrategy={"gracePeriodSeconds": 30})
    change = {"containers": [{"name": "main", "image": "nginx:1.26"}]}
    meta = {"annotations": {"note": "x"}}
    lab.patch(made, {"spec": {"template": {"metadata": meta, "spec": change}}})
    lab.run(0)
    (pod,) = lab.pods()
    notes, name = pod["metadata"]["annotations"], pod["metadata"]["labels"]
    revision = name["controller-revision-hash"]
    assert notes[STATE] == (
        f'{{"revision":"{revision}","updateTimestamp":"{format_time(lab.now)}",'
        '"lastContainerStatuses":null,"updateImages":true}'
    )
    assert notes[GRACE] == (
        f'{{"revision":"{revision}","containerImages":{{"main":"nginx:1.26"}},"metaDataPatch":'
        '"eyJtZXRhZGF0YSI6eyJhbm5vdGF0aW9ucyI6eyJub3RlIjoieCJ9fX0=","graceSeconds":30}'
    )
    assert pod["spec"]["containers"][0]["image"] == "nginx:1.25"


def test_the_status_says_what_openkruise_says() -> None:
    lab, made = running()
    status = dict(lab.get(made)["status"])
    assert "conditions" not in status
    assert json.loads(json.dumps(status)) == {
        "observedGeneration": 1,
        "replicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "updatedReplicas": 1,
        "updatedReadyReplicas": 1,
        "updatedAvailableReplicas": 1,
        "expectedUpdatedReplicas": 1,
        "updateRevision": OLD,
        "currentRevision": OLD,
        "collisionCount": 0,
        "labelSelector": "app=web",
    }
