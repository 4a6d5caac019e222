"""Claims and volumes of the model cluster: provisioned, bound, protected and reclaimed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.world.controllers.volumes import CLAIM, VOLUME
from tests.worlds import SPACE, Lab, container, pod

ASKED: Final[dict[str, Any]] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "2Gi"}},
}


def claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": SPACE}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {**ASKED, **spec},
    }


def volume(name: str, size: str = "5Gi", **spec: Any) -> dict[str, Any]:
    body = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        **spec,
    }
    meta = {"name": name, "namespace": ""}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": body}


def phase(lab: Lab, obj: Obj) -> str | None:
    found = lab.get(obj)
    return None if found is None else get(found, "status", "phase")


def user(claimed: str = "data") -> dict[str, Any]:
    mount = {"name": "v", "persistentVolumeClaim": {"claimName": claimed}}
    return pod("p", container(), volumes=[mount])


def test_a_claim_gets_a_volume_of_its_own() -> None:
    lab = Lab()
    lab.apply(claim(storageClassName="fast"))
    lab.run()
    bound = lab.get(claim())
    (made,) = lab.world.objects(VOLUME)
    assert bound["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
    }
    assert bound["spec"]["volumeName"] == made["metadata"]["name"]
    assert bound["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert made["metadata"]["name"] == f"pvc-{bound['metadata']['uid']}"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert made["status"]["phase"] == "Bound"
    assert made["spec"]["storageClassName"] == "fast"
    assert made["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]


def test_a_volume_goes_with_its_claim() -> None:
    lab = Lab()
    lab.apply(claim())
    lab.run()
    lab.delete(claim())
    lab.run()
    assert lab.world.objects(CLAIM) == []
    assert lab.world.objects(VOLUME) == []


def test_a_claim_in_use_goes_after_its_pod() -> None:
    lab = Lab()
    lab.apply(claim())
    lab.apply(user())
    lab.run()
    lab.delete(claim())
    lab.run()
    assert lab.get(claim())["metadata"]["deletionTimestamp"]
    lab.delete(user())
    lab.run()
    assert lab.get(claim()) is None


def test_a_pod_without_a_node_does_not_keep_its_claim() -> None:
    lab = Lab(nodes=0)
    lab.apply(claim())
    lab.apply(user())
    lab.run(5)
    lab.delete(claim())
    lab.run(5)
    assert lab.get(claim()) is None


def test_a_bound_volume_goes_after_its_claim() -> None:
    lab = Lab()
    lab.apply(claim())
    lab.run()
    (made,) = lab.world.objects(VOLUME)
    made = {**made, "metadata": {**made["metadata"], "namespace": ""}}
    lab.delete(made)
    lab.run()
    assert phase(lab, made) == "Bound"
    lab.delete(claim())
    lab.run()
    assert lab.get(made) is None


def test_a_claim_takes_the_smallest_volume_that_fits() -> None:
    lab = Lab()
    for name, size in (("large", "9Gi"), ("fitting", "3Gi"), ("small", "1Gi")):
        lab.apply(volume(name, size))
    lab.apply(volume("other", "2Gi", storageClassName="fast"))
    lab.run()
    assert phase(lab, volume("small")) == "Available"
    lab.apply(claim())
    lab.run()
    assert lab.get(claim())["spec"]["volumeName"] == "fitting"
    assert lab.get(claim())["status"]["capacity"] == {"storage": "3Gi"}
    lab.delete(claim())
    lab.run()
    assert phase(lab, volume("fitting")) == "Released"  # its policy is Retain


@pytest.mark.parametrize("spec", [{"volumeName": "late"}, {"storageClassName": ""}])
def test_a_claim_waits_for_the_volume_it_asks_for(spec: dict[str, Any]) -> None:
    lab = Lab()
    lab.apply(claim(**spec))
    lab.run()
    assert phase(lab, claim()) == "Pending"
    lab.apply(volume("late"))
    lab.run()
    assert phase(lab, claim()) == "Bound"
    assert lab.get(claim())["spec"]["volumeName"] == "late"


def test_a_volume_of_another_claim_is_not_taken() -> None:
    lab = Lab()
    lab.apply(claim("one"))
    lab.run()
    (made,) = lab.world.objects(VOLUME)
    lab.apply(claim("two", volumeName=made["metadata"]["name"]))
    lab.run()
    assert phase(lab, claim("two")) == "Pending"


@pytest.mark.parametrize(
    ("expands", "size"), [(None, "3Gi"), (True, "3Gi"), (False, "2Gi")], ids=["none", "yes", "no"]
)
def test_a_bound_claim_gets_the_size_that_it_asks_for(expands: bool | None, size: str) -> None:
    lab = Lab()
    if expands is not None:
        lab.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fast", "namespace": ""},
                "provisioner": "example.com/disk",
                "allowVolumeExpansion": expands,
            }
        )
    lab.apply(claim(storageClassName="fast"))
    lab.run()
    lab.patch(claim(), {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    lab.run()
    (made,) = lab.world.objects(VOLUME)
    assert get(lab.get(claim()), "status", "capacity", "storage") == size
    assert get(made, "spec", "capacity", "storage") == size
