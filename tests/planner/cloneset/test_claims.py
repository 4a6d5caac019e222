"""Volume claims of pods that others delete: used again, or gone with their pods."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.worlds import SPACE, Lab, cloneset

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
ASKED: Final[dict[str, Any]] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
TEMPLATES: Final = [{"metadata": {"name": name}, "spec": ASKED} for name in ("data", "logs")]


def with_claims(*, reuse: bool, version: str = "v1beta1") -> dict[str, Any]:
    web = cloneset(replicas=4)
    if version == "v1alpha1":
        strategy: dict[str, Any] = {"updateStrategy": {}}
        strategy["scaleStrategy"] = {} if reuse else {"disablePVCReuse": True}
    else:
        strategy = {"scaleStrategy": {"enablePVCReuse": True} if reuse else {}}
    spec = {**web["spec"], "volumeClaimTemplates": TEMPLATES, **strategy}
    return {**web, "apiVersion": f"apps.kruise.io/{version}", "spec": spec}


def names(lab: Lab) -> tuple[set[str], dict[str, str]]:
    """(names of pods, uid of each claim by name)."""
    claims = lab.world.objects(CLAIM, SPACE)
    return {p["metadata"]["name"] for p in lab.pods()}, {
        c["metadata"]["name"]: c["metadata"]["uid"] for c in claims
    }


def evict(lab: Lab, pod: Obj) -> None:
    meta = {"name": pod["metadata"]["name"], "namespace": SPACE}
    request = ApiRequest(
        verb="create",
        resource=ResourceRef("", "v1", "pods"),
        namespace=SPACE,
        name=meta["name"],
        subresource="eviction",
        body={"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta},
    )
    lab.world.handle(request, lab.now)


def remove(lab: Lab, pod: Obj, way: str) -> None:
    if way == "evict":
        evict(lab, pod)
    else:
        lab.delete(pod, **({"gracePeriodSeconds": 0} if way == "force" else {}))


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
@pytest.mark.parametrize("way", ["delete", "force", "evict"])
def test_a_pod_that_others_delete_comes_back_with_its_name_and_volumes(
    way: str, version: str
) -> None:
    lab = Lab()
    lab.apply(with_claims(reuse=True, version=version))
    lab.run()
    before = names(lab)
    gone = lab.pods()[:2]
    uids = {p["metadata"]["uid"] for p in gone}
    for pod in gone:
        remove(lab, pod, way)
    lab.run()
    assert names(lab) == before
    assert not uids & {p["metadata"]["uid"] for p in lab.pods()}


def test_an_unscheduled_pod_comes_back_with_its_volumes() -> None:
    lab = Lab(nodes=0)
    lab.apply(with_claims(reuse=True))
    lab.run(5)
    before = names(lab)
    lab.delete(lab.pods()[0])
    lab.run(5)
    assert names(lab) == before


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
@pytest.mark.parametrize("way", ["delete", "force", "evict"])
def test_without_reuse_the_claims_of_deleted_pods_go(way: str, version: str) -> None:
    lab = Lab()
    lab.apply(with_claims(reuse=False, version=version))
    lab.run()
    _, before = names(lab)
    for pod in lab.pods():
        remove(lab, pod, way)
    lab.run()
    pods, claims = names(lab)
    assert len(pods) == 4
    assert len(claims) == 8
    assert not set(before.values()) & set(claims.values())


def test_the_replacement_waits_for_the_end_of_the_old_pod() -> None:
    lab = Lab()
    lab.apply(with_claims(reuse=True))
    lab.run()
    victim = lab.pods()[0]
    name = victim["metadata"]["name"]
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    lab.patch(victim, held)
    lab.delete(victim)
    lab.run(60)
    assert len(lab.pods()) == 4  # the old pod is one of them
    lab.patch(victim, {"metadata": {"finalizers": None}})
    lab.run(60)
    fresh = {p["metadata"]["name"]: p["metadata"]["uid"] for p in lab.pods()}
    assert len(fresh) == 4
    assert fresh[name] != victim["metadata"]["uid"]
